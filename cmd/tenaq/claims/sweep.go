package claims

import (
	"context"
	"errors"
	"net/url"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/ops/sweep"
	"tenaq/producer"
	"tenaq/worker"
)

type sweepFlags struct {
	*cli.ClaimsFlags
	client         *cli.ClientFlags
	cfg            sweep.Config
	queues, settle []string
	run            bool
}

func newSweepCmd(a *cli.App, c *cli.ClaimsFlags, client *cli.ClientFlags) *cobra.Command {
	f := &sweepFlags{ClaimsFlags: c, client: client}
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Find work that is stuck, and send its messages again",
		Long: `Find work that is stuck, say what can be done about it, and with --run do it.
Work is stuck if it has been in one of these states for --stuck, which should be
longer than any pause between two attempts:

  held, lease expired  its holder is gone, and no other worker has taken over
  failed, released     no other delivery has taken it up
  not sent             a producer registered the message, and died or got no
                       answer before it was sent
  not begun            the message was sent, and the ledger has no entry of it

Its message is lost, or has been waiting for longer than --stuck: for its next
attempt, behind other messages, or as a dead letter. Check the queues first.

Messages that producers registered, under send/QUEUE/, are sent again under the
same key, at most once per --stuck. The claim on the key keeps the work from
being done twice if the first message is still there. Other messages are yours
to send. Work that awaits a decision and exhausted work are left alone.

If a queue moves a message to its dead-letter queue by itself, no worker sees
that and the claim stays as it is. --settle looks through such a dead-letter
queue and, with --run, records these claims as exhausted. A tenaq server shows
the dead letters without receiving them. On any other server, looking counts as
a receive, hides them for up to a minute, and ends after 1,000 of them.

Without --run nothing is changed. With --run the exit code is 5 if some work
could not be sent or settled, and 1 if none could. If workers or producers keep
entries for a time other than 15 days, pass that time as --retention: an entry
that has expired looks like work that was not begun.

DynamoDB has no clock: use --watch, which looks twice, that far apart. Work is
then stuck if its entry has not changed and its lease is shorter than --watch.`,
		Example: `  tenaq claims sweep
  tenaq claims sweep --stuck 1h --queue orders --run
  tenaq claims sweep --settle orders-dlq --run
  tenaq claims sweep --records dynamodb:tenaq-records --watch 15m --json | jq -r '.stuck[].key'`,
		Args: cli.Wants(0, 0),
		RunE: with(c, func(ctx context.Context, l *cli.Ledger, _ []string) error {
			f.cfg.Ledger = l
			for _, queue := range f.queues {
				f.cfg.Queues = append(f.cfg.Queues, cli.QueueNameOf(queue))
			}
			return f.sweep(ctx, a, f.cfg)
		}),
	}
	f.RegisterRetention(cmd)
	flags := cmd.Flags()
	cli.Duration(flags, &f.cfg.Stuck, "stuck", "15m", "minimum `age` of stuck work")
	cli.Duration(flags, &f.cfg.Watch, "watch", "", "look twice, this `duration` apart")
	flags.StringSliceVar(&f.queues, "queue", nil,
		"only what is registered for this `queue`; repeatable")
	flags.StringSliceVar(&f.settle, "settle", nil, "settle claims of this dead-letter `queue`")
	flags.BoolVar(&f.run, "run", false, "do it; without this flag nothing is changed")
	return cmd
}

func (f *sweepFlags) sweep(ctx context.Context, a *cli.App, cfg sweep.Config) error {
	s, err := sweep.New(ctx, cfg)
	if none, ok := errors.AsType[*sweep.NotRegistered](err); ok {
		return cli.Codedf(cli.ExitNotFound, "%w in %s%s", err, cfg.Ledger.Store.Place,
			cli.DidYouMean(none.Queue, none.Queues))
	}
	if err != nil {
		return explain(cfg.Ledger, err)
	}
	if err := f.findLetters(ctx, s.SetLetter); err != nil {
		return err
	}
	found, err := s.Find(ctx)
	switch {
	case errors.Is(err, sweep.ErrNoClock):
		return cli.Usagef("%s: %v; add --watch 15m to look twice, that far apart",
			cfg.Ledger.Store.Place, err)
	case err != nil:
		return explain(cfg.Ledger, err)
	}
	if f.run {
		var c *cli.Client
		err := s.Act(ctx, found, func(
			ctx context.Context, queue string,
		) (_ producer.SQS, url string, err error) {
			if c == nil {
				if c, err = f.client.Connect(ctx); err != nil {
					return nil, "", err
				}
			}
			url, err = c.QueueURL(ctx, queue)
			return c.Client, url, err
		})
		if err != nil {
			return err
		}
	}
	if err := report(a, s, found, cfg.Ledger); err != nil {
		return err
	}
	return verdict(a, found, f.run)
}

// findLetters finds the messages that queues have moved to dead-letter queues by themselves.
func (f *sweepFlags) findLetters(
	ctx context.Context, found func(message, deadLetter string),
) error {
	for _, queue := range f.settle {
		if !cli.IsAmazonURL(queue) {
			if peeked, err := f.peekLetters(ctx, queue, found); peeked || err != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		c, err := f.client.Connect(ctx)
		if err != nil {
			return err
		}
		url, err := c.QueueURL(ctx, queue)
		if err != nil {
			return err
		}
		err = worker.MovedLetters(ctx, c.Client, url, func(m types.Message) error {
			found(aws.ToString(m.MessageId), cli.QueueNameOf(queue))
			return nil
		})
		if err != nil {
			return c.Explain("look at", queue, err)
		}
	}
	return nil
}

// peekLetters finds them without a receive. It reports false if the server is not a tenaq server.
func (f *sweepFlags) peekLetters(
	ctx context.Context, queue string, found func(message, deadLetter string),
) (ok bool, err error) {
	v, err := f.client.ConnectV1(ctx, cli.PeekLack)
	if err != nil {
		return false, nil // it is Amazon, or the next request reports why
	}
	name, err := v.QueueName(ctx, queue)
	if err != nil {
		return false, nil // QueueURL reports why
	}
	for query := (url.Values{}); ; {
		list, err := v.Messages(ctx, name, query, cli.PeekPage)
		switch {
		case cli.ExitCode(err) == cli.ExitUsage: // the server has no such request
			return false, nil
		case err != nil:
			return false, err
		}
		for _, m := range list.Messages {
			if m.Source != "" {
				found(m.ID, list.Queue)
			}
		}
		if list.Next == "" {
			return true, nil
		}
		query.Set("after", list.Next)
	}
}

func report(a *cli.App, s *sweep.Sweeper, found []*sweep.Work, l *cli.Ledger) (err error) {
	t := cli.Table{Head: []string{"KEY", "STATE", "AGE", "ATTEMPTS", "OWNER", "MESSAGE", "ACTION",
		"WHY"}}
	for _, w := range found {
		t.Add(w.Key, stateText(w.State, true), cli.AgeText(w.Waited), strconv.Itoa(w.Attempts),
			cli.OrDash(w.Owner), cli.OrDash(w.Message), actionText(w), w.Why)
	}
	switch {
	case a.JSON:
		err = a.PrintJSON(map[string]any{"stuck": append([]*sweep.Work{}, found...),
			"parked": s.Parked, "unreadable": s.Unreadable})
	case len(found) == 0:
		a.Note("nothing is stuck in %s", l.Store.Place)
	default:
		err = a.PrintTable(t)
	}
	if s.Parked > 0 {
		a.Note("%s a decision; see: tenaq claims list --state parked",
			cli.Counted(s.Parked, "claim awaits", "claims await"))
	}
	if s.Unreadable > 0 {
		a.Note("%s cannot be read; see: tenaq claims list --state unreadable",
			cli.Counted(s.Unreadable, "claim", "claims"))
	}
	return err
}

func actionText(w *sweep.Work) string {
	switch {
	case w.Action == sweep.Settle && w.Error != "":
		return "not settled"
	case w.Settled:
		return "settled as exhausted"
	case w.Action == sweep.Settle:
		return "settle as exhausted"
	case w.Error != "":
		return "not sent to " + w.Queue
	case w.Sent != "":
		return "sent to " + w.Queue + " as " + w.Sent
	case w.Action == sweep.Resend:
		return "send again to " + w.Queue
	}
	return "-"
}

func verdict(a *cli.App, found []*sweep.Work, run bool) error {
	all, failed := make(map[string]int), 0 // by action
	for _, w := range found {
		all[w.Action]++
		if w.Error != "" {
			failed++
			a.Note("%s: %s", cli.OneLine(w.Key), cli.OneLine(w.Error))
		}
	}
	toDo := all[sweep.Resend] + all[sweep.Settle]
	if !run {
		if n := all[sweep.Resend]; n > 0 {
			a.Note("%d of %d can be sent again; add --run to send", n, len(found))
		}
		if n := all[sweep.Settle]; n > 0 {
			a.Note("%d of %d can be settled; add --run to settle", n, len(found))
		}
		return nil
	}
	return cli.Partly(toDo-failed, failed, "sent"+cli.OrEmpty(all[sweep.Settle] > 0,
		" or settled"))
}
