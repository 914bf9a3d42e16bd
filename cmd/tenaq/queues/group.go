package queues

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

const groupLack = "does not show message groups: this needs a tenaq server of this version"

func NewGroupCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "List and release message groups of FIFO queues",
		Long: `List the message groups of a FIFO queue, and release a group whose consumer
hangs.

While the first message of a group is in flight or delayed, the group is locked:
its other messages wait, however many there are. On a queue with the tag
tenaq:fifo-on-dead-letter, dead letters hold their groups until they are moved
back, deleted or moved elsewhere. This needs a tenaq server.`,
		Example: `  tenaq group list orders.fifo --locked
  tenaq group release orders.fifo customer-7`,
	}
	f := &cli.ClientFlags{}
	f.Register(cmd)
	cmd.AddCommand(newGroupListCmd(a, f), newGroupReleaseCmd(a, f))
	cli.AsGroup(cmd)
	return cmd
}

// A groupList is what group list shows, as --json prints it.
type groupList struct {
	Queue  string      `json:"queue"`
	Groups []groupView `json:"groups"`
	Next   string      `json:"next,omitempty"`
}

type groupView struct {
	Group     string    `json:"group"`
	State     string    `json:"state"`
	VisibleAt time.Time `json:"visibleAt"`
	WaitMS    int64     `json:"waitMs"`
	Messages  int64     `json:"messages"`
	MessageID string    `json:"messageId"`
	Sent      time.Time `json:"sent"`
	Receives  int64     `json:"receiveCount"`
	Lineage   string    `json:"lineageId"`

	HeldBy []holderView `json:"heldBy,omitempty"`
}

// A holderView is a dead letter that holds a group.
type holderView struct {
	Queue     string `json:"queue"`
	MessageID string `json:"messageId"`
	Lineage   string `json:"lineageId"`
}

// opens says when a group opens.
func (g *groupView) opens() string {
	switch {
	case len(g.HeldBy) == 1:
		return "after " + g.HeldBy[0].MessageID + " in " + g.HeldBy[0].Queue
	case len(g.HeldBy) > 1:
		return fmt.Sprintf("after %d dead letters in %s", len(g.HeldBy), g.HeldBy[0].Queue)
	case g.WaitMS > 0:
		return "in " + cli.RoughDuration(time.Duration(g.WaitMS)*time.Millisecond)
	}
	return "open"
}

// groupPage is how many groups are asked for at a time.
const groupPage = 100

func newGroupListCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	var locked bool
	var limit int
	cmd := &cobra.Command{
		Use:     "list QUEUE",
		Aliases: []string{"ls"},
		Short:   "List message groups, held and locked ones first",
		Long: `List the message groups of a FIFO queue: those held by dead letters, then locked
ones by the time at which they open, then the others.

  STATE     of the first message: visible, in_flight or delayed; or held
  OPENS     when the first message can be received, or after which dead letter
  MESSAGES  of the group
  RECEIVES  of the first message`,
		Example: `  tenaq group list orders.fifo
  tenaq group list orders.fifo --locked --json | jq -r '.groups[].group'`,
		Args: cli.Wants(1, 1),
		RunE: f.OnQueueV1(groupLack, func(
			ctx context.Context, v *cli.V1Client, queue string, _ []string,
		) error {
			list := groupList{Queue: queue, Groups: []groupView{}}
			query := url.Values{}
			if locked {
				query.Set("only", "locked")
			}
			path := "/queues/" + url.PathEscape(list.Queue) + "/groups"
			if err := cli.Pages(ctx, v, "list the groups of", queue, path, query, groupPage,
				limit, func(page *groupList) (int, string) {
					list.Groups, list.Next = append(list.Groups, page.Groups...), page.Next
					return len(page.Groups), page.Next
				}); err != nil {
				return err
			}
			return printGroups(a, &list)
		}),
	}
	cmd.Flags().BoolVar(&locked, "locked", false, "list only held and locked groups")
	cli.Number(cmd.Flags(), &limit, "limit", 50, 1, cli.PeekLimitMax,
		"maximum `number` of groups")
	return cmd
}

func printGroups(a *cli.App, list *groupList) error {
	switch {
	case a.JSON:
		return a.PrintJSON(list)
	case len(list.Groups) == 0:
		a.Note("no such groups")
		return nil
	}
	table := cli.Table{Head: []string{"GROUP", "STATE", "OPENS", "MESSAGES", "RECEIVES"}}
	for _, g := range list.Groups {
		table.Rows = append(table.Rows, []string{g.Group, g.State, g.opens(),
			strconv.FormatInt(g.Messages, 10), strconv.FormatInt(g.Receives, 10)})
	}
	if err := a.PrintTable(table); err != nil {
		return err
	}
	if list.Next != "" {
		a.Note("there are more: raise --limit")
	}
	return nil
}

func newGroupReleaseCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "release QUEUE GROUP",
		Short: "Make the messages of a group receivable, and end its hold",
		Long: `Make the messages of a group that are in flight receivable at once, when their
consumer hangs. If dead letters hold the group, the hold ends.

The next consumer receives them again, and their receive counts stay. The
receipt handles of the hung consumer become invalid, so it can no longer delete
the messages, but its work outside the queue may still be running.

The dead letters stay where they are. A dead letter that is moved back later
goes to the end of its group. To keep the order, move it back instead: tenaq
dead redrive.`,
		Example: `  tenaq group release orders.fifo customer-7`,
		Args:    cli.Wants(2, 2),
		RunE: f.OnQueueV1(groupLack, func(
			ctx context.Context, v *cli.V1Client, queue string, args []string,
		) error {
			path := "/queues/" + url.PathEscape(queue) + "/groups/release"
			var done struct {
				Released    int64 `json:"released"`
				DeadLetters int64 `json:"deadLetters"`
			}
			if err := v.Post(ctx, "release a group of", queue, path,
				map[string]string{"group": args[0]}, &done); err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(done)
			}
			if done.Released > 0 || done.DeadLetters == 0 {
				a.Note("released %s of %s", cli.Counted(done.Released, "message", "messages"),
					args[0])
			}
			switch n := done.DeadLetters; {
			case n == 1:
				a.Note("%s is free; the dead letter that held it stays in the dead-letter queue", args[0])
			case n > 1:
				a.Note("%s is free; the %d dead letters that held it stay in the dead-letter queue", args[0], n)
			}
			return nil
		}),
	}
}
