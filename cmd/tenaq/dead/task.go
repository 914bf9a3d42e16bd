package dead

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
)

// lack ends the error for servers that have no tasks.
const lack = "has no tasks that select messages; use a tenaq server of this version, " +
	"or \"tenaq move start\" to move all dead letters"

// NewTaskCmd returns the command task.
func NewTaskCmd(a *cli.App) *cobra.Command {
	group := &cobra.Command{
		Use:   "task",
		Short: "Watch and control tasks that move, park, delete or replay messages",
		Long: `Watch and control tasks that move, park, delete or replay messages. This needs
a tenaq server.

A task runs in the server, survives a restart, and is named by its queue and a
number, such as orders-dlq:17. Start one with "tenaq dead", "tenaq replay" or
"tenaq move start".`,
		Example: `  tenaq task list --active
  tenaq task watch orders-dlq:17
  tenaq task pause orders-dlq:17 --note "the consumer is down"`,
	}
	group.AddCommand(newListTasksCmd(a), newShowTaskCmd(a), newWatchCmd(a),
		newChangeCmd(a, "pause", "Pause a task", "paused"),
		newChangeCmd(a, "resume", "Resume a paused task", "resumed"),
		newChangeCmd(a, "cancel", "Stop a task; what it has done stays", "cancelled"),
		newRateCmd(a), newLogCmd(a))
	cli.AsGroup(group)
	return group
}

// A task is a task as the server shows it, and as --json prints it.
type task struct {
	ID       string         `json:"id"`
	Do       string         `json:"do"`
	Queue    string         `json:"queue"`
	To       string         `json:"to,omitempty"`
	Missing  bool           `json:"missing,omitempty"`
	Filter   map[string]any `json:"filter,omitempty"`
	State    string         `json:"state"`
	Done     int64          `json:"done"`
	Expected int64          `json:"expected,omitempty"`
	Skipped  int64          `json:"skipped"`
	Limit    int64          `json:"limit,omitempty"`
	Confirm  int64          `json:"confirm,omitempty"`
	Rate     int64          `json:"rate,omitempty"`
	Started  time.Time      `json:"started"`
	Ended    *time.Time     `json:"ended,omitempty"`
	By       string         `json:"by,omitempty"`
	Note     string         `json:"note,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	SQS      bool           `json:"sqs,omitempty"`
	Order    string         `json:"order,omitempty"`
	Delay    *int64         `json:"delayMs,omitempty"`
	Edit     *struct {
		Body    bool     `json:"body"`
		Set     []string `json:"set,omitempty"`
		Removed []string `json:"removed,omitempty"`
	} `json:"edit,omitempty"`
}

// change is what the task changes in each message.
func (t *task) change() string {
	if t.Edit == nil {
		return ""
	}
	parts := slices.Clone(t.Edit.Set)
	if t.Edit.Body {
		parts = append([]string{"the body"}, parts...)
	}
	for _, name := range t.Edit.Removed {
		parts = append(parts, "no "+name)
	}
	return strings.Join(parts, ", ")
}

// delay is how long moved messages are hidden.
func (t *task) delay() string {
	if t.Delay == nil {
		return ""
	}
	return (time.Duration(*t.Delay) * time.Millisecond).String()
}

// progress is how far the task has come.
func (t *task) progress() string {
	if t.Expected == 0 {
		return strconv.FormatInt(t.Done, 10)
	}
	return strconv.FormatInt(t.Done, 10) + " of about " + strconv.FormatInt(t.Expected, 10)
}

// bar is the progress with a bar, the rate, and how long the rest takes.
func (t *task) bar(took time.Duration) string {
	text := t.progress() + " messages" + cli.RateText(t.Done, took)
	if t.Expected == 0 {
		return text
	}
	return cli.Bar(int(t.Done), int(t.Expected)) + " " + text + cli.LeftText(t.Done, t.Expected,
		took)
}

func (t *task) destination() string {
	if t.Do == "move" {
		return cmp.Or(t.To, "the source queue")
	}
	return t.To
}

func (t *task) rate() string {
	return cli.OrEmpty(t.Rate > 0, strconv.FormatInt(t.Rate, 10)+"/s")
}

func newListTasksCmd(a *cli.App) *cobra.Command {
	var f cli.ClientFlags
	var active bool
	list := &cobra.Command{
		Use:     "list [QUEUE]",
		Aliases: []string{"ls"},
		Short:   "List the latest tasks of all queues or of one",
		Long: `List the latest tasks of all queues or of one, the newest first. A queue keeps
its latest ten tasks. Move tasks of SQS are listed too.`,
		Example: `  tenaq task list
  tenaq task list orders-dlq --json | jq -r '.tasks[] | "\(.id) \(.state)"'`,
		Args: cli.Wants(0, 1),
		RunE: f.RunV1(lack, func(ctx context.Context, v *cli.V1Client, args []string) error {
			query := url.Values{"limit": {"100"}}
			if len(args) > 0 {
				queue, err := v.QueueName(ctx, args[0])
				if err != nil {
					return err
				}
				query.Set("queue", queue)
			}
			if active {
				query.Set("state", "active")
			}
			tasks, err := tasksOf(ctx, v, query)
			if err != nil {
				return err
			}
			now := time.Now()
			return cli.PrintList(a, "tasks", tasks, "no tasks",
				[]string{"TASK", "STATE", "DO", "MESSAGES", "TO", "RATE", "STARTED", "BY",
					"REASON"},
				func(t *task) []string {
					return []string{t.ID, t.State, t.Do, t.progress(), cli.OrDash(t.destination()),
						cli.OrDash(t.rate()), cli.HumanTime(t.Started, now), cli.OrDash(t.By),
						t.Reason}
				})
		}),
	}
	f.Register(list)
	list.Flags().BoolVar(&active, "active", false, "list only tasks that have not ended")
	return list
}

// tasksOf reads all pages of tasks, the one that was started last first.
func tasksOf(ctx context.Context, v *cli.V1Client, query url.Values) (tasks []task, err error) {
	for {
		var page struct {
			Tasks []task
			Next  string
		}
		if err := v.Get(ctx, "list the tasks", "", "/tasks", query, &page); err != nil {
			return nil, err
		}
		tasks = append(tasks, page.Tasks...)
		if page.Next == "" {
			slices.SortStableFunc(tasks, func(a, b task) int {
				return b.Started.Compare(a.Started)
			})
			return tasks, nil
		}
		query.Set("after", page.Next)
	}
}

// pathOf is the path of a task.
func pathOf(id string) string { return "/tasks/" + url.PathEscape(id) }

func taskNamed(ctx context.Context, v *cli.V1Client, id string) (t task, err error) {
	return t, v.Get(ctx, "show the task "+id, "", pathOf(id), nil, &t)
}

func newShowTaskCmd(a *cli.App) *cobra.Command {
	var f cli.ClientFlags
	show := &cobra.Command{
		Use:     "show TASK",
		Short:   "Show a task",
		Long:    `Show a task: what it does, to which messages, and its progress.`,
		Example: `  tenaq task show orders-dlq:17`,
		Args:    cli.Wants(1, 1),
		RunE: f.RunV1(lack, func(ctx context.Context, v *cli.V1Client, args []string) error {
			t, err := taskNamed(ctx, v, args[0])
			if err != nil {
				return err
			}
			return printTask(a, &t)
		}),
	}
	f.Register(show)
	return show
}

func printTask(a *cli.App, t *task) error {
	now := time.Now()
	number := func(n int64) string { return cli.OrEmpty(n > 0, strconv.FormatInt(n, 10)) }
	var filter []string
	for name, value := range t.Filter {
		filter = append(filter, name+"="+textOf(value))
	}
	slices.Sort(filter)
	return a.PrintCard(t, "", [2]string{"task", t.ID + "  " + t.State},
		[2]string{"does", strings.TrimSpace(t.Do + cli.OrEmpty(t.Missing, " of what is missing") +
			" " + cli.OrEmpty(t.destination() != "",
			"to "+t.destination()))},
		[2]string{"filter", strings.Join(filter, " ")}, [2]string{"order", t.Order},
		[2]string{"delay", t.delay()}, [2]string{"changes", t.change()},
		[2]string{"done", t.progress()},
		[2]string{"skipped", number(t.Skipped)}, [2]string{"limit", number(t.Limit)},
		[2]string{"confirmed", number(t.Confirm)}, [2]string{"rate", t.rate()},
		[2]string{"started", cli.HumanTime(t.Started, now)},
		[2]string{"ended", cli.TimeText(t.Ended, now)}, [2]string{"by", t.By},
		[2]string{"note", t.Note}, [2]string{"reason", t.Reason + adviceOf(t.Reason)})
}

func newChangeCmd(a *cli.App, name, short, done string) *cobra.Command {
	var f cli.ClientFlags
	var note string
	change := &cobra.Command{
		Use:   name + " TASK",
		Short: short,
		Long: short + `. The action log notes who did it.

A task that has ended is refused with exit code 4.`,
		Example: "  tenaq task " + name + " orders-dlq:17",
		Args:    cli.Wants(1, 1),
		RunE: f.RunV1(lack, func(ctx context.Context, v *cli.V1Client, args []string) error {
			var t task
			in := map[string]string{"note": note}
			if err := v.Post(ctx, name+" the task "+args[0], "", pathOf(args[0])+"/"+name, in,
				&t); err != nil {
				return err
			}
			return a.Result(&t, "%s %s after %s", done, t.ID,
				cli.Counted(t.Done, "message", "messages"))
		}),
	}
	f.Register(change)
	change.Flags().StringVar(&note, "note", "", "`text` for the action log")
	return change
}

func newRateCmd(a *cli.App) *cobra.Command {
	var f cli.ClientFlags
	rate := &cobra.Command{
		Use:   "rate TASK RATE",
		Short: "Change the rate of a task",
		Long: `Change the rate of a task, in messages a second, from 1 to 10000. 0 removes the
limit.`,
		Example: `  tenaq task rate orders-dlq:17 50`,
		Args:    cli.Wants(2, 2),
		RunE: f.RunV1(lack, func(ctx context.Context, v *cli.V1Client, args []string) error {
			n, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil || n < 0 {
				return cli.Usagef("RATE %q is not a number of messages per second", args[1])
			}
			var t task
			if err := v.Post(ctx, "change the task "+args[0], "", pathOf(args[0])+"/rate",
				map[string]int64{"rate": n}, &t); err != nil {
				return err
			}
			return a.Result(&t, "%s now takes %s", t.ID,
				cmp.Or(t.rate(), "messages as fast as possible"))
		}),
	}
	f.Register(rate)
	return rate
}

func newLogCmd(a *cli.App) *cobra.Command {
	var f cli.ClientFlags
	var limit int
	log := &cobra.Command{
		Use:   "log",
		Short: "Show who started, changed and cancelled tasks, and edited messages",
		Long: `Show who started, changed and cancelled tasks, and edited messages, the latest
action first. The server keeps the latest 1,000 actions.`,
		Example: `  tenaq task log --limit 100`,
		Args:    cli.Wants(0, 0),
		RunE: f.RunV1(lack, func(ctx context.Context, v *cli.V1Client, _ []string) error {
			actions, err := actionsOf(ctx, v, limit)
			if err != nil {
				return err
			}
			now := time.Now()
			return cli.PrintList(a, "actions", actions, "no actions",
				[]string{"AT", "BY", "ACTION", "ABOUT", "TEXT"}, func(e *v1.Action) []string {
					return []string{cli.HumanTime(e.At, now), e.By, e.Action, e.About, e.Text}
				})
		}),
	}
	f.Register(log)
	cli.Number(log.Flags(), &limit, "limit", 20, 1, 1000, "maximum `number` of actions")
	return log
}

func actionsOf(ctx context.Context, v *cli.V1Client, limit int) (all []v1.Action, err error) {
	query := url.Values{}
	for {
		query.Set("limit", strconv.Itoa(min(limit-len(all), 100)))
		var page v1.ActionList
		if err := v.Get(ctx, "read the action log", "", "/actions", query, &page); err != nil {
			return nil, err
		}
		if all = append(all, page.Actions...); page.Next == 0 || len(all) >= limit {
			return all, nil
		}
		query.Set("before", strconv.FormatUint(page.Next, 10))
	}
}
