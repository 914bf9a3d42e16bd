package queues

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
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

// A moveTask is a move task as --json prints it.
type moveTask struct {
	Status string `json:"status"`
	Source string `json:"source"` // ARN
	// ARN; absent when each message goes where it came from
	Destination string    `json:"destination,omitempty"`
	Rate        int32     `json:"rate,omitempty"`
	Started     time.Time `json:"started"`
	Moved       int64     `json:"moved"`
	ToMove      *int64    `json:"toMove,omitempty"`
	Failure     string    `json:"failure,omitempty"`
	Handle      string    `json:"taskHandle,omitempty"` // only while it is running
}

// active tells whether the task has not ended.
func (t *moveTask) active() bool { return t.Status == "RUNNING" || t.Status == "CANCELLING" }

// progress says how far the task has come.
func (t *moveTask) progress() string {
	if t.ToMove == nil {
		return strconv.FormatInt(t.Moved, 10)
	}
	return strconv.FormatInt(t.Moved, 10) + " of about " + strconv.FormatInt(*t.ToMove, 10)
}

// bar shows how far the task has come, how fast, and how long the rest takes.
func (t *moveTask) bar(took time.Duration) string {
	text := t.progress() + " moved" + cli.RateText(t.Moved, took)
	if t.ToMove == nil {
		return text
	}
	return cli.Bar(int(t.Moved), int(*t.ToMove)) + " " + text + cli.LeftText(t.Moved, *t.ToMove,
		took)
}

// messages says the same of messages.
func (t *moveTask) messages() string {
	if t.ToMove == nil {
		return cli.Counted(t.Moved, "message", "messages")
	}
	return strconv.FormatInt(t.Moved, 10) + " of about " + cli.Counted(*t.ToMove, "message",
		"messages")
}

// destination says where the messages go.
func (t *moveTask) destination() string {
	if t.Destination == "" {
		return "where they came from"
	}
	return cli.QueueNameOf(t.Destination)
}

// moveTasks lists the latest move tasks of a queue, the newest first.
func moveTasks(c *cli.Client, ctx context.Context, arn string, limit int32) ([]moveTask, error) {
	out, err := cli.Call(ctx, c, c.ListMessageMoveTasks,
		&sqs.ListMessageMoveTasksInput{SourceArn: &arn, MaxResults: &limit})
	if err != nil {
		return nil, err
	}
	tasks := []moveTask{}
	for _, e := range out.Results {
		tasks = append(tasks, newMoveTask(e))
	}
	return tasks, nil
}

func newMoveTask(e types.ListMessageMoveTasksResultEntry) moveTask {
	return moveTask{
		Status:      aws.ToString(e.Status),
		Source:      aws.ToString(e.SourceArn),
		Destination: aws.ToString(e.DestinationArn),
		Rate:        aws.ToInt32(e.MaxNumberOfMessagesPerSecond),
		Started:     time.UnixMilli(e.StartedTimestamp).UTC(),
		Moved:       e.ApproximateNumberOfMessagesMoved,
		ToMove:      e.ApproximateNumberOfMessagesToMove,
		Failure:     aws.ToString(e.FailureReason),
		Handle:      aws.ToString(e.TaskHandle),
	}
}

func newMoveListCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	var limit int32
	cmd := &cobra.Command{
		Use:     "list QUEUE",
		Aliases: []string{"ls"},
		Short:   "List the latest move tasks of a dead-letter queue",
		Long: `List the latest move tasks of a dead-letter queue, the newest first. No tasks is
not an error. The number of messages to move is counted when a task starts.`,
		Example: `  tenaq move list orders-dlq
  tenaq move list orders-dlq --max 1 --json | jq -r '.tasks[0].status'`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, queue := cmd.Context(), args[0]
			c, err := f.Connect(ctx)
			if err != nil {
				return err
			}
			arn, err := c.QueueARN(ctx, queue)
			if err != nil {
				return err
			}
			tasks, err := moveTasks(c, ctx, arn, limit)
			switch {
			case err != nil:
				return explainMove(c, "list the move tasks of", queue, err)
			case a.JSON:
				return a.PrintJSON(map[string]any{"tasks": tasks})
			case len(tasks) == 0:
				a.Note("no move tasks of %s", cli.QueueNameOf(arn))
				return nil
			}
			return printMoveTasks(a, tasks, time.Now())
		},
	}
	cmd.Flags().Int32Var(&limit, "max", tasksMax, "maximum `number` of tasks, 1 to 10")
	return cmd
}

func printMoveTasks(a *cli.App, tasks []moveTask, now time.Time) error {
	t := cli.Table{Head: []string{"STATUS", "MOVED", "TO", "RATE", "STARTED", "REASON"}}
	for _, task := range tasks {
		rate := ""
		if task.Rate > 0 {
			rate = strconv.Itoa(int(task.Rate)) + "/s"
		}
		t.Add(task.Status, task.progress(), task.destination(), cli.OrDash(rate),
			cli.HumanTime(task.Started, now), task.Failure)
	}
	return a.PrintTable(t)
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
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, err := f.Connect(ctx)
			if err != nil {
				return err
			}
			handle, queue := args[0], sourceOfTask(args[0])
			if queue == "" {
				queue = args[0]
				if handle, err = runningTask(c, ctx, queue); err != nil {
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
		},
	}
}

// sourceOfTask returns the ARN of the queue that a task handle is about; "" for what is no task
// handle.
func sourceOfTask(handle string) string {
	var task struct{ TaskID, SourceARN string } // encoding/json does not look at case
	b, err := base64.StdEncoding.DecodeString(handle)
	if err != nil || json.Unmarshal(b, &task) != nil || task.TaskID == "" {
		return ""
	}
	return task.SourceARN
}

// runningTask returns the handle of the move task of a queue that is running.
func runningTask(c *cli.Client, ctx context.Context, queue string) (string, error) {
	arn, err := c.QueueARN(ctx, queue)
	if err != nil {
		return "", err
	}
	tasks, err := moveTasks(c, ctx, arn, tasksMax)
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

// explainMove explains refusals of move tasks: SQS reports some conflicts with the present state as
// a wrong parameter.
func explainMove(c *cli.Client, doing, queue string, err error) error {
	explained := c.Explain(doing, queue, err)
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return explained
	}
	name := cli.QueueNameOf(queue)
	says := func(kind, part string) bool {
		return cli.ErrorKind(answer) == kind && strings.Contains(answer.ErrorMessage(), part)
	}
	const invalid, notFound = "InvalidParameterValue", "ResourceNotFoundException"
	switch {
	case says(invalid, "already a task running"):
		return cli.Codedf(cli.ExitRefused, "%s is being moved already; see: tenaq move list %[1]s",
			name)
	case says(invalid, "must be configured as a Dead Letter Queue"):
		return cli.Codedf(cli.ExitRefused,
			"%s is not the dead-letter queue of any queue; give the one it belongs to a RedrivePolicy "+
				"that names it, with: tenaq queue set", name)
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
