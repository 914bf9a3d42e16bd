package outbox

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/outbox"
)

func newReplayListCmd(a *cli.App, f *flags) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the replays of an outbox",
		Long: `List the replays of an outbox, the newest first, including those that ended long
ago. A running replay that is no longer updated has lost its process: continue
it.`,
		Example: `  tenaq outbox replay list --db sqlite:app.db`,
		Args:    cli.Wants(0, 0),
		RunE: f.with(func(ctx context.Context, o *openOutbox, _ []string) error {
			all, err := o.Replays(ctx, limit)
			if err != nil {
				return explain(o.place, err)
			}
			var documents []document
			for i := range all {
				documents = append(documents, newDocument(&all[i]))
			}
			now := time.Now()
			return cli.PrintList(a, "replays", documents, "no replays in "+o.place.String(),
				[]string{"REPLAY", "STATE", "READ", "WRITTEN", "UPDATED", "BY", "NOTE"},
				func(r *document) []string {
					return []string{strconv.FormatInt(r.Number, 10), string(r.State),
						fmt.Sprintf("%d of %d", r.Read, r.Found), strconv.Itoa(r.Written),
						cli.AgoText(&r.Updated, now), cli.OrDash(r.By),
						cli.OrDash(cli.FirstWords(r.Note, 60))}
				})
		}),
	}
	cli.Number(cmd.Flags(), &limit, "limit", 20, 1, 0, "list at most this `number` of replays")
	return cmd
}

type document struct {
	Number int64 `json:"number"`
	outbox.Replay
}

func newDocument(r *outbox.Replay) document { return document{r.Number, *r} }

// withReplay opens the outbox and reads the replay whose number is the argument. An argument that
// is not a number is reported before the database is asked.
func (f *flags) withReplay(
	do func(context.Context, *openOutbox, *outbox.Replay) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		number, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || number < 1 {
			return cli.Usagef("%q is not the number of a replay; see: tenaq outbox replay list",
				args[0])
		}
		return f.with(func(ctx context.Context, o *openOutbox, _ []string) error {
			r, err := o.Replay(ctx, number)
			if err != nil {
				return o.explainReplay(fmt.Errorf("replay %d: %w", number, err))
			}
			return do(ctx, o, &r)
		})(cmd, args)
	}
}

func newReplayShowCmd(a *cli.App, f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "show NUMBER",
		Short: "Show a replay",
		Long: `Show a replay: what it sends, its progress, who began it and why, and how it
ended.`,
		Example: `  tenaq outbox replay show 3 --db sqlite:app.db`,
		Args:    cli.Wants(1, 1),
		RunE: f.withReplay(func(_ context.Context, _ *openOutbox, r *outbox.Replay) error {
			now, s := time.Now(), &r.Source
			fields := [][2]string{
				{"replay", fmt.Sprintf("%d, %s", r.Number, r.State)},
				{"begun", cli.TimeText(&r.Created, now)}, {"by", r.By}, {"note", r.Note},
				{"updated", cli.TimeText(&r.Updated, now)}, {"ended", r.Ended}, {"query", s.Query},
			}
			if s.Query == "" {
				fields = append(fields, [2]string{"sent",
					s.From.UTC().Format(time.RFC3339) + " to " + s.To.UTC().Format(time.RFC3339)})
			}
			kind := fmt.Sprintf("all, again in generation %d",
				cmp.Or(int64(r.Generation), r.Number))
			if r.MissingOnly {
				kind = "only what is missing"
			}
			return a.PrintCard(newDocument(r), "", append(fields, [][2]string{
				{"queues", strings.Join(s.Queues, ", ")}, {"types", strings.Join(s.Types, ", ")},
				{"keys", strings.Join(s.Keys, ", ")}, {"where", s.Where},
				{"sends", kind}, {"lane", r.Lane}, {"rate", fmt.Sprintf("%v per second", r.Rate)},
				{"read", fmt.Sprintf("%d of %s", r.Read, rowsText(r.Found))},
				{"written", rowsText(r.Written) + newLeftOut(&r.Tally).String()},
				{"process", r.Runner},
			}...)...)
		}),
	}
}

func newReplayContinueCmd(a *cli.App, f *replayFlags) *cobra.Command {
	var rate float64
	var ahead int
	cmd := &cobra.Command{
		Use:   "continue NUMBER",
		Short: "Continue a replay that was interrupted",
		Long: `Continue a replay that was interrupted, from where it stopped. If its process
still runs, that process stops, so the command can also change the rate of a
running replay. A replay with --missing-only needs the ledger again.`,
		Example: `  tenaq outbox replay continue 3 --db sqlite:app.db
  tenaq outbox replay continue 3 --rate 10`,
		Args: cli.Wants(1, 1),
		RunE: f.withReplay(func(ctx context.Context, o *openOutbox, r *outbox.Replay) error {
			if r.AtEnd() {
				return cli.Codedf(cli.ExitRefused,
					"replay %d is %s; begin another one with: tenaq outbox replay", r.Number,
					r.State)
			}
			p := newProgress(a)
			cfg := outbox.ReplayConfig{Box: o, Rate: rate, Ahead: ahead, Progress: p.show,
				Logger: p.logger()}
			if r.MissingOnly {
				l, err := f.ClaimsFlags.Open(ctx)
				if err != nil {
					return err
				}
				defer l.Close()
				cfg.Ledger = l.Ledger
			}
			replayer, err := outbox.NewReplayer(cfg)
			if err != nil {
				return cli.Usagef("%v", err)
			}
			done, err := replayer.Continue(ctx, r.Number)
			return o.replayed(ctx, a, p, &done, err)
		}),
	}
	cmd.Flags().Float64Var(&rate, "rate", 0, "`number` of messages per second (default: as before)")
	cmd.Flags().IntVar(&ahead, "ahead", 0, "maximum `number` of due rows (default: as before)")
	return cmd
}

func newReplayCancelCmd(a *cli.App, f *flags) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "cancel NUMBER",
		Short: "End a replay early",
		Long: `End a replay early. It writes no more rows and cannot be continued. Relays send
the rows that it has already written.`,
		Example: `  tenaq outbox replay cancel 3 --db sqlite:app.db --note 'the consumers are not fixed after all'`,
		Args:    cli.Wants(1, 1),
		RunE: f.withReplay(func(ctx context.Context, o *openOutbox, r *outbox.Replay) error {
			if r.AtEnd() {
				return cli.Codedf(cli.ExitRefused, "replay %d is %s already", r.Number, r.State)
			}
			why := cli.Person() + cli.OrEmpty(note != "", ": "+note)
			ended, err := outbox.CancelReplay(ctx, o, r.Number, why)
			if err != nil {
				return o.explainReplay(err)
			}
			return a.Result(newDocument(&ended),
				"cancelled replay %d, which had read %d of %s and written %s", ended.Number,
				ended.Read, rowsText(ended.Found), rowsText(ended.Written))
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "`text` that says why; kept in the record")
	return cmd
}

func (o *openOutbox) replayed(
	ctx context.Context, a *cli.App, p *progress, r *outbox.Replay, err error,
) error {
	p.Done()
	switch {
	case err != nil && ctx.Err() != nil && r.Number != 0:
		return cli.Codedf(cli.ExitFailed,
			"interrupted after %d of %s; continue it with: tenaq outbox replay continue %d, or end it with: tenaq outbox replay cancel %[3]d", r.Read, rowsText(r.Found), r.Number)
	case err != nil && r.Number != 0 && !r.AtEnd():
		return cli.Codedf(cli.ExitFailed, "%w; continue it with: tenaq outbox replay continue %d",
			o.explainReplay(err), r.Number)
	case err != nil:
		return o.explainReplay(err)
	case r.State == outbox.Cancelled:
		return cli.Codedf(cli.ExitRefused,
			"replay %d was cancelled by %s, after %d of %s; %s were written", r.Number, r.Ended,
			r.Read, rowsText(r.Found), rowsText(r.Written))
	}
	if r.Gone > 0 {
		a.Note("%s had been removed from the outbox before the replay reached them",
			rowsText(r.Gone))
	}
	return a.Result(newDocument(r), "replay %d has written %s for relays to send%s", r.Number,
		rowsText(r.Written), newLeftOut(&r.Tally))
}

type progress struct {
	*cli.Progress
	said time.Time
}

func newProgress(a *cli.App) *progress {
	return &progress{Progress: cli.NewProgress(a.Stderr, "replay")}
}

// sayEvery is the time between two lines where standard error is not a terminal.
const sayEvery = 30 * time.Second

func (p *progress) show(r outbox.Replay) {
	p.Line("%s %d of %s, %d written", cli.Bar(r.Read, r.Found), r.Read, rowsText(r.Found),
		r.Written)
	if r.Number != 0 && time.Since(p.said) >= sayEvery && !r.AtEnd() { // a plan has no number
		p.said = time.Now()
		p.Say("number %d: %d of %s, %s written", r.Number, r.Read, rowsText(r.Found),
			rowsText(r.Written))
	}
}

func (p *progress) logger() *slog.Logger { return slog.New(slog.NewTextHandler(p, nil)) }

// Write takes the line of a terminal away before it writes.
func (p *progress) Write(b []byte) (int, error) {
	p.Done()
	return p.W.Write(b)
}
