// Package claims has the commands that read and change the ledger of claims and the store of
// records under it. They read flags and print; package claims at the root of the module is the
// ledger.
package claims

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/records"
)

func NewCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "claims",
		Short: "Show claims, decide about parked ones, and find stuck work",
		Long: `Show the ledger of claims, decide about parked ones, and find stuck work.

Workers claim the key of a message before they work on it, so the ledger knows
which work is in progress, on which worker, and which is done. The states of an
entry:

  held        a worker has it; "lease expired" if that worker died or lost it:
              then the next worker takes over
  completed   the work is done, with a result, and is not done again
  failed      it did not succeed; the next delivery of the message tries again
  exhausted   the message has used all attempts and is a dead letter; another
              message with the key may try
  released    given back before the work began; the next worker may try
  parked      its holder died, and it awaits your decision: find out how far the
              work got, then settle or release it
  unreadable  the record is not an entry, or a later version of this program
              wrote it

` + cli.RecordsHelp,
		Example: `  tenaq claims list --state parked
  tenaq claims show order-17
  tenaq claims settle order-17 --result '{"charge": "ch_1"}' --reason 'seen in the books of the bank'
  tenaq claims sweep`,
	}
	f, client := &cli.ClaimsFlags{}, &cli.ClientFlags{}
	client.Register(cmd)
	f.Register(cmd)
	f.Connect = client.Connect
	cmd.AddCommand(newListCmd(a, f), newStuckCmd(a, f), newShowCmd(a, f), newReleaseCmd(a, f),
		newSettleCmd(a, f), newUndoCmd(a, f), newSweepCmd(a, f, client))
	cli.AsGroup(cmd)
	return cmd
}

func with(
	f *cli.ClaimsFlags, do func(context.Context, *cli.Ledger, []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		l, err := f.Open(cmd.Context())
		if err != nil {
			return err
		}
		defer l.Close()
		return do(cmd.Context(), l, args)
	}
}

// explain adds to an error where the records are, and what to do.
func explain(l *cli.Ledger, err error) error {
	switch {
	case errors.Is(err, claims.ErrNoEntry):
		return cli.Codedf(cli.ExitNotFound, "%w in %s; see: tenaq claims list", err, l.Store.Place)
	case errors.Is(err, context.Canceled):
		return cli.Codedf(cli.ExitFailed, "interrupted")
	}
	return fmt.Errorf("%w (in %s)", err, l.Store.Place)
}

// A document is an entry as --json prints it. What follows Reason is only there where a single
// entry is shown.
type document struct {
	Key       string       `json:"key"`
	State     claims.State `json:"state"`
	LeaseOver *bool        `json:"leaseOver,omitempty"` // of a held one; absent if unknown
	// since the last write; null if the store has no clock
	Age      *float64 `json:"ageSeconds"`
	Lease    float64  `json:"leaseSeconds,omitempty"`
	Owner    string   `json:"owner,omitempty"`
	Fence    uint64   `json:"fence,omitempty"`
	Attempts int      `json:"attempts"`
	Message  string   `json:"messageId,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Idle     *float64 `json:"idleSeconds,omitempty"` // of a stuck claim

	age, idle time.Duration
}

func newDocument(e *claims.Entry) document {
	d := document{
		Key: e.Key, State: e.State, Age: cli.AgeDocument(e.Age), Lease: e.Lease.Seconds(),
		Owner: e.Owner, Fence: e.Fence,
		Attempts: e.Attempts, Message: e.Message, Reason: e.Reason, age: e.Age,
	}
	if left, known := e.Remaining(); e.State == claims.Held && known {
		over := left == 0
		d.LeaseOver = &over
	}
	return d
}

// state says of a held entry also whether its lease has expired.
func (d *document) state() string {
	return stateText(string(d.State), d.LeaseOver != nil && *d.LeaseOver)
}

func stateText(state string, over bool) string {
	return state + cli.OrEmpty(over && state == string(claims.Held), ", lease expired")
}

func newShowCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show KEY",
		Short: "Show the entry of a key",
		Long: `Show the entry of a key, with the result of completed work and the memo, which
holds what is needed to do the work again. If the key is unknown, the exit code
is 3.

Control characters in the result and the memo are escaped, and binary ones are
shown in base64. --json has the exact bytes: as result and memo if they are
text, otherwise in base64 as resultBase64 and memoBase64.`,
		Example: `  tenaq claims show order-17
  tenaq claims show order-17 --ledger send/orders/
  tenaq claims show order-17 --json | jq -r .result`,
		Args: cli.Wants(1, 1),
		RunE: with(f, func(ctx context.Context, l *cli.Ledger, args []string) error {
			e, err := l.Entry(ctx, args[0])
			if err != nil {
				return explain(l, err)
			}
			d := details{document: newDocument(&e), Version: e.Version}
			d.Result, d.ResultBase64 = textOrBase64(e.Result)
			d.Memo, d.MemoBase64 = textOrBase64(e.Memo)
			written := "unknown: the store has no clock"
			if e.Age != records.AgeUnknown {
				written = cli.AgeText(e.Age) + " ago"
			}
			return a.PrintCard(d, "", [][2]string{
				{"key", e.Key}, {"state", d.state()}, {"written", written},
				{"lease", leaseText(&e)}, {"owner", e.Owner},
				{"fence", strconv.FormatUint(e.Fence, 10)}, {"attempts", strconv.Itoa(e.Attempts)},
				{"message", e.Message}, {"reason", e.Reason},
				{"result", bytesText(e.Result)}, {"memo", bytesText(e.Memo)},
			}...)
		}),
	}
}

type details struct {
	document
	Result       *string         `json:"result,omitempty"`
	ResultBase64 []byte          `json:"resultBase64,omitempty"`
	Memo         *string         `json:"memo,omitempty"`
	MemoBase64   []byte          `json:"memoBase64,omitempty"`
	Version      records.Version `json:"version"`
}

// leaseText is empty unless the entry is held.
func leaseText(e *claims.Entry) string {
	switch left, known := e.Remaining(); {
	case e.State != claims.Held:
		return ""
	case !known:
		return cli.HumanDuration(e.Lease) + "; unknown whether it has expired: the store has no clock"
	case left == 0:
		return cli.HumanDuration(e.Lease) + ", expired " + cli.AgeText(e.Age-e.Lease) + " ago"
	default:
		return cli.HumanDuration(e.Lease) + ", " + cli.AgeText(left) + " left"
	}
}

func textOrBase64(b []byte) (text *string, base64 []byte) {
	if b == nil {
		return nil, nil
	}
	if utf8.Valid(b) {
		s := string(b)
		return &s, nil
	}
	return nil, b
}

func bytesText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return "base64 " + base64.StdEncoding.EncodeToString(b)
}
