package dead

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func newWatchCmd(a *cli.App) *cobra.Command {
	var f cli.ClientFlags
	watch := &cobra.Command{
		Use:   "watch TASK",
		Short: "Show the progress of a task until it ends",
		Long: `Show the progress of a task until it ends. The exit code is 1 if it did not
complete. An interrupt leaves the task running.`,
		Example: `  tenaq task watch orders-dlq:17`,
		Args:    cli.Wants(1, 1),
		RunE: f.RunV1(lack, func(ctx context.Context, v *cli.V1Client, args []string) error {
			t, err := taskNamed(ctx, v, args[0])
			if err != nil {
				return err
			}
			return wait(ctx, a, v, &t)
		}),
	}
	f.Register(watch)
	return watch
}

// The time between two looks at a task grows from lookSoon to lookLate.
const (
	lookSoon = 50 * time.Millisecond
	lookLate = time.Second
)

// wait looks at a task until it has ended, and says how. While the server is away, so is the task:
// it goes on when the server is back.
func wait(ctx context.Context, a *cli.App, v *cli.V1Client, t *task) error {
	p := cli.NewProgress(a.Stderr, t.Do+" "+t.Queue)
	defer p.Done()
	troubled := false
	for look := lookSoon; t.Ended == nil; look = min(2*look, lookLate) {
		p.Line("%s", t.bar(time.Since(p.Began)))
		if cli.Pause(ctx, look); ctx.Err() != nil {
			return interrupted(t)
		}
		now, err := taskNamed(ctx, v, t.ID)
		switch {
		case ctx.Err() != nil:
			return interrupted(t)
		case err == nil:
			*t, troubled = now, false
		case !cli.IsPassing(err):
			return err
		case !troubled:
			p.Done()
			a.Complain(fmt.Errorf("%w; retrying; the task continues", err))
			troubled = true
		}
	}
	p.Done()
	return ended(a, t)
}

func interrupted(t *task) error {
	return cli.Codedf(cli.ExitFailed, "interrupted; the task continues: watch it with: "+
		"tenaq task watch %s, stop it with: tenaq task cancel %[1]s", t.ID)
}

var pastOf = map[string]string{"move": "moved", "park": "parked", "delete": "deleted",
	"replay": "replayed"}

// did says what the task has done.
func did(t *task) string {
	text := pastOf[t.Do] + " " + cli.Counted(t.Done, "message", "messages") + " from " + t.Queue
	if to := t.destination(); to != "" {
		text += " to " + to
	}
	switch {
	case t.Skipped == 0:
	case t.Do == "replay":
		text += fmt.Sprintf("; left out %s", cli.Counted(t.Skipped, "outcome", "outcomes"))
	default:
		text += fmt.Sprintf("; %s could not be taken and stayed",
			cli.Counted(t.Skipped, "message", "messages"))
	}
	return text
}

func ended(a *cli.App, t *task) error {
	switch {
	case t.State == "COMPLETED":
		return a.Result(t, "%s", did(t))
	case a.JSON:
		if err := a.PrintJSON(t); err != nil {
			return err
		}
	}
	if t.State == "FAILED" {
		return cli.Codedf(cli.ExitFailed, "the task %s failed: it %s; %s%s", t.ID, did(t), t.Reason,
			adviceOf(t.Reason))
	}
	return cli.Codedf(cli.ExitFailed, "the task %s was cancelled: it %s", t.ID, did(t))
}

// adviceOf says what to do about a failure.
func adviceOf(reason string) string {
	return map[string]string{
		"CouldNotDetermineMessageSource":          ": a message was sent to the queue directly; name a queue with --to",
		"AWS.SimpleQueueService.NonExistentQueue": ": a queue was deleted; create it again, or name another with --to",
		"MoreThanConfirmed":                       ": there are more messages than were confirmed; look at them and start again",
		"HistoryRemoved":                          ": the tag tenaq:history was removed, and the history with it",
		"DiskReserve":                             ": it waits until the disk has room",
		"TaskTimedOut":                            ": start another task for the rest",
	}[reason]
}

// textOf is a value of a filter as a line shows it.
func textOf(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	text, _ := json.Marshal(value) // it was read from JSON
	return string(text)
}
