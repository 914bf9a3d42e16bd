package queues

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

// The time between two looks at a move task grows from the one to the other.
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
			ctx, queue := cmd.Context(), args[0]
			c, err := f.Connect(ctx)
			if err != nil {
				return err
			}
			in := &sqs.StartMessageMoveTaskInput{}
			source, err := c.QueueARN(ctx, queue)
			if err != nil {
				return err
			}
			in.SourceArn = &source
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
				return explainMove(c, "move", queue, err)
			}
			m := &mover{App: a, c: c, source: source, task: moveTask{
				Status:      "RUNNING",
				Source:      source,
				Destination: aws.ToString(in.DestinationArn),
				Rate:        aws.ToInt32(in.MaxNumberOfMessagesPerSecond),
				Handle:      aws.ToString(out.TaskHandle),
			}}
			if wait {
				return m.wait(ctx)
			}
			return m.started()
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&to, "to", "", "move all messages to this `queue`")
	flags.Int32Var(&rate, "rate", 0, "maximum `number` of messages per second, 1 to 500")
	flags.BoolVar(&wait, "wait", false, "wait for the end of the task")
	return cmd
}

// A mover watches a task that it has started.
type mover struct {
	*cli.App
	c      *cli.Client
	source string // ARN
	task   moveTask
	found  bool // the task has been seen in a listing, so when it was started is known
}

// started reports a task that goes on without this command.
func (m *mover) started() error {
	return m.Result(map[string]string{"taskHandle": m.task.Handle, "source": m.source},
		"moving the messages of %s to %s; see: tenaq move list %[1]s",
		cli.QueueNameOf(m.source), m.task.destination())
}

// wait looks at the task until it has ended. A server that is away comes back, and its task with
// it.
func (m *mover) wait(ctx context.Context) error {
	p := cli.NewProgress(m.Stderr)
	p.Begin("moving " + cli.QueueNameOf(m.source))
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
			m.Complain(fmt.Errorf("%w; retrying; the task goes on",
				m.c.Explain("watch the move of", m.source, err)))
			troubled = true
		case err == nil && !listed:
			if misses++; misses == missesMax {
				return cli.Codedf(cli.ExitFailed,
					"the task is no longer listed; see what is left with: tenaq queue show %s",
					cli.QueueNameOf(m.source))
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

// missesMax is how often in a row a task may be missing in the listing: Amazon's may be a little
// late.
const missesMax = 20

// look finds the task in the listing. There it has its handle only while it is running, so from the
// first look on it is known by the time at which it was started.
func (m *mover) look(ctx context.Context) (listed bool, err error) {
	tasks, err := moveTasks(m.c, ctx, m.source, tasksMax)
	if err != nil {
		return false, err
	}
	for _, t := range tasks {
		another := t.Handle != "" && t.Handle != m.task.Handle
		if another || m.found && !t.Started.Equal(m.task.Started) {
			continue
		}
		t.Handle = m.task.Handle
		m.task, m.found = t, true
		return true, nil
	}
	return false, nil
}

func (m *mover) interrupted() error {
	name := cli.QueueNameOf(m.source)
	return cli.Codedf(cli.ExitFailed,
		"interrupted; the task goes on: watch it with: tenaq move list %s, stop it with: tenaq move cancel %[1]s", name)
}

// ended reports how the task ended.
func (m *mover) ended() error {
	name := cli.QueueNameOf(m.source)
	if m.JSON {
		if err := m.PrintJSON(m.task); err != nil {
			return err
		}
	}
	switch {
	case m.task.Status == "COMPLETED" && m.JSON:
		return nil
	case m.task.Status == "COMPLETED":
		_, err := fmt.Fprintf(m.Stdout, "moved %s from %s to %s\n",
			cli.Counted(m.task.Moved, "message", "messages"), name, m.task.destination())
		return err
	case m.task.Status == "FAILED":
		return cli.Codedf(cli.ExitFailed, "the move of %s failed after %s: %s", name,
			m.task.messages(), adviceOnFailure(m.task.Failure))
	}
	return cli.Codedf(cli.ExitFailed,
		"the move of %s was stopped after %s (%s); move the rest with: tenaq move start %[1]s",
		name, m.task.messages(), m.task.Status)
}

// adviceOnFailure adds to the reason of a failed task what to do.
func adviceOnFailure(reason string) string {
	switch reason {
	case "":
		return "no reason is given"
	case "CouldNotDetermineMessageSource":
		return reason + "; a message was sent to it directly: name a queue with --to"
	case "AWS.SimpleQueueService.NonExistentQueue":
		return reason + "; a queue to move to was deleted: create it again, or name another with --to"
	case "TaskTimedOut":
		return reason + "; start another task for the rest"
	}
	return reason
}
