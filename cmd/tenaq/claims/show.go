package claims

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/records"
)

func newClaimsShowCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show KEY",
		Short: "Show all that the ledger knows about a key",
		Long: `Show all that the ledger knows about a key, with the result of completed work and the memo, which is what
it would take to do the work again. An unknown key is an error with exit code 3.

Result and memo are shown with control characters escaped; bytes that are no text are shown in base64. With
--json they are as they are, in the members result and memo, or in base64 in resultBase64 and memoBase64.`,
		Example: `  tenaq claims show order-17
  tenaq claims show order-17 --ledger send/orders/
  tenaq claims show order-17 --json | jq -r .result`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := f.Open(cmd.Context())
			if err != nil {
				return err
			}
			defer l.Close()
			e, err := l.Entry(cmd.Context(), args[0])
			switch {
			case err != nil:
				return Explain(l, err)
			case a.JSON:
				return a.PrintJSON(newClaimDetails(&e))
			}
			return printClaim(a, &e)
		},
	}
}

// Explain adds what to do to an error about one entry.
func Explain(l *cli.Ledger, err error) error {
	if errors.Is(err, claims.ErrNoEntry) {
		return cli.Codedf(cli.ExitNotFound, "%w in %s; see: tenaq claims list", err, l.Store.Place)
	}
	return fmt.Errorf("%w (in %s)", err, l.Store.Place)
}

// claimDetails are an entry with all that it holds, as --json prints it.
type claimDetails struct {
	claimDocument
	Result       *string         `json:"result,omitempty"`
	ResultBase64 []byte          `json:"resultBase64,omitempty"`
	Memo         *string         `json:"memo,omitempty"`
	MemoBase64   []byte          `json:"memoBase64,omitempty"`
	Version      records.Version `json:"version"`
}

func newClaimDetails(e *claims.Entry) claimDetails {
	d := claimDetails{claimDocument: newClaimDocument(e), Version: e.Version}
	d.Result, d.ResultBase64 = textOrBase64(e.Result)
	d.Memo, d.MemoBase64 = textOrBase64(e.Memo)
	return d
}

func printClaim(a *cli.App, e *claims.Entry) error {
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-9s %s\n", name, cli.OneLine(value))
		}
	}
	on, off := a.Bold()
	fmt.Fprintf(&b, "%s%-9s %s%s\n", on, "key", cli.OneLine(e.Key), off)
	field("state", stateText(e))
	field("written", writtenText(e))
	if e.State == claims.Held {
		field("lease", leaseText(e))
	}
	field("owner", e.Owner)
	field("fence", strconv.FormatUint(e.Fence, 10))
	field("attempts", strconv.Itoa(e.Attempts))
	field("message", e.Message)
	field("reason", e.Reason)
	field("result", bytesText(e.Result))
	field("memo", bytesText(e.Memo))
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}

func writtenText(e *claims.Entry) string {
	if e.Age == records.AgeUnknown {
		return "nobody knows when: the store has no clock"
	}
	return cli.AgeText(e.Age) + " ago"
}

func leaseText(e *claims.Entry) string {
	switch left, known := e.Remaining(); {
	case !known:
		return cli.HumanDuration(e.Lease) + "; whether it is over nobody knows: the store has no clock"
	case left == 0:
		return cli.HumanDuration(e.Lease) + ", over for " + cli.AgeText(e.Age-e.Lease)
	default:
		return cli.HumanDuration(e.Lease) + ", " + cli.AgeText(left) + " left"
	}
}

// bytesText returns bytes as text where they are text, and in base64 otherwise.
func bytesText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return "base64 " + base64.StdEncoding.EncodeToString(b)
}
