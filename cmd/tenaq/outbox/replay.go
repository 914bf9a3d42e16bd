package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/outbox"
)

type outboxReplayFlags struct {
	*flags
	cli.ClaimsFlags

	from, to, where, query, queryFile string
	queues, types, keys               []string
	missing, run, beside              bool
	lane, note                        string
	rate                              float64
	ahead, generation, samples        int
}

func newOutboxReplayCmd(a *cli.App, o *flags) *cobra.Command {
	f := &outboxReplayFlags{flags: o}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Send again what was sent once, so that consumers really work on it again",
		Long: `Send again what was sent between two moments, from the rows that are still in the outbox: after a mistake in
a consumer, for example, that is mended now.

Without --run it is a plan: how many messages a run would send, from how many rows, which rows it would leave
out and why, and a few of them. Rows about the same work are sent once. With --run it writes the messages into
the outbox as new rows, at --rate, and relays send them; while more than --ahead rows are due it waits, so
live messages do not queue behind it. It can be interrupted at any moment, or killed, and continued: what it
has written is known to the database in the same transactions. A record of it stays, with who and why.

Consumers that do a work once skip messages about work that they have completed. So there are two kinds:

  to do it again, which is the default: messages get a new generation, so workers really run, and give their
  payment providers a new key. Whatever they do happens again: cards are charged again, mails sent again.

  --missing-only, to fill gaps: only what the ledger of the workers does not know as completed is sent, with
  the identity that it had. It knows back to its retention only.

Which messages is said by when they were sent, and by --queue, --type, --key and --where; or by --query, a
SELECT whose columns have the names of those of an outbox (aggregatetype, aggregateid, type, payload,
group_id, headers, generation, and dedup_id or id to name the work), which makes rows out of tables of the
business when those of the outbox are gone. Both run as they are, as the user of --db.

` + outboxHelp + `

With --missing-only the ledger is asked.
` + cli.RecordsHelp,
		Example: `  tenaq outbox replay --from 168h --queue transcode                    # says what it would send
  tenaq outbox replay --from 2026-01-24 --to 2026-01-31T12:00:00Z --where "headers->>'tenant' = 't1'" --run --note 'wrong volume'
  tenaq outbox replay --from 24h --missing-only --run
  tenaq outbox replay --query "SELECT 'transcode' AS aggregatetype, job_id AS aggregateid, 'job-' || job_id AS dedup_id, spec AS payload FROM jobs WHERE status <> 'done'" --run
  tenaq outbox replay list
  tenaq outbox replay cancel 3`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.replay(cmd.Context(), a) },
	}
	f.ClaimsFlags.Register(cmd)
	f.RegisterRetention(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "replay what was sent from this `moment` on: 2026-01-31 (in UTC), 2026-01-31T12:00:00Z, or 168h for so long ago")
	flags.StringVar(&f.to, "to", "", "and before this `moment` (default: now)")
	flags.StringArrayVar(&f.queues, "queue", nil, "only what rows sent to this `queue`, as they name it; may be repeated")
	flags.StringArrayVar(&f.types, "type", nil, "only messages of this `type`; may be repeated")
	flags.StringArrayVar(&f.keys, "key", nil, "only messages about this `key`; may be repeated")
	flags.StringVar(&f.where, "where", "", "only rows for which this `condition` in SQL is true, about the columns of the outbox, sent_at, sent_to and message_id")
	flags.StringVar(&f.query, "query", "", "replay what this `SELECT` returns instead")
	flags.StringVar(&f.queryFile, "query-file", "", "read --query from this `file`")
	flags.BoolVar(&f.missing, "missing-only", false, "send only what the ledger does not know as completed, as what it was")
	flags.StringVar(&f.lane, "lane", "", "send all of it to this `queue`, for consumers of its own")
	flags.Float64Var(&f.rate, "rate", 50, "send this `number` of messages per second at most")
	flags.IntVar(&f.ahead, "ahead", 1000, "wait while more than this `number` of rows are due in the outbox")
	flags.IntVar(&f.generation, "generation", 0, "give this `number` as the generation, or a later one (default: that of the replay)")
	flags.IntVar(&f.samples, "samples", 5, "show this `number` of messages without --run")
	flags.StringVar(&f.note, "note", "", "write down `why`")
	flags.BoolVar(&f.beside, "beside", false, "begin although another replay is not at its end")
	flags.BoolVar(&f.run, "run", false, "do it, and do not only say what would be done")
	cmd.AddCommand(newOutboxReplayListCmd(a, o), newOutboxReplayShowCmd(a, o), newOutboxReplayContinueCmd(a, f), newOutboxReplayCancelCmd(a, o))
	return cmd
}

// openHistory opens an outbox to replay from.
func (f *flags) openHistory(ctx context.Context) (*openOutbox, outbox.History, error) {
	o, err := f.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return o, o.Box.(outbox.History), nil // which both are
}

// source reads the flags that say which messages are meant.
func (f *outboxReplayFlags) source(now time.Time) (s outbox.Source, err error) {
	s = outbox.Source{Queues: f.queues, Types: f.types, Keys: f.keys, Where: f.where, Query: f.query}
	if f.queryFile != "" {
		if f.query != "" {
			return s, cli.Usagef("--query and --query-file exclude each other")
		}
		text, err := os.ReadFile(f.queryFile)
		if err != nil {
			return s, cli.Usagef("--query-file: %v", err)
		}
		if s.Query = string(text); strings.TrimSpace(s.Query) == "" {
			return s, cli.Usagef("--query-file: %s is empty", f.queryFile)
		}
	}
	if s.Query == "" && f.from == "" {
		return s, cli.Usagef("which messages? Say from when on they were sent with --from, for example --from 168h, or give a --query")
	}
	for _, m := range []struct {
		name, text string
		to         *time.Time
	}{{"from", f.from, &s.From}, {"to", f.to, &s.To}} {
		if m.text != "" {
			if *m.to, err = parseBefore(m.text, now); err != nil {
				return s, cli.Usagef("--%s: %v", m.name, err)
			}
		}
	}
	if s.Query == "" && s.To.IsZero() {
		s.To = now
	}
	if err := s.Check(); err != nil {
		return s, cli.Usagef("%v", err)
	}
	return s, nil
}

// parseBefore reads a moment, a day, or a duration before now.
func parseBefore(s string, now time.Time) (time.Time, error) {
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, s); err == nil {
			return t, nil
		}
	}
	d, err := cli.ParseDuration(s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w, nor a moment such as 2026-01-31T12:00:00Z or a day", err)
	}
	return now.Add(-d), nil
}

func (f *outboxReplayFlags) replay(ctx context.Context, a *cli.App) error {
	now := time.Now()
	source, err := f.source(now)
	if err != nil {
		return err
	}
	o, history, err := f.openHistory(ctx)
	if err != nil {
		return err
	}
	defer o.Close()
	p := newReplayProgress(a)
	cfg := outbox.ReplayConfig{
		Box: history, Source: source, MissingOnly: f.missing, Lane: f.lane, Rate: f.rate, Ahead: f.ahead, Generation: f.generation,
		By: cli.Person(), Note: f.note, Progress: p.show, Logger: p.logger(),
	}
	switch {
	case f.rate == 0 || f.ahead == 0: // which would be the default
		return cli.Usagef("--rate and --ahead are more than 0")
	case f.samples < 0:
		return cli.Usagef("--samples: %d is negative", f.samples)
	}
	if f.run && !f.beside {
		if err := refuseSecond(ctx, o.place, history); err != nil {
			return err
		}
	}
	if f.missing {
		l, err := f.ClaimsFlags.Open(ctx)
		if err != nil {
			return err
		}
		defer l.Close()
		cfg.Ledger = l.Ledger
		if source.Query == "" && now.Sub(source.From) > l.Retention() {
			a.Note("workers keep entries of the ledger for %s as a rule: what was completed before that may be sent again", cli.HumanDuration(l.Retention()))
		}
	}
	r, err := outbox.NewReplayer(cfg)
	if err != nil {
		return cli.Usagef("%v", err)
	}
	if !f.run {
		plan, err := r.Plan(ctx, f.samples)
		p.Done()
		if err != nil {
			return explainReplay(o.place, err)
		}
		return printReplayPlan(a, &plan, f)
	}
	done, err := r.Run(ctx)
	return replayed(a, ctx, o.place, p, &done, err)
}

// refuseSecond wants no other replay to be under way: the same one twice would have everything done twice.
func refuseSecond(ctx context.Context, place place, history outbox.History) error {
	all, err := history.Replays(ctx, 100)
	if err != nil {
		return place.Explain(err)
	}
	for i := range all {
		if r := &all[i]; !r.AtEnd() {
			return cli.Codedf(cli.ExitRefused, "replay %d is %s, at %d of %d; go on with it: tenaq outbox replay continue %[1]d, or end it: tenaq outbox replay cancel %[1]d, or add --beside", r.Number, r.State, r.Read, r.Found)
		}
	}
	return nil
}

// explainReplay adds the exit code.
func explainReplay(place place, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, outbox.ErrSource):
		return cli.Usagef("%s", cli.InOneLine(err))
	case errors.Is(err, outbox.ErrNoReplay):
		return cli.Codedf(cli.ExitNotFound, "%v; see: tenaq outbox replay list", err)
	case errors.Is(err, outbox.ErrMoved):
		return cli.Codedf(cli.ExitRefused, "%v", err)
	}
	return place.Explain(err)
}

// A replayPlan is what a replay would do, as --json prints it.
type replayPlan struct {
	Run      bool           `json:"run"`
	Rows     int            `json:"rows"`     // that were sent
	Works    int            `json:"works"`    // pieces of work that these are about
	Messages int            `json:"messages"` // that a run would send
	LeftOut  replayLeftOut  `json:"leftOut"`
	Samples  []replaySample `json:"samples"`
}

// A replayLeftOut says which rows a replay does not send.
type replayLeftOut struct {
	SameWork  int `json:"sameWork"` // as another row
	Completed int `json:"completed"`
	Later     int `json:"laterGeneration"` // of the work has begun
	Parked    int `json:"parked"`
	Gone      int `json:"gone"`
}

func newReplayLeftOut(t *outbox.Tally) replayLeftOut {
	return replayLeftOut{SameWork: t.Same(), Completed: t.Completed, Later: t.Later, Parked: t.Parked, Gone: t.Gone}
}

// String lists the reasons; it is empty when nothing was left out.
func (l replayLeftOut) String() string {
	var parts []string
	say := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	say(l.Completed, "completed")
	say(l.Later, "begun in a later generation")
	say(l.Parked, "parked")
	say(l.Gone, "gone")
	say(l.SameWork, "about the same work as others")
	if len(parts) == 0 {
		return ""
	}
	return "; left out: " + strings.Join(parts, ", ")
}

type replaySample struct {
	ID        string     `json:"id,omitempty"`
	Queue     string     `json:"queue"`
	Key       string     `json:"key"`
	Type      string     `json:"type,omitempty"`
	Dedup     string     `json:"dedup,omitempty"`
	SentAt    *time.Time `json:"sentAt,omitempty"`
	MessageID string     `json:"messageId,omitempty"`
	Body      string     `json:"body"`
}

func printReplayPlan(a *cli.App, p *outbox.Plan, f *outboxReplayFlags) error {
	d := replayPlan{Rows: p.Count, Works: p.Works, Messages: p.Written, LeftOut: newReplayLeftOut(&p.Tally), Samples: []replaySample{}}
	for _, s := range p.First {
		d.Samples = append(d.Samples, replaySample{
			ID: s.ID, Queue: s.Queue, Key: s.Key, Type: s.Type, Dedup: s.Dedup, SentAt: cli.TimeOrNull(s.SentAt), MessageID: s.MessageID, Body: s.Body,
		})
	}
	if a.JSON {
		if err := a.PrintJSON(d); err != nil {
			return err
		}
	} else {
		t := cli.Table{Head: []string{"QUEUE", "KEY", "TYPE", "SENT", "BODY"}}
		for _, s := range d.Samples {
			sent := "-"
			if s.SentAt != nil {
				sent = s.SentAt.UTC().Format(time.RFC3339)
			}
			t.Add(s.Queue, cli.OrDash(s.Key), cli.OrDash(s.Type), sent, cli.FirstWords(s.Body, 80))
		}
		if len(d.Samples) > 0 {
			if err := a.PrintTable(t); err != nil {
				return err
			}
		}
	}
	if p.Count == 0 {
		a.Note("nothing was sent then; there is nothing to replay")
		return nil
	}
	what := "consumers do the work again"
	if f.missing {
		what = "consumers do what they never completed"
	}
	a.Note("%s to send, in %s at %v per second, from %s about %s%s; %s. Nothing was sent; add --run to send",
		messagesText(p.Written), cmp.Or(cli.HumanDuration(time.Duration(float64(p.Written)/f.rate*float64(time.Second)).Round(time.Second)), "no time"), f.rate,
		rowsText(p.Count), worksText(p.Works), d.LeftOut, what)
	return nil
}

func worksText(n int) string { return cli.Counted(n, "piece of work", "pieces of work") }

func messagesText(n int) string { return cli.Counted(n, "message", "messages") }
