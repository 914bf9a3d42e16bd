package messages

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
	"tenaq/internal/work/sqslimits"
)

// nackLack ends the error for servers that take no reasons.
const nackLack = "takes no reason with a message: use \"tenaq visibility\", or a tenaq server of this version"

func NewNackCmd(a *cli.App) *cobra.Command {
	var f cli.ClientFlags
	var entry v1.NackEntry
	var delay time.Duration
	cmd := &cobra.Command{
		Use:   "nack QUEUE HANDLE...",
		Short: "Give received messages back with a verdict and a reason",
		Long: `Give received messages back with a verdict and a reason, which the server keeps
with the message. "tenaq peek" and "tenaq dead list" show it.

The verdict is one of:
  retry      the message is visible again after the delay
  poison     the message moves to the dead-letter queue at once
  exhausted  it moves too: it failed, but might succeed later
  release    like retry, and the receive does not count

Only the newest receipt handle of a message can be used. If some messages could
not be given back, the command reports them and exits with 5; with one handle,
it exits with 4, or with 2 if that is no receipt handle. This needs a tenaq
server.`,
		Example: `  tenaq nack orders AQEB... --text 'no answer from the bank' --delay 5m
  tenaq nack orders AQEB... --verdict poison --class Invalid --text 'not JSON'`,
		Args: cli.Wants(2, -1),
		RunE: f.OnQueueV1(nackLack, func(
			ctx context.Context, v *cli.V1Client, queue string, args []string,
		) error {
			entry.DelayMS = delay.Milliseconds()
			return nackAll(ctx, a, v, queue, args, entry)
		}),
	}
	f.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&entry.Verdict, "verdict", "retry", "`verdict` on the messages")
	flags.StringVar(&entry.Class, "class", "", "`name` of the error, at most 128 bytes")
	flags.StringVar(&entry.Text, "text", "", "reason, at most 1024 bytes")
	cli.Duration(flags, &delay, "delay", "", "`duration` until the message is visible again")
	cli.Completes(cmd, "verdict", "retry", "poison", "exhausted", "release")
	return cmd
}

// nackAll gives messages back, ten with each request.
func nackAll(
	ctx context.Context, a *cli.App, v *cli.V1Client, queue string, handles []string,
	entry v1.NackEntry,
) error {
	path := "/queues/" + url.PathEscape(queue) + "/nack"
	done := 0
	for batch := range slices.Chunk(handles, sqslimits.BatchMax) {
		var in struct {
			Entries []v1.NackEntry `json:"entries"`
		}
		for _, handle := range batch {
			entry.Handle = handle
			in.Entries = append(in.Entries, entry)
		}
		var out v1.NackOutcomes
		if err := v.Post(ctx, "give back messages of", queue, path, in, &out); err != nil {
			return err
		}
		for i, o := range out.Outcomes[:min(len(out.Outcomes), len(batch))] {
			err := fmt.Errorf("handle %q: %s (%s)", shorten(batch[i]),
				strings.TrimSuffix(o.Message, "."), o.Code)
			switch {
			case o.Done:
				done++
			case len(handles) == 1 && o.Code == "ReceiptHandleIsInvalid":
				return cli.Codedf(cli.ExitUsage, "%w", err) // as "tenaq delete" does
			case len(handles) == 1:
				return cli.Codedf(cli.ExitRefused, "%w", err)
			default:
				a.Complain(err)
			}
		}
	}
	if err := cli.Partly(done, len(handles)-done, "given back"); err != nil {
		return err
	}
	return a.Result(map[string]any{"done": done, "verdict": entry.Verdict}, "gave back %s: %s",
		cli.Counted(int64(done), "message", "messages"), entry.Verdict)
}
