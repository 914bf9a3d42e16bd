package messages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/offload"
	"tenaq/producer"
	"tenaq/records"
)

const onceHelp = `--once registers the message under --key in the records, then sends it. The same
command again sends nothing, prints the id of the sent message and exits with 0,
so a script or a cron job can be repeated. Another body or other attributes
under the same key are refused with exit code 4. A key is known for --retention
after its last write.

With the same --records and --ledger as the workers, the command also reports
the state of a duplicate's work. If a run is killed between registering and
sending, the next run sends the message after 30 s; "tenaq claims sweep" finds
it too. --generation N deliberately sends completed work again.`

type onceFlags struct {
	cli.ClaimsFlags
	once       bool
	key        string
	generation int
}

func (f *onceFlags) register(cmd *cobra.Command) {
	f.ClaimsFlags.Register(cmd)
	f.RegisterRetention(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.once, "once", false, "send the message of --key only once")
	flags.StringVar(&f.key, "key", "", "with --once: `name` of the work")
	cli.Number(flags, &f.generation, "generation", 0, 0, 0,
		"with --once: generation `number` of the work")
}

func (f *sendFlags) checkOnce(flags *pflag.FlagSet) error {
	if !f.once.once {
		for _, name := range []string{"key", "generation", "records", "ledger", "retention"} {
			if flags.Changed(name) {
				return cli.Usagef("--%s needs --once", name)
			}
		}
		return nil
	}
	switch {
	case f.once.key == "":
		return cli.Usagef("--once needs --key, which names the work")
	case f.lines:
		return cli.Usagef("--once and --lines exclude each other: every line would have the same key")
	case flags.Changed("dedup-id"):
		return cli.Usagef("--once and --dedup-id exclude each other: the key makes the deduplication id")
	}
	return nil
}

type sentOnce struct {
	MessageID      string `json:"messageId"`
	SequenceNumber string `json:"sequenceNumber,omitempty"`
	Key            string `json:"key"`
	Generation     int    `json:"generation,omitempty"`
	New            bool   `json:"new"` // sent by this run
	// since it was sent, if another run sent it
	Age *float64 `json:"ageSeconds,omitempty"`
	// of a duplicate; absent if it has not begun
	Work claims.State `json:"work,omitempty"`
}

func sendOnce(
	ctx context.Context, a *cli.App, f *sendFlags, l letter, bodies *offload.Offloader,
	c *cli.Client, url, body string,
) error {
	name, fifo := cli.QueueNameOf(url), strings.HasSuffix(url, ".fifo")
	switch {
	case len(l.zeros) > 0:
		return cli.Usagef("--delay 0 and --once exclude each other; leave it out for the delay of the queue")
	case fifo && l.group == nil:
		return cli.Usagef("%s is a FIFO queue; name a group with --group", name)
	case fifo && l.delay > 0:
		return cli.Usagef("--delay: a FIFO queue takes no delay of one message; set DelaySeconds on the queue")
	}
	store, err := f.once.RecordsFlags.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	work, err := claims.New(claims.Config{Store: store, Prefix: f.once.Ledger,
		Retention: f.once.Retention})
	if err != nil {
		return cli.Usagef("%v", err)
	}
	p, err := producer.New(producer.Config{
		Client: c.Client, Store: store, QueueURL: url, Prefix: producer.Prefix + name + "/",
		Owner: cli.Person() + " (tenaq send)", Retention: f.once.Retention, Work: work,
	})
	if err != nil {
		return cli.Usagef("%v", err)
	}
	key := claims.EffectKey(f.once.key, f.once.generation)
	kept, attributes, err := cli.NewKeeper(bodies, url, &key).Keep(ctx, body, l.attributes)
	if err != nil {
		return err
	}
	m := producer.Message{Key: f.once.key, Generation: f.once.generation, Body: kept,
		Attributes: attributes, Delay: time.Duration(l.delay) * time.Second}
	if l.group != nil {
		m.Group = *l.group
	}
	receipt, err := p.SendOnce(ctx, m)
	if err := explainOnce(c, name, store, &receipt, err); err != nil {
		return cli.AdviseBodies(err, body, bodies)
	}
	return printSentOnce(a, name, &receipt)
}

// explainOnce explains why a message was not sent once. A receipt that differs is an error in any
// case.
func explainOnce(
	c *cli.Client, queue string, store *cli.RecordStore, r *producer.Receipt, err error,
) error {
	name := claims.EffectKey(r.Key, r.Generation)
	refused, _ := errors.AsType[*claims.Refused](err)
	switch {
	case r.Differs:
		what := "nothing was sent"
		if r.New {
			what = "the registered one was sent now, as " + r.MessageID
		} else if r.MessageID != "" {
			what = "the registered one was sent as " + r.MessageID
		}
		return cli.Codedf(cli.ExitRefused,
			"key %q is registered for %s with another message: %s. Use another --key, or --generation to do the work again", name, queue, what)
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return cli.Codedf(cli.ExitFailed, "interrupted; run the same command again")
	case refused != nil && refused.Why == claims.Busy:
		return cli.Codedf(cli.ExitRefused,
			"key %q is being sent by %s; run the same command again in %s", name,
			cmp.Or(refused.Owner, "another process"),
			cli.HumanDuration(refused.RetryIn.Round(time.Second)))
	case errors.Is(err, producer.ErrRefused):
		return explainSend(c, queue, err)
	}
	return cli.Codedf(cli.ExitFailed, "%s (records in %s)", cli.InOneLine(err), store.Place)
}

func printSentOnce(a *cli.App, queue string, r *producer.Receipt) error {
	d := sentOnce{MessageID: r.MessageID, SequenceNumber: r.SequenceNumber, Key: r.Key,
		Generation: r.Generation, New: r.New, Work: r.Work}
	if !r.New {
		d.Age = cli.AgeDocument(r.Age)
		when, what := "", "its work has not begun"
		if r.Age != records.AgeUnknown {
			when = " " + cli.AgeText(r.Age) + " ago"
		}
		if r.Work != "" {
			what = "its work is " + string(r.Work)
		}
		a.Note("key %q was sent to %s%s, and %s; nothing was sent now",
			claims.EffectKey(r.Key, r.Generation), queue, when, what)
	}
	return a.Result(d, "%s", cmp.Or(r.MessageID,
		fmt.Sprintf("%q was settled without a message", r.Key)))
}
