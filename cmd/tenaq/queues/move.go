package queues

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

// tasksMax is how many move tasks of a queue SQS lists at most.
const tasksMax = 10

func NewMoveCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "move",
		Short: "Move the messages of a dead-letter queue back or elsewhere",
		Long: `Move the messages of a dead-letter queue back to where they came from, or to
another queue.

A move task runs in the server: it continues when the command ends, and after a
restart of the server. It moves the messages that can be received, not those in
flight. A moved message is a new message with another id and no receives.`,
		Example: `  tenaq move start orders-dlq --wait
  tenaq move list orders-dlq
  tenaq move cancel orders-dlq`,
	}
	f := &cli.ClientFlags{}
	f.Register(cmd)
	cmd.AddCommand(newMoveStartCmd(a, f), newMoveListCmd(a, f), newMoveCancelCmd(a, f))
	cli.AsGroup(cmd)
	return cmd
}

type moveTask struct {
	Status string `json:"status"`
	Source string `json:"source"` // ARN
	// ARN; absent if each message goes back to its source
	Destination string    `json:"destination,omitempty"`
	Rate        int32     `json:"rate,omitempty"`
	Started     time.Time `json:"started"`
	Moved       int64     `json:"moved"`
	ToMove      *int64    `json:"toMove,omitempty"`
	Failure     string    `json:"failure,omitempty"`
	Handle      string    `json:"taskHandle,omitempty"` // only while it is running
}

func (t *moveTask) active() bool { return t.Status == "RUNNING" || t.Status == "CANCELLING" }

// of counts what was moved. many formats a number of messages.
func (t *moveTask) of(many func(int64) string) string {
	if t.ToMove == nil {
		return many(t.Moved)
	}
	return strconv.FormatInt(t.Moved, 10) + " of about " + many(*t.ToMove)
}

func (t *moveTask) progress() string {
	return t.of(func(n int64) string { return strconv.FormatInt(n, 10) })
}

// messages is progress with a noun.
func (t *moveTask) messages() string {
	return t.of(func(n int64) string { return cli.Counted(n, "message", "messages") })
}

// bar shows the progress, the rate, and how long the rest takes.
func (t *moveTask) bar(took time.Duration) string {
	text := t.progress() + " moved" + cli.RateText(t.Moved, took)
	if t.ToMove == nil {
		return text
	}
	return cli.Bar(int(t.Moved), int(*t.ToMove)) + " " + text + cli.LeftText(t.Moved, *t.ToMove,
		took)
}

func (t *moveTask) destination() string {
	if t.Destination == "" {
		return "the source queue of each"
	}
	return cli.QueueNameOf(t.Destination)
}

// moveTasks lists the latest move tasks of a queue, the newest first.
func moveTasks(ctx context.Context, c *cli.Client, arn string, limit int32) ([]moveTask, error) {
	out, err := cli.Call(ctx, c, c.ListMessageMoveTasks,
		&sqs.ListMessageMoveTasksInput{SourceArn: &arn, MaxResults: &limit})
	if err != nil {
		return nil, err
	}
	tasks := []moveTask{}
	for _, e := range out.Results {
		tasks = append(tasks, moveTask{
			Status: aws.ToString(e.Status), Source: aws.ToString(e.SourceArn),
			Destination: aws.ToString(e.DestinationArn),
			Rate:        aws.ToInt32(e.MaxNumberOfMessagesPerSecond),
			Started:     time.UnixMilli(e.StartedTimestamp).UTC(),
			Moved:       e.ApproximateNumberOfMessagesMoved,
			ToMove:      e.ApproximateNumberOfMessagesToMove,
			Failure:     aws.ToString(e.FailureReason), Handle: aws.ToString(e.TaskHandle),
		})
	}
	return tasks, nil
}

func newMoveListCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	var limit int32
	cmd := &cobra.Command{
		Use:     "list QUEUE",
		Aliases: []string{"ls"},
		Short:   "List the latest move tasks of a dead-letter queue",
		Long: `List the latest move tasks of a dead-letter queue, the newest first. An empty
list is not an error. The number of messages to move is counted when a task
starts.`,
		Example: `  tenaq move list orders-dlq
  tenaq move list orders-dlq --max 1 --json | jq -r '.tasks[0].status'`,
		Args: cli.Wants(1, 1),
		RunE: f.Run(func(ctx context.Context, c *cli.Client, args []string) error {
			arn, err := c.QueueARN(ctx, args[0])
			if err != nil {
				return err
			}
			tasks, err := moveTasks(ctx, c, arn, limit)
			if err != nil {
				return explainMove(c, "list the move tasks of", args[0], err)
			}
			now := time.Now()
			return cli.PrintList(a, "tasks", tasks, "no move tasks of "+cli.QueueNameOf(arn),
				[]string{"STATUS", "MOVED", "TO", "RATE", "STARTED", "REASON"},
				func(t *moveTask) []string {
					rate := cli.OrEmpty(t.Rate > 0, strconv.Itoa(int(t.Rate))+"/s")
					return []string{t.Status, t.progress(), t.destination(), cli.OrDash(rate),
						cli.HumanTime(t.Started, now), t.Failure}
				})
		}),
	}
	cmd.Flags().Int32Var(&limit, "max", tasksMax, "maximum `number` of tasks, 1 to 10")
	return cmd
}

func newMoveCancelCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel QUEUE|HANDLE",
		Short: "Stop a move task",
		Long: `Stop the running move task of a dead-letter queue, or the one with a handle.

Moved messages stay where they are, and the rest stays in the dead-letter queue.`,
		Example: `  tenaq move cancel orders-dlq
  tenaq move cancel eyJ0YXNrSWQ...`,
		Args: cli.Wants(1, 1),
		RunE: f.Run(func(ctx context.Context, c *cli.Client, args []string) (err error) {
			handle, queue := args[0], sourceOfTask(args[0])
			if queue == "" {
				queue = args[0]
				if handle, err = runningTask(ctx, c, queue); err != nil {
					return err
				}
			}
			out, err := cli.Call(ctx, c, c.CancelMessageMoveTask,
				&sqs.CancelMessageMoveTaskInput{TaskHandle: &handle})
			if err != nil {
				return explainMove(c, "cancel the move of", queue, err)
			}
			moved := out.ApproximateNumberOfMessagesMoved
			return a.Result(map[string]any{"source": queue, "moved": moved},
				"cancelled the move of %s after %s", cli.QueueNameOf(queue), cli.Counted(moved,
					"message", "messages"))
		}),
	}
}

// sourceOfTask returns the ARN of the queue of a task handle; "" for what is no task handle.
func sourceOfTask(handle string) string {
	var task struct{ TaskID, SourceARN string } // encoding/json ignores case
	b, err := base64.StdEncoding.DecodeString(handle)
	if err != nil || json.Unmarshal(b, &task) != nil || task.TaskID == "" {
		return ""
	}
	return task.SourceARN
}

// runningTask returns the handle of the move task of a queue that is running.
func runningTask(ctx context.Context, c *cli.Client, queue string) (string, error) {
	arn, err := c.QueueARN(ctx, queue)
	if err != nil {
		return "", err
	}
	tasks, err := moveTasks(ctx, c, arn, tasksMax)
	if err != nil {
		return "", explainMove(c, "cancel the move of", queue, err)
	}
	for _, t := range tasks {
		if t.Status == "RUNNING" {
			return t.Handle, nil
		}
	}
	return "", cli.Codedf(cli.ExitNotFound,
		"no move task of %s is running; see: tenaq move list %[1]s", cli.QueueNameOf(queue))
}

// explainMove explains refusals of move tasks. SQS reports some conflicts with the present state as
// a wrong parameter.
func explainMove(c *cli.Client, doing, queue string, err error) error {
	explained := c.Explain(doing, queue, err)
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return explained
	}
	name := cli.QueueNameOf(queue)
	says := func(kind, part string) bool {
		return cli.ErrorKind(answer) == kind && strings.Contains(answer.ErrorMessage(), part)
	}
	const invalid, notFound = "InvalidParameterValue", "ResourceNotFoundException"
	switch {
	case says(invalid, "already a task running"):
		return cli.Codedf(cli.ExitRefused, "a move of %s is already in progress; see: tenaq move list %[1]s",
			name)
	case says(invalid, "must be configured as a Dead Letter Queue"):
		return cli.Codedf(cli.ExitRefused,
			"%s is not the dead-letter queue of any queue; name it in the RedrivePolicy of a queue with: tenaq queue set",
			name)
	case says(notFound, "Task does not exist"):
		return cli.Codedf(cli.ExitNotFound,
			"the task does not exist or has ended; see: tenaq move list %s", name)
	case says(notFound, "SourceArn"):
		return cli.Codedf(cli.ExitNotFound, "%s: %s has no queue %q; see: tenaq queue list", doing,
			c.Endpoint, name)
	case says(notFound, "DestinationArn"):
		return cli.Codedf(cli.ExitNotFound,
			"%s %s: the queue to move to does not exist at %s; see: tenaq queue list", doing, name,
			c.Endpoint)
	case says("OverLimit", ""):
		return cli.Codedf(cli.ExitRefused, "%w; wait for others to end, or cancel one", explained)
	}
	return explained
}

// The time between two looks at a move task grows from lookSoon to lookLate.
const (
	lookSoon = 50 * time.Millisecond
	lookLate = time.Second
)

func newMoveStartCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	var to string
	var rate int32
	var wait bool
	cmd := &cobra.Command{
		Use:   "start QUEUE",
		Short: "Begin to move the messages of a dead-letter queue",
		Long: `Begin to move the messages of a dead-letter queue.

Without --to, each message goes back to the queue it came from; the task stops
at a message that was sent to the dead-letter queue directly. --rate spreads the
messages evenly over each second. A queue has one move task at a time; a second
one is refused with exit code 4.

With --wait, the command ends with the task, with exit code 1 if not everything
was moved. An interrupt leaves the task running.`,
		Example: `  tenaq move start orders-dlq --wait
  tenaq move start orders-dlq --to orders-retry --rate 10
  tenaq move start orders-dlq --aws --region eu-west-1`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.Run(func(ctx context.Context, c *cli.Client, _ []string) error {
				source, err := c.QueueARN(ctx, args[0])
				if err != nil {
					return err
				}
				in := &sqs.StartMessageMoveTaskInput{SourceArn: &source}
				if cmd.Flags().Changed("to") {
					destination, err := c.QueueARN(ctx, to)
					if err != nil {
						return err
					}
					in.DestinationArn = &destination
				}
				if cmd.Flags().Changed("rate") {
					in.MaxNumberOfMessagesPerSecond = &rate
				}
				out, err := cli.Call(ctx, c, c.StartMessageMoveTask, in)
				if err != nil {
					return explainMove(c, "move", args[0], err)
				}
				m := &mover{App: a, c: c, source: source, name: cli.QueueNameOf(source),
					task: moveTask{Status: "RUNNING", Source: source,
						Destination: aws.ToString(in.DestinationArn), Rate: rate,
						Handle: aws.ToString(out.TaskHandle)}}
				if wait {
					return m.wait(ctx)
				}
				return a.Result(map[string]string{"taskHandle": m.task.Handle, "source": source},
					"moving the messages of %s to %s; see: tenaq move list %[1]s", m.name,
					m.task.destination())
			})(cmd, args)
		},
	}
	flags := cmd.Flags()
	cli.Text(flags, &to, "to", "move all messages to this `queue`")
	flags.Int32Var(&rate, "rate", 0, "maximum `number` of messages per second, 1 to 500")
	flags.BoolVar(&wait, "wait", false, "wait for the end of the task")
	return cmd
}

type mover struct {
	*cli.App
	c      *cli.Client
	source string // ARN
	name   string // of the source
	task   moveTask
	found  bool // the task was listed, so its start time is known
}

// missesMax is how often in a row a task may be missing in the listing: that of Amazon may be late.
const missesMax = 20

// wait looks at the task until it has ended. If the server is away, the task goes on when it is
// back.
func (m *mover) wait(ctx context.Context) error {
	p := cli.NewProgress(m.Stderr, "moving "+m.name)
	defer p.Done()
	troubled, misses := false, 0
	for look := lookSoon; ; look = min(2*look, lookLate) {
		listed, err := m.look(ctx)
		switch {
		case ctx.Err() != nil:
			return m.interrupted()
		case err != nil && !cli.IsPassing(err):
			return explainMove(m.c, "watch the move of", m.source, err)
		case err != nil && !troubled:
			p.Done()
			m.Complain(fmt.Errorf("%w; retrying; the task continues",
				m.c.Explain("watch the move of", m.source, err)))
			troubled = true
		case err == nil && !listed:
			if misses++; misses == missesMax {
				return cli.Codedf(cli.ExitFailed,
					"the task is no longer listed; see what is left with: tenaq queue show %s",
					m.name)
			}
		case err == nil && !m.task.active():
			p.Done()
			return m.ended()
		case err == nil:
			troubled, misses = false, 0
			p.Line("%s", m.task.bar(time.Since(p.Began)))
		}
		if cli.Pause(ctx, look); ctx.Err() != nil {
			return m.interrupted()
		}
	}
}

// look finds the task in the listing. A listed task has its handle only while it is running, so
// later looks recognize it by its start time.
func (m *mover) look(ctx context.Context) (listed bool, err error) {
	tasks, err := moveTasks(ctx, m.c, m.source, tasksMax)
	for _, t := range tasks {
		another := t.Handle != "" && t.Handle != m.task.Handle
		if another || m.found && !t.Started.Equal(m.task.Started) {
			continue
		}
		t.Handle = m.task.Handle
		m.task, m.found = t, true
		return true, nil
	}
	return false, err
}

func (m *mover) interrupted() error {
	return cli.Codedf(cli.ExitFailed,
		"interrupted; the task continues: watch it with: tenaq move list %s, stop it with: tenaq move cancel %[1]s", m.name)
}

func (m *mover) ended() error {
	if m.JSON {
		if err := m.PrintJSON(m.task); err != nil {
			return err
		}
	}
	switch {
	case m.task.Status == "COMPLETED" && m.JSON:
		return nil
	case m.task.Status == "COMPLETED":
		return m.Result(nil, "moved %s from %s to %s",
			cli.Counted(m.task.Moved, "message", "messages"), m.name, m.task.destination())
	case m.task.Status == "FAILED":
		reason := cmp.Or(m.task.Failure, "no reason is given")
		return cli.Codedf(cli.ExitFailed, "the move of %s failed after %s: %s%s", m.name,
			m.task.messages(), reason, failureAdvice[reason])
	}
	return cli.Codedf(cli.ExitFailed,
		"the move of %s was stopped after %s (%s); move the rest with: tenaq move start %[1]s",
		m.name, m.task.messages(), m.task.Status)
}

var failureAdvice = map[string]string{
	"CouldNotDetermineMessageSource":          "; a message was sent to it directly: name a queue with --to",
	"AWS.SimpleQueueService.NonExistentQueue": "; a queue to move to was deleted: create it again, or name another with --to",
	"TaskTimedOut": "; start another task for the rest",
}
