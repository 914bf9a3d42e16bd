package messages

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

type showFlags struct {
	cli.ClientFlags
	body bool
}

func NewShowCmd(a *cli.App) *cobra.Command {
	f := &showFlags{}
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Find a message by its id and show everything known about it",
		Long: `Find a message in all queues by its id, or by the id of its lineage, and show
everything known about it. Nothing is hidden or moved, and nothing counts as a
receive. The search takes the same time however many messages wait.

The lineage is the id with which the work was first sent. It stays the same when
the message goes to a dead-letter queue and when a move task brings it back. The
fence counts the deliveries of the lineage: the delivery with the highest fence
is the current one. An attempt is what a consumer said when it gave the message
back; five are kept.

Messages that were deleted or have expired are not found: for those, see "tenaq
history". Messages that an older version of tenaq stored are not found until
they move to another queue.`,
		Example: `  tenaq show 5f0c1a52-8f1e-4c6b-9d0a-3b1f2c7d9e10
  tenaq show 5f0c1a52-8f1e-4c6b-9d0a-3b1f2c7d9e10 --body
  tenaq show 5f0c1a52-8f1e-4c6b-9d0a-3b1f2c7d9e10 --json | jq -r .queue`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.RunV1(showLack, func(
				ctx context.Context, v *cli.V1Client, args []string,
			) error {
				return f.show(ctx, a, v, args[0])
			})(cmd, args)
		},
	}
	f.ClientFlags.Register(cmd)
	cmd.Flags().BoolVar(&f.body, "body", false, "show the body, up to 1 MiB")
	return cmd
}

// showLack ends the error for servers that cannot find a message.
const showLack = "cannot find a message by its id; use a tenaq server of this version"

func (f *showFlags) show(ctx context.Context, a *cli.App, v *cli.V1Client, id string) error {
	query := url.Values{}
	if f.body {
		query.Set("body", strconv.Itoa(cli.PeekBodyMax))
	}
	m, err := v.Message(ctx, strings.TrimSpace(id), query)
	if err != nil {
		return err
	}
	state := m.State
	if later := m.Visible(); later != "" {
		state += ", visible " + later
	}
	now := m.Sent.Add(time.Duration(m.AgeMS) * time.Millisecond) // of the server
	received := ""
	if m.LastReceive != nil {
		received = cli.HumanTime(*m.LastReceive, now)
	}
	count := func(n int64) string { return cli.OrEmpty(n > 0, strconv.FormatInt(n, 10)) }
	fields := [][2]string{
		{"message", m.ID},
		{"queue", m.Queue},
		{"state", state},
		{"lineage", m.Lineage},
		{"generation", count(m.Generation)},
		{"fence", strconv.FormatInt(m.Fence, 10)},
		{"first sent", cli.HumanTime(m.FirstSent, now)},
		{"sent", cli.HumanTime(m.Sent, now)},
		{"receives", strconv.FormatInt(m.Receives, 10)},
		{"received", received},
		{"group", m.Group},
		{"dedup id", m.Dedup},
		{"from", cli.QueueNameOf(m.Source)},
		{"key", m.Key},
		{"attempts", count(int64(m.Attempts))},
		{"redrives", count(int64(m.Redrives))},
		{"reason", m.Reason},
		{"size", strconv.FormatInt(m.Size, 10)},
	}
	for _, t := range m.Story {
		text := fmt.Sprintf("receive %d: %s, %s", t.Receive, t.How, cli.HumanTime(t.Ended, now))
		if reason := strings.Trim(t.Class+": "+t.Text, ": "); reason != "" {
			text += ", " + reason
		}
		fields = append(fields, [2]string{"attempt", text})
	}
	return a.PrintCard(m, m.Beginning(), fields...)
}
