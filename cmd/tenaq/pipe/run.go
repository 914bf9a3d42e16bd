package pipe

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/worker"
	"tenaq/worker/pipe"
)

// run works on the messages of a queue until ctx ends, or until --once or --until-empty says so.
func (f *pipeFlags) run(
	ctx context.Context, a *cli.App, queue string, cfg worker.Config, handler worker.Handler,
) error {
	metrics, err := f.Listen()
	if err != nil {
		return err
	}
	defer metrics.Close()
	c, err := f.ClientFlags.Connect(ctx)
	if err != nil {
		return err
	}
	if err := f.findQueues(ctx, c, queue, &cfg, handler); err != nil {
		return err
	}
	logger := f.log.Style(a, slog.LevelInfo).Logger(a.Stderr)
	if !cfg.NoClaims {
		store, err := f.OpenLogged(ctx, logger)
		if err != nil {
			return err
		}
		defer store.Close()
		cfg.Claims, err = claims.New(claims.Config{Store: store, Prefix: f.ledger,
			Lease: cfg.Lease})
		if err != nil {
			return cli.Usagef("%v", err)
		}
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	name := cli.QueueNameOf(cfg.QueueURL)
	counts := NewObserver(logger.With("queue", name), name, cfg.Concurrency)
	end := newPipeEnd(c.Client, cfg.QueueURL, f.untilEmpty, counts.log, stop)
	cfg.Middleware = []worker.Middleware{counts.around}
	cfg.Client, cfg.Handler, cfg.Logger, cfg.Events = c.Client, handler, logger, counts.events(end)
	cfg.Memo = func(*worker.Message) []byte { return newPipeMemo(name) }
	if f.once || f.untilEmpty {
		cfg.Client = end
	}
	w, err := worker.New(cfg)
	if err != nil {
		return cli.Usagef("%v", err)
	}
	metrics.Serve(counts.log, counts.Write)
	if err = w.Run(ctx); err == nil {
		err = end.verdict()
	}
	counts.summary()
	return err
}

// findQueues finds the queues that the flags name, so that errors about them read as in other
// commands.
func (f *pipeFlags) findQueues(
	ctx context.Context, c *cli.Client, queue string, cfg *worker.Config, handler worker.Handler,
) (err error) {
	if cfg.QueueURL, err = c.QueueURL(ctx, queue); err != nil {
		return err
	}
	const arn = types.QueueAttributeNameQueueArn
	attributes, err := c.Attributes(ctx, "work on", cfg.QueueURL, arn)
	if err != nil {
		return err
	}
	if l, ok := handler.(*pipe.Lambda); ok {
		l.QueueARN = attributes[string(arn)]
	}
	if f.deadLetter != "" {
		cfg.DeadLetterURL, err = c.QueueURL(ctx, f.deadLetter)
	}
	return err
}

// A pipeMemo is stored in the ledger with the first claim on a key.
type pipeMemo struct {
	Queue string `json:"queue"`
}

func newPipeMemo(queue string) []byte {
	memo, err := json.Marshal(pipeMemo{queue})
	if err != nil {
		return nil // a name can be encoded
	}
	return memo
}
