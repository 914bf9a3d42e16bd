package outbox

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/outbox"
)

func newOutboxReplayListCmd(a *cli.App, f *flags) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the replays of an outbox, the newest first",
		Long: `List the replays of an outbox, the newest first, those included that ended long ago. A replay that is running
may have lost its process: then it is not updated any more, and can be continued.

` + outboxHelp,
		Example: `  tenaq outbox replay list --db sqlite:app.db`,
		Args:    cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return cli.Usagef("--limit: %d is not a number of at least 1", limit)
			}
			o, history, err := f.openHistory(cmd.Context())
			if err != nil {
				return err
			}
			defer o.Close()
			all, err := history.Replays(cmd.Context(), limit)
			if err != nil {
				return o.place.Explain(err)
			}
			return printReplays(a, o.place, all)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "list at most this `number` of replays")
	return cmd
}

func newOutboxReplayShowCmd(a *cli.App, f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "show NUMBER",
		Short: "Show all about a replay",
		Long: `Show all about a replay: what it sends, how far it is, who began it and why, and how it ended.

` + outboxHelp,
		Example: `  tenaq outbox replay show 3 --db sqlite:app.db`,
		Args:    cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := replayNumber(args[0])
			if err != nil {
				return err
			}
			o, history, err := f.openHistory(cmd.Context())
			if err != nil {
				return err
			}
			defer o.Close()
			r, err := history.Replay(cmd.Context(), number)
			if err != nil {
				return explainReplay(o.place, fmt.Errorf("replay %d: %w", number, err))
			}
			return printReplay(a, &r, time.Now())
		},
	}
}

func newOutboxReplayContinueCmd(a *cli.App, f *outboxReplayFlags) *cobra.Command {
	var rate float64
	var ahead int
	cmd := &cobra.Command{
		Use:   "continue NUMBER",
		Short: "Go on with a replay that was interrupted",
		Long: `Go on with a replay that was interrupted, from where it was. A process that is still at it stops: so this also
changes the rate of a replay that is running.

` + outboxHelp + `

A replay that sends only what is missing asks the ledger.
` + cli.RecordsHelp,
		Example: `  tenaq outbox replay continue 3 --db sqlite:app.db
  tenaq outbox replay continue 3 --rate 10`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := replayNumber(args[0])
			if err != nil {
				return err
			}
			return f.goOn(cmd.Context(), a, number, rate, ahead)
		},
	}
	cmd.Flags().Float64Var(&rate, "rate", 0, "send this `number` of messages per second at most (default: as before)")
	cmd.Flags().IntVar(&ahead, "ahead", 0, "wait while more than this `number` of rows are due in the outbox (default: as before)")
	return cmd
}

func (f *outboxReplayFlags) goOn(ctx context.Context, a *cli.App, number int64, rate float64, ahead int) error {
	o, history, err := f.openHistory(ctx)
	if err != nil {
		return err
	}
	defer o.Close()
	r, err := history.Replay(ctx, number)
	if err != nil {
		return explainReplay(o.place, fmt.Errorf("replay %d: %w", number, err))
	}
	if r.AtEnd() {
		return cli.Codedf(cli.ExitRefused, "replay %d is %s; begin another one with: tenaq outbox replay", number, r.State)
	}
	p := newReplayProgress(a)
	cfg := outbox.ReplayConfig{Box: history, Rate: rate, Ahead: ahead, Progress: p.show, Logger: p.logger()}
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
	r, err = replayer.Continue(ctx, number)
	return replayed(a, ctx, o.place, p, &r, err)
}

func newOutboxReplayCancelCmd(a *cli.App, f *flags) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "cancel NUMBER",
		Short: "End a replay before its time",
		Long: `End a replay before its time, for ever: the process that is at it writes nothing more. What it has written
already is in the outbox like everything else, and is sent.

` + outboxHelp,
		Example: `  tenaq outbox replay cancel 3 --db sqlite:app.db --note 'the consumers are not mended after all'`,
		Args:    cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := replayNumber(args[0])
			if err != nil {
				return err
			}
			o, history, err := f.openHistory(cmd.Context())
			if err != nil {
				return err
			}
			defer o.Close()
			r, err := history.Replay(cmd.Context(), number)
			if err == nil && r.AtEnd() {
				return cli.Codedf(cli.ExitRefused, "replay %d is %s already", number, r.State)
			}
			why := cli.Person()
			if note != "" {
				why += ": " + note
			}
			if r, err = outbox.CancelReplay(cmd.Context(), history, number, why); err != nil {
				return explainReplay(o.place, err)
			}
			return a.Result(newReplayDocument(&r), "cancelled replay %d, of which %d of %s had been looked at and %s written", number, r.Read, rowsText(r.Found), rowsText(r.Written))
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "write down `why`")
	return cmd
}

func replayNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, cli.Usagef("%q is not the number of a replay; see: tenaq outbox replay list", text)
	}
	return n, nil
}

// replayed reports how a replay ended, or why it has not.
func replayed(a *cli.App, ctx context.Context, place place, p *replayProgress, r *outbox.Replay, err error) error {
	p.Done()
	switch {
	case err != nil && ctx.Err() != nil && r.Number != 0:
		return cli.Codedf(cli.ExitFailed, "interrupted after %d of %s; go on with: tenaq outbox replay continue %d, or end it with: tenaq outbox replay cancel %[3]d", r.Read, rowsText(r.Found), r.Number)
	case err != nil && r.Number != 0 && !r.AtEnd():
		return cli.Codedf(cli.ExitFailed, "%w; go on with: tenaq outbox replay continue %d", explainReplay(place, err), r.Number)
	case err != nil:
		return explainReplay(place, err)
	}
	if r.State == outbox.Cancelled {
		return cli.Codedf(cli.ExitRefused, "replay %d was cancelled by %s, after %d of %s; %s were written", r.Number, r.Ended, r.Read, rowsText(r.Found), rowsText(r.Written))
	}
	if r.Gone > 0 {
		a.Note("%s had been removed from the outbox before the replay reached them", rowsText(r.Gone))
	}
	return a.Result(newReplayDocument(r), "replay %d has written %s for relays to send%s", r.Number, rowsText(r.Written), newReplayLeftOut(&r.Tally))
}

// A replayProgress shows how far a replay is.
type replayProgress struct {
	*cli.Progress
	json bool
	said time.Time
}

func newReplayProgress(a *cli.App) *replayProgress {
	p := &replayProgress{Progress: cli.NewProgress(a.Stderr), json: a.JSON}
	p.Begin("replay")
	return p
}

// replaySayEvery is how often somebody is told who does not watch a terminal.
const replaySayEvery = 30 * time.Second

func (p *replayProgress) show(r outbox.Replay) {
	p.Line("%s %d of %s, %d written", cli.Bar(r.Read, r.Found), r.Read, rowsText(r.Found), r.Written)
	if r.Number == 0 {
		return // a plan
	}
	if time.Since(p.said) >= replaySayEvery && !r.AtEnd() {
		p.said = time.Now()
		p.Say("number %d: %d of %s, %s written", r.Number, r.Read, rowsText(r.Found), rowsText(r.Written))
	}
}

// logger writes what a person has to know between the lines.
func (p *replayProgress) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(noteWriter{p.Progress}, nil))
}

// A noteWriter takes the line of a terminal away before it writes.
type noteWriter struct{ p *cli.Progress }

func (w noteWriter) Write(b []byte) (int, error) {
	w.p.Done()
	return w.p.W.Write(b)
}

// A replayDocument is a replay as --json prints it.
type replayDocument struct {
	Number int64 `json:"number"`
	outbox.Replay
}

func newReplayDocument(r *outbox.Replay) replayDocument { return replayDocument{r.Number, *r} }

func printReplays(a *cli.App, place place, all []outbox.Replay) error {
	if a.JSON {
		documents := []replayDocument{}
		for i := range all {
			documents = append(documents, newReplayDocument(&all[i]))
		}
		return a.PrintJSON(map[string]any{"replays": documents})
	}
	if len(all) == 0 {
		a.Note("no replays in %s", place)
		return nil
	}
	now := time.Now()
	t := cli.Table{Head: []string{"REPLAY", "STATE", "READ", "WRITTEN", "UPDATED", "BY", "NOTE"}}
	for i := range all {
		r := &all[i]
		t.Add(strconv.FormatInt(r.Number, 10), string(r.State), fmt.Sprintf("%d of %d", r.Read, r.Found), strconv.Itoa(r.Written),
			cli.AgeText(now.Sub(r.Updated))+" ago", cli.OrDash(r.By), cli.OrDash(cli.FirstWords(r.Note, 60)))
	}
	return a.PrintTable(t)
}

func printReplay(a *cli.App, r *outbox.Replay, now time.Time) error {
	if a.JSON {
		return a.PrintJSON(newReplayDocument(r))
	}
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, cli.OneLine(value))
		}
	}
	on, off := a.Bold()
	fmt.Fprintf(&b, "%s%-10s %d, %s%s\n", on, "replay", r.Number, r.State, off)
	field("begun", cli.TimeText(&r.Created, now))
	field("by", r.By)
	field("note", r.Note)
	field("updated", cli.TimeText(&r.Updated, now))
	field("ended", r.Ended)
	if s := &r.Source; s.Query == "" {
		field("sent", s.From.UTC().Format(time.RFC3339)+" to "+s.To.UTC().Format(time.RFC3339))
		field("queues", strings.Join(s.Queues, ", "))
		field("types", strings.Join(s.Types, ", "))
		field("keys", strings.Join(s.Keys, ", "))
		field("where", s.Where)
	} else {
		field("query", s.Query)
	}
	kind := fmt.Sprintf("all, again in generation %d", cmp.Or(int64(r.Generation), r.Number))
	if r.MissingOnly {
		kind = "what is missing only"
	}
	field("sends", kind)
	field("lane", r.Lane)
	field("rate", fmt.Sprintf("%v per second", r.Rate))
	field("read", fmt.Sprintf("%d of %s", r.Read, rowsText(r.Found)))
	field("written", rowsText(r.Written)+newReplayLeftOut(&r.Tally).String())
	field("process", r.Runner)
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}
