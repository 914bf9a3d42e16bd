package messages

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

type peekFlags struct {
	cli.ClientFlags
	state, after string
	limit        int
	bodies       bool
}

func NewPeekCmd(a *cli.App) *cobra.Command {
	f := &peekFlags{}
	cmd := &cobra.Command{
		Use:   "peek [QUEUE]",
		Short: "Show messages without receiving them, or a summary of all queues",
		Long: `Show the messages of a queue without receiving them, or a summary of all queues.
Nothing is hidden or moved, and nothing counts as a receive.

Messages are listed in the order in which they entered the queue, with a state:
  visible    can be received now
  in_flight  received, and hidden until its visibility timeout ends
  delayed    hidden until its delay ends
  blocked    waits in a FIFO queue for an earlier message of its group
  held       waits for a dead letter of its group (see tenaq group list)

The table shows why a message failed, if its consumer said so when it gave the
message back. For a message that a tenaq worker gave up, it also shows the key
of its work, the number of attempts and the source queue, from the message
attribute tenaq. HOLDS marks dead letters that their group waits for, until they
are back or gone. --json shows everything known about a message, such as its
latest attempts. A body kept beside the queue is shown as its pointer.

This needs a tenaq server. Other servers show a message only by delivering it:
"tenaq receive QUEUE --visibility 0" counts as a receive, and may move the
message to the dead-letter queue.`,
		Example: `  tenaq peek
  tenaq peek orders
  tenaq peek orders --state in_flight --limit 100
  tenaq peek orders-dlq --body
  tenaq peek orders --body --json | jq -r '.messages[].body'`,
		Args: cli.Wants(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.RunV1(cli.PeekLack, func(
				ctx context.Context, v *cli.V1Client, _ []string,
			) error {
				query := url.Values{}
				if f.after != "" {
					query.Set("after", f.after)
				}
				if len(args) > 0 {
					return f.printMessages(ctx, a, v, args[0], query)
				}
				for _, name := range []string{"state", "body"} {
					if cmd.Flags().Changed(name) {
						return cli.Usagef("--%s is about messages; name a queue", name)
					}
				}
				return f.printQueues(ctx, a, v, query)
			})(cmd, args)
		},
	}
	f.ClientFlags.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.state, "state", "", "show only messages in this `state`")
	cli.Number(flags, &f.limit, "limit", 20, 1, cli.PeekLimitMax,
		"maximum `number` of messages or queues")
	flags.BoolVar(&f.bodies, "body", false, "show bodies: first characters, or 1 MiB with --json")
	cli.Completes(cmd, "state", "visible", "in_flight", "delayed", "blocked", "held")
	flags.StringVar(&f.after, "after", "", "continue at this `place`, printed before")
	return cmd
}

func (f *peekFlags) printMessages(
	ctx context.Context, a *cli.App, v *cli.V1Client, queue string, query url.Values,
) error {
	if cli.IsAmazonURL(queue) {
		return cli.Usagef("%s is a queue of Amazon, which shows a message only by delivering it",
			queue)
	}
	queue, err := v.QueueName(ctx, queue)
	if err != nil {
		return err
	}
	query.Set("trail", "1")
	if f.state != "" {
		query.Set("state", f.state)
	}
	switch {
	case f.bodies && a.JSON:
		query.Set("body", strconv.Itoa(cli.PeekBodyMax))
	case f.bodies:
		query.Set("body", strconv.Itoa(cli.PeekBodyTable))
	}
	list, err := v.Messages(ctx, queue, query, f.limit)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(list)
	}
	if len(list.Messages) > 0 {
		if err := a.PrintTable(messageTable(list.Messages)); err != nil {
			return err
		}
	} else {
		a.Note("no messages")
	}
	if list.Next != "" {
		a.Note("there may be more; continue with --after %s", list.Next)
	}
	return nil
}

func messageTable(messages []cli.Peeked) cli.Table {
	return cli.TableOf(messages, []cli.Column[cli.Peeked]{
		cli.Always("MESSAGE", func(m *cli.Peeked) string { return m.ID }),
		cli.Always("STATE", func(m *cli.Peeked) string { return m.State }),
		cli.Always("AGE", func(m *cli.Peeked) string {
			return cli.RoughDuration(time.Duration(m.AgeMS) * time.Millisecond)
		}),
		cli.Always("RECEIVES", func(m *cli.Peeked) string {
			return strconv.FormatInt(m.Receives, 10)
		}),
		cli.Always("SIZE", func(m *cli.Peeked) string { return strconv.FormatInt(m.Size, 10) }),
		cli.IfAny("VISIBLE", (*cli.Peeked).Visible),
		cli.IfAny("GROUP", func(m *cli.Peeked) string { return m.Group }),
		cli.IfAny("FROM", func(m *cli.Peeked) string { return cli.QueueNameOf(m.Source) }),
		cli.IfAny("HOLDS", func(m *cli.Peeked) string {
			return cli.OrEmpty(m.Holds != nil, "its group")
		}),
		cli.IfAny("KEY", func(m *cli.Peeked) string { return m.Key }),
		cli.IfAny("ATTEMPTS", func(m *cli.Peeked) string {
			return cli.OrEmpty(m.Attempts > 0, strconv.Itoa(m.Attempts))
		}),
		cli.IfAny("REASON", func(m *cli.Peeked) string {
			return cli.FirstWords(m.Reason, cli.PeekReasonTable)
		}),
		cli.IfAny("BODY", (*cli.Peeked).Beginning),
	})
}

func (f *peekFlags) printQueues(
	ctx context.Context, a *cli.App, v *cli.V1Client, query url.Values,
) error {
	list, err := v.Queues(ctx, query, f.limit)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(list)
	}
	if len(list.Queues) == 0 {
		a.Note("no queues at %s", v.C.Endpoint)
	} else if err := a.PrintTable(queueTable(list.Queues)); err != nil {
		return err
	}
	if list.Next != "" {
		a.Note("there are more; continue with --after %s", list.Next)
	}
	return nil
}

func queueTable(queues []cli.PeekedQueue) cli.Table {
	t := cli.Table{Head: []string{"QUEUE", "VISIBLE", "IN FLIGHT", "DELAYED", "OLDEST",
		"DEAD LETTERS"}}
	for i := range queues {
		q := &queues[i]
		oldest := ""
		if q.Visible+q.InFlight+q.Delayed > 0 {
			oldest = cli.RoughDuration(time.Duration(q.OldestAgeMS) * time.Millisecond)
		}
		t.Add(q.Name, strconv.FormatInt(q.Visible, 10), strconv.FormatInt(q.InFlight, 10),
			strconv.FormatInt(q.Delayed, 10), oldest, q.DeadLettersText())
	}
	return t
}
