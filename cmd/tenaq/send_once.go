package main

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
	"tenaq/offload"
	"tenaq/producer"
	"tenaq/records"
)

// onceHelp explains send --once.
const onceHelp = `With --once the message is registered under --key in the records, then sent. The same command again sends
nothing, prints the id of the message that was sent, and exits with 0: so a script, a cron job or a batch can
be run again. Another body or other attributes under the same key are refused with exit code 4. A key is known
for --retention after its last write. The records are those of the workers: use the same --records and
--ledger as "tenaq pipe", and a duplicate is reported with the state of its work. When a run is killed between
registering and sending, the next run sends the message after 30 s; "tenaq claims sweep" finds it too.
--generation N sends completed work once more, on purpose.`

// onceFlags are those of send --once.
type onceFlags struct {
	claimsFlags
	once       bool
	key        string
	generation int
}

func (f *onceFlags) register(cmd *cobra.Command) {
	f.claimsFlags.register(cmd)
	f.registerRetention(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.once, "once", false, "send the message of --key once, however often this is run")
	flags.StringVar(&f.key, "key", "", "with --once: the `name` of the work, such as accounts-2026-02-28")
	flags.IntVar(&f.generation, "generation", 0, "with --once: this `number` sends completed work again; each is sent once")
}

// checkOnce refuses flags that exclude each other.
func (f *sendFlags) checkOnce(flags *pflag.FlagSet) error {
	if !f.once.once {
		for _, name := range []string{"key", "generation", "records", "ledger", "retention"} {
			if flags.Changed(name) {
				return usagef("--%s goes with --once", name)
			}
		}
		return nil
	}
	switch {
	case f.once.key == "":
		return usagef("--once needs --key: name the work, so that it is known when it comes again")
	case f.once.generation < 0:
		return usagef("--generation: %d is negative", f.once.generation)
	case f.lines:
		return usagef("--once and --lines exclude each other: every line would have the same key")
	case flags.Changed("dedup-id"):
		return usagef("--once and --dedup-id exclude each other: the key is the deduplication id")
	}
	return nil
}

// A sentOnce is the receipt of send --once, as --json prints it.
type sentOnce struct {
	MessageID      string       `json:"messageId"`
	SequenceNumber string       `json:"sequenceNumber,omitempty"`
	Key            string       `json:"key"`
	Generation     int          `json:"generation,omitempty"`
	New            bool         `json:"new"`                  // this run sent it
	Age            *float64     `json:"ageSeconds,omitempty"` // since it was sent, when another run did
	Work           claims.State `json:"work,omitempty"`       // of a duplicate; absent while nobody has begun it
}

// sendOnce sends a message unless its key was sent before.
func (a *app) sendOnce(ctx context.Context, f *sendFlags, l letter, bodies *offload.Offloader, queue, body string) error {
	if len(l.zeros) > 0 {
		return usagef("--delay: with --once leave it out, and the queue's own delay holds")
	}
	c, err := f.connect(ctx)
	if err != nil {
		return err
	}
	url, err := c.queueURL(ctx, queue)
	if err != nil {
		return err
	}
	switch fifo := strings.HasSuffix(url, ".fifo"); {
	case fifo && l.group == nil:
		return usagef("%s is a FIFO queue; name a group with --group", queueNameOf(url))
	case fifo && l.delay > 0:
		return usagef("--delay: a FIFO queue takes no delay of one message; set DelaySeconds on the queue")
	}
	retention, err := parseDuration(f.once.retention)
	if err != nil {
		return usagef("--retention: %v", err)
	}
	store, err := f.once.recordsFlags.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	work, err := claims.New(store, claims.Config{Prefix: f.once.ledger, Retention: retention})
	if err != nil {
		return usagef("%v", err)
	}
	p, err := producer.New(c.Client, store, producer.Config{
		QueueURL: url, Prefix: registrationsPrefix + queueNameOf(url) + "/", Owner: person() + " (tenaq send)", Retention: retention, Work: work,
	})
	if err != nil {
		return usagef("%v", err)
	}
	name := claims.EffectKey(f.once.key, f.once.generation)
	kept, attributes, err := newKeeper(bodies, url, &name).keep(ctx, body, l.attributes)
	if err != nil {
		return err
	}
	m := producer.Message{Key: f.once.key, Generation: f.once.generation, Body: kept, Attributes: attributes, Delay: time.Duration(l.delay) * time.Second}
	if l.group != nil {
		m.Group = *l.group
	}
	receipt, err := p.SendOnce(ctx, m)
	if err := c.explainOnce(queue, store, &receipt, err); err != nil {
		return adviseBodies(err, body, bodies)
	}
	return a.printSentOnce(queue, &receipt)
}

// explainOnce says why a message was not sent once. A receipt that differs is an error, whatever the error says.
func (c *client) explainOnce(queue string, store *recordStore, r *producer.Receipt, err error) error {
	name := claims.EffectKey(r.Key, r.Generation)
	var busy *claims.Busy
	switch {
	case r.Differs:
		what := "nothing was sent"
		if r.New {
			what = "the registered one was sent now, as " + r.MessageID
		} else if r.MessageID != "" {
			what = "the registered one was sent as " + r.MessageID
		}
		return codedf(exitRefused, "key %q is registered for %s with another message: %s. Use another --key, or --generation to do the work again", name, queueNameOf(queue), what)
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return codedf(exitFailed, "interrupted; run the same command again")
	case errors.As(err, &busy):
		return codedf(exitRefused, "key %q is being sent by %s; run the same command again in %s", name, cmp.Or(busy.Entry.Owner, "another process"), humanDuration(busy.RetryIn.Round(time.Second)))
	case errors.Is(err, producer.ErrRefused):
		return c.explainSend(queue, err)
	}
	return codedf(exitFailed, "%s (records in %s)", inOneLine(err), store.place)
}

func (a *app) printSentOnce(queue string, r *producer.Receipt) error {
	d := sentOnce{MessageID: r.MessageID, SequenceNumber: r.SequenceNumber, Key: r.Key, Generation: r.Generation, New: r.New, Work: r.Work}
	if !r.New {
		d.Age = ageDocument(r.Age)
		when, what := "", "its work has not begun"
		if r.Age != records.AgeUnknown {
			when = " " + ageText(r.Age) + " ago"
		}
		if r.Work != "" {
			what = "its work is " + string(r.Work)
		}
		a.note("key %q was sent to %s%s, and %s; nothing was sent now", claims.EffectKey(r.Key, r.Generation), queueNameOf(queue), when, what)
	}
	return a.result(d, "%s", cmp.Or(r.MessageID, fmt.Sprintf("%q was settled without a message", r.Key)))
}
