package dead

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
)

// A replayFlags is the command replay.
type replayFlags struct {
	cli.ClientFlags
	id, key, group, outcome, text string
	kind, reason                  string
	attributes                    []string
	from, before                  time.Time
	missing                       bool
	startFlags
}

// NewReplayCmd returns the command replay.
func NewReplayCmd(a *cli.App) *cobra.Command {
	f := &replayFlags{}
	cmd := &cobra.Command{
		Use:   "replay QUEUE",
		Short: "Send past messages of a queue again, from its history",
		Long: `Send past messages of a queue again, from the history that the queue keeps with
the tag tenaq:history. Without --yes it only counts the messages and shows
three of them.

A replay is one of two kinds:

  all (default)  Every message that the flags select is sent as a new
                 generation: workers that do work once run again. Cards are
                 charged again.
  --missing      Only what no consumer has deleted is sent, in its own
                 generation: what expired, and dead letters that are gone.

Messages that are still in a queue are left out. So are messages that a task
deleted, unless you pass --outcome removed. Each message is sent once, in the
order in which the messages ended. While requests are waiting, a replay takes
at most a sixth of the server's writing time. An interrupt leaves it running;
see "tenaq task".

"tenaq outbox replay" sends from the rows of an outbox instead: it needs a
database and no history, and also works with Amazon SQS.`,
		Example: `  tenaq replay orders --from 7d
  tenaq replay orders --from 7d --before 2h --rate 50 --yes
  tenaq replay orders --from 24h --missing --yes
  tenaq replay orders --key order-17 --to orders-test --yes`,
		Args: cli.Wants(1, 1),
		RunE: f.OnQueueV1(cli.HistoryLack, func(
			ctx context.Context, v *cli.V1Client, queue string, _ []string,
		) error {
			return f.run(ctx, a, v, queue)
		}),
	}
	f.Register(cmd)
	flags := cmd.Flags()
	cli.Value(flags, &f.from, "from", "", "ended at this `time` or later; 2h is two hours ago",
		cli.ParseTimeOrAgo)
	cli.Value(flags, &f.before, "before", "", "ended before this `time`; 2h is two hours ago",
		cli.ParseTimeOrAgo)
	cli.Text(flags, &f.id, "id", "only the message with this or this lineage `id`")
	cli.Text(flags, &f.key, "key", "only messages of the work with this `key`")
	cli.Text(flags, &f.group, "group", "only messages of this message `group`")
	cli.Text(flags, &f.outcome, "outcome", "only messages with this `outcome`")
	flags.StringArrayVar(&f.attributes, "attribute", nil,
		"only messages with this attribute, `NAME=VALUE`")
	cli.Text(flags, &f.text, "text", "only messages whose body contains this `text`")
	cli.Text(flags, &f.kind, "kind", "only messages that failed for this `kind` of reason")
	cli.Text(flags, &f.reason, "reason", "only messages whose reason contains this `text`")
	flags.BoolVar(&f.missing, "missing", false, "send only what was never completed")
	cli.Text(flags, &f.to, "to", "send the messages to this `queue` instead")
	f.startFlags.register(cmd, "send")
	cli.Completes(cmd, "outcome", "deleted", "expired", "dead_lettered", "moved", "parked",
		"replaced", "removed")
	return cmd
}

// filter is what the server is asked for.
func (f *replayFlags) filter() (map[string]any, error) {
	attributes, err := attributesOf(f.attributes)
	if err != nil {
		return nil, err
	}
	in := make(map[string]any)
	putSet(in, map[string]string{"id": f.id, "key": f.key, "group": f.group,
		"outcome": f.outcome, "text": f.text, "kind": f.kind, "reason": f.reason})
	putSet(in, map[string]time.Time{"from": f.from, "before": f.before})
	if len(attributes) > 0 {
		in["attributes"] = attributes
	}
	return in, nil
}

// A replayCount is what a replay would send.
type replayCount struct {
	counted
	Skips    v1.ReplaySkips `json:"skips"`
	Outcomes []cli.Outcome  `json:"outcomes"`
}

// skipsText says why outcomes are left out.
func skipsText(s *v1.ReplaySkips) string {
	var why []string
	for _, part := range []struct {
		n   int64
		why string
	}{{s.Live, "still in a queue"}, {s.Later, "with a later outcome"},
		{s.Refused, "too large for the queue"}} {
		if part.n > 0 {
			why = append(why, fmt.Sprintf("%d %s", part.n, part.why))
		}
	}
	return strings.Join(why, ", ")
}

func (c *replayCount) add(part *replayCount) {
	c.Outcomes = append(c.Outcomes, part.Outcomes...)
	c.Outcomes = c.Outcomes[:min(samplesMax, len(c.Outcomes))]
	c.Skips.Live += part.Skips.Live
	c.Skips.Later += part.Skips.Later
	c.Skips.Refused += part.Skips.Refused
}

func (f *replayFlags) run(
	ctx context.Context, a *cli.App, v *cli.V1Client, queue string,
) error {
	filter, err := f.filter()
	if err != nil {
		return err
	}
	if f.to, err = v.QueueName(ctx, f.to); err != nil {
		return err
	}
	asked := map[string]any{"queue": queue, "do": "replay", "filter": filter, "missing": f.missing}
	if f.to != "" {
		asked["to"] = f.to
	}
	in := maps.Clone(asked)
	found, err := count[replayCount](ctx, a, v, "count the history of", asked, f.limit)
	switch {
	case err != nil:
		return err
	case !f.yes:
		return f.dryRun(a, queue, &found)
	case found.Count == 0:
		return a.Result(&found, "no messages of %s to replay%s", queue, left(&found))
	}
	in["expected"] = found.Count
	return f.start(ctx, a, v, "replay messages of", queue, in)
}

// left says what a replay leaves out.
func left(found *replayCount) string {
	if found.Skipped == 0 {
		return ""
	}
	return fmt.Sprintf("; leaves out %s: %s", cli.Counted(found.Skipped, "outcome", "outcomes"),
		skipsText(&found.Skips))
}

// dryRun says what a replay would send.
func (f *replayFlags) dryRun(a *cli.App, queue string, found *replayCount) error {
	if a.JSON {
		return a.PrintJSON(found)
	}
	kind := "as a new generation"
	if f.missing {
		kind = "that no consumer completed"
	}
	if err := a.Result(nil, "would send %s of %s again%s %s (%s)%s",
		cli.Counted(found.Count, "message", "messages"), queue,
		cli.OrEmpty(f.to != "", " to "+f.to), kind, cli.HumanSize(found.Bytes),
		left(found)); err != nil {
		return err
	}
	if len(found.Outcomes) > 0 {
		t := cli.Table{Head: []string{"SAMPLE", "OUTCOME", "ENDED", "KEY", "BODY"}}
		for i := range found.Outcomes {
			o := &found.Outcomes[i]
			t.Add(o.ID, o.Outcome, o.Ended.Format(time.RFC3339), cli.OrDash(o.Key),
				cli.FirstWords(o.Beginning(), cli.PeekReasonTable))
		}
		if err := a.PrintTable(t); err != nil {
			return err
		}
	}
	a.Note("nothing was changed; add --yes to do it")
	return nil
}
