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

type replayFlags struct {
	*flags
	cli.ClaimsFlags
	client cli.ClientFlags     // of the server that may keep the claims
	cfg    outbox.ReplayConfig // what the flags say of it
	source outbox.Source
	now    time.Time // of both ends of the source, so that equal times are equal

	queryFile   string
	run, beside bool
	samples     int
}

func newReplayCmd(a *cli.App, o *flags) *cobra.Command {
	f := &replayFlags{flags: o, now: time.Now()}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Send past messages again, so that consumers work on them again",
		Long: `Send past messages again from the rows that are still in the outbox, for example
after a fix in a consumer.

Without --run the command prints a plan: how many messages a run would send,
from how many rows, which rows it would leave out and why, and a few of the
messages. With --run it writes the messages into the outbox as new rows, at
--rate, and relays send them. It waits while more than --ahead rows are due, so
that live messages do not queue behind it. A run that was interrupted or killed
can be continued. The outbox keeps a record of it.

Consumers that do each piece of work once skip what they have completed. So a
replay is one of two kinds:

  all (default)    Messages get a new generation: workers run again, and give
                   payment providers a new key. Cards are charged again.
  --missing-only   Only work that is not completed in the ledger of the workers
                   is sent, with its old identity. The ledger knows work only
                   for its retention period.

--from, --to, --queue, --type, --key and --where choose the messages. A moment
is 2026-01-31T12:00:00Z, a day in UTC such as 2026-01-31, or a time before now
such as 168h. --query takes messages from other tables instead: it is a SELECT
whose columns are named like those of an outbox; dedup_id or id names the work.
--where and --query run as the user of --db, unchanged. docs/outbox.md has more.

"tenaq replay" sends from the history that a tenaq server keeps of a queue
instead: it needs no outbox.`,
		Example: `  tenaq outbox replay --from 168h --queue transcode                    # prints the plan
  tenaq outbox replay --from 2026-01-24 --to 2026-01-31T12:00:00Z --where "headers->>'tenant' = 't1'" --run --note 'wrong volume'
  tenaq outbox replay --from 24h --missing-only --run
  tenaq outbox replay --query "SELECT 'transcode' AS aggregatetype, job_id AS aggregateid, 'job-' || job_id AS dedup_id, spec AS payload FROM jobs WHERE status <> 'done'" --run
  tenaq outbox replay list
  tenaq outbox replay cancel 3`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.replay(cmd.Context(), a) },
	}
	f.client.Register(cmd)
	f.ClaimsFlags.Register(cmd)
	f.Connect = f.client.Connect
	f.RegisterRetention(cmd)
	flags := cmd.Flags()
	cli.Value(flags, &f.source.From, "from", "", "only messages sent since this `moment`",
		moment(f.now, -1))
	cli.Value(flags, &f.source.To, "to", "", "only messages sent before this `moment` (default now)",
		moment(f.now, -1))
	flags.StringArrayVar(&f.source.Queues, "queue", nil,
		"only rows for this `queue`; may be repeated")
	flags.StringArrayVar(&f.source.Types, "type", nil,
		"only messages of this `type`; may be repeated")
	flags.StringArrayVar(&f.source.Keys, "key", nil,
		"only messages about this `key`; may be repeated")
	flags.StringVar(&f.source.Where, "where", "",
		"only rows for which this SQL `condition` is true")
	flags.StringVar(&f.source.Query, "query", "", "send what this `SELECT` returns instead")
	flags.StringVar(&f.queryFile, "query-file", "", "read --query from this `file`")
	flags.BoolVar(&f.cfg.MissingOnly, "missing-only", false, "send only work that is not completed")
	flags.StringVar(&f.cfg.Lane, "lane", "", "send everything to this `queue`")
	flags.Float64Var(&f.cfg.Rate, "rate", 50, "maximum `number` of messages per second")
	flags.IntVar(&f.cfg.Ahead, "ahead", 1000, "maximum `number` of due rows")
	flags.IntVar(&f.cfg.Generation, "generation", 0,
		"`number` of the generation (default: a new one)")
	cli.Number(flags, &f.samples, "samples", 5, 0, 0, "`number` of messages that the plan shows")
	flags.StringVar(&f.cfg.Note, "note", "", "`text` that says why; kept in the record")
	flags.BoolVar(&f.beside, "beside", false, "run even if another replay has not ended")
	flags.BoolVar(&f.run, "run", false, "do it; without this flag only the plan is printed")
	cmd.AddCommand(newReplayListCmd(a, o), newReplayShowCmd(a, o), newReplayContinueCmd(a, f),
		newReplayCancelCmd(a, o))
	return cmd
}

func (f *replayFlags) readSource() error {
	s := &f.source
	if f.queryFile != "" {
		if s.Query != "" {
			return cli.Usagef("--query and --query-file exclude each other; leave one out")
		}
		text, err := os.ReadFile(f.queryFile)
		if err != nil {
			return cli.Usagef("--query-file: %v", err)
		}
		if s.Query = string(text); strings.TrimSpace(s.Query) == "" {
			return cli.Usagef("--query-file: %s is empty", f.queryFile)
		}
	}
	if s.Query == "" && s.From.IsZero() {
		return cli.Usagef("which messages? Give the time from which they were sent, for example --from 168h, or a --query")
	}
	if s.Query == "" && s.To.IsZero() {
		s.To = f.now
	}
	if err := s.Check(); err != nil {
		return cli.Usagef("%v", err)
	}
	return nil
}

func (f *replayFlags) replay(ctx context.Context, a *cli.App) error {
	if err := f.readSource(); err != nil {
		return err
	}
	o, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer o.Close()
	switch {
	case f.cfg.Rate == 0 || f.cfg.Ahead == 0: // which would be the default
		return cli.Usagef("--rate and --ahead must be more than 0")
	case f.run && !f.beside:
		if err := o.refuseSecond(ctx); err != nil {
			return err
		}
	}
	p := newProgress(a)
	cfg := f.cfg
	cfg.Box, cfg.Source, cfg.By, cfg.Progress, cfg.Logger = o, f.source, cli.Person(), p.show,
		p.logger()
	if cfg.MissingOnly {
		l, err := f.ClaimsFlags.Open(ctx)
		if err != nil {
			return err
		}
		defer l.Close()
		cfg.Ledger = l.Ledger
		if cfg.Source.Query == "" && time.Since(cfg.Source.From) > l.Retention() {
			a.Note("workers usually keep ledger entries for %s; work that was completed earlier may be sent again", cli.HumanDuration(l.Retention()))
		}
	}
	r, err := outbox.NewReplayer(cfg)
	if err != nil {
		return cli.Usagef("%v", err)
	}
	if f.run {
		done, err := r.Run(ctx)
		return o.replayed(ctx, a, p, &done, err)
	}
	plan, err := r.Plan(ctx, f.samples)
	p.Done()
	if err != nil {
		return o.explainReplay(err)
	}
	return f.printPlan(a, &plan)
}

// refuseSecond rejects a replay beside another one: the same replay twice would repeat everything
// twice.
func (o *openOutbox) refuseSecond(ctx context.Context) error {
	all, err := o.Replays(ctx, 100)
	if err != nil {
		return explain(o.place, err)
	}
	for i := range all {
		if r := &all[i]; !r.AtEnd() {
			return cli.Codedf(cli.ExitRefused,
				"replay %d is %s, at %d of %d; continue it: tenaq outbox replay continue %[1]d, end it: tenaq outbox replay cancel %[1]d, or add --beside", r.Number, r.State, r.Read, r.Found)
		}
	}
	return nil
}

func (o *openOutbox) explainReplay(err error) error {
	switch {
	case errors.Is(err, outbox.ErrSource):
		return cli.Usagef("%s", cli.InOneLine(err))
	case errors.Is(err, outbox.ErrNoReplay):
		return cli.Codedf(cli.ExitNotFound, "%v; see: tenaq outbox replay list", err)
	case errors.Is(err, outbox.ErrMoved):
		return cli.Codedf(cli.ExitRefused, "%v", err)
	}
	return explain(o.place, err)
}

type planDocument struct {
	Run      bool    `json:"run"`
	Rows     int     `json:"rows"`     // that were sent
	Works    int     `json:"works"`    // pieces of work that these are about
	Messages int     `json:"messages"` // that a run would send
	LeftOut  leftOut `json:"leftOut"`
	Samples  []past  `json:"samples"` // of the messages
}

type leftOut struct {
	SameWork  int `json:"sameWork"` // as another row
	Completed int `json:"completed"`
	Later     int `json:"laterGeneration"` // of the work has begun
	Parked    int `json:"parked"`
	Gone      int `json:"gone"`
}

func newLeftOut(t *outbox.Tally) leftOut {
	return leftOut{SameWork: t.Same(), Completed: t.Completed, Later: t.Later, Parked: t.Parked,
		Gone: t.Gone}
}

// String lists the reasons; it is empty if nothing was left out.
func (l leftOut) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{l.Completed, "completed"}, {l.Later, "in a later generation"},
		{l.Parked, "awaiting a decision"}, {l.Gone, "gone"},
		{l.SameWork, "about the same work as others"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; left out: " + strings.Join(parts, ", ")
}

type past struct {
	ID        string     `json:"id,omitempty"`
	Queue     string     `json:"queue"`
	Key       string     `json:"key"`
	Type      string     `json:"type,omitempty"`
	Dedup     string     `json:"dedup,omitempty"`
	SentAt    *time.Time `json:"sentAt,omitempty"`
	MessageID string     `json:"messageId,omitempty"`
	Body      string     `json:"body"`
}

func (f *replayFlags) printPlan(a *cli.App, p *outbox.Plan) error {
	d := planDocument{Rows: p.Count, Works: p.Works, Messages: p.Written,
		LeftOut: newLeftOut(&p.Tally), Samples: []past{}}
	t := cli.Table{Head: []string{"QUEUE", "KEY", "TYPE", "SENT", "BODY"}}
	for _, s := range p.First {
		d.Samples = append(d.Samples, past{
			ID: s.ID, Queue: s.Queue, Key: s.Key, Type: s.Type, Dedup: s.Dedup,
			SentAt: cli.TimeOrNull(s.SentAt), MessageID: s.MessageID, Body: s.Body,
		})
		sent := "-"
		if !s.SentAt.IsZero() {
			sent = s.SentAt.UTC().Format(time.RFC3339)
		}
		t.Add(s.Queue, cli.OrDash(s.Key), cli.OrDash(s.Type), sent, cli.FirstWords(s.Body, 80))
	}
	var err error
	if a.JSON {
		err = a.PrintJSON(d)
	} else if len(t.Rows) > 0 {
		err = a.PrintTable(t)
	}
	if err != nil {
		return err
	}
	if p.Count == 0 {
		a.Note("no messages were sent in that time; there is nothing to replay")
		return nil
	}
	effect := "consumers do the work again"
	if f.cfg.MissingOnly {
		effect = "consumers do what they never completed"
	}
	seconds := time.Duration(float64(p.Written) / f.cfg.Rate * float64(time.Second))
	seconds = seconds.Round(time.Second)
	a.Note("%s to send, in %s at %v per second, from %s about %s%s; %s. Nothing was sent; add --run to send",
		cli.Counted(p.Written, "message", "messages"),
		cmp.Or(cli.HumanDuration(seconds), "no time"), f.cfg.Rate,
		rowsText(p.Count), cli.Counted(p.Works, "piece of work",
			"pieces of work"), d.LeftOut, effect)
	return nil
}
