// Package claims has the commands that read and change the ledger of claims and the store of records under it.
// Package claims at the root of the module is the ledger.
package claims

import (
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/internal/cli"
)

func NewCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "claims",
		Short: "Look into the ledger of claims, decide what it cannot decide, and find stuck work",
		Long: `Look into the ledger of claims, decide what it cannot decide, and find work that is stuck.

Workers claim the key of a message before they work on it, so the ledger knows what is being done, by whom,
and what was done. An entry is in one of these states:

  held        somebody has it, or had it and died: then the lease is over and the next one takes over
  completed   the work is done, with a result, and is not done again
  failed      it did not succeed; the next delivery of the message tries again
  exhausted   its message has had all its attempts and is with the dead letters; another message may try
  released    given back before the work began; the next one may try
  parked      a holder died, and only a person can find out how far it came: settle it or release it
  unreadable  no entry, or one that a later version of this program wrote

` + cli.RecordsHelp,
		Example: `  tenaq claims list --state parked
  tenaq claims show order-17
  tenaq claims settle order-17 --result '{"charge": "ch_1"}' --reason 'seen in the books of the bank'
  tenaq claims sweep`,
	}
	f := &cli.ClaimsFlags{}
	f.Register(cmd)
	cmd.AddCommand(
		newClaimsListCmd(a, f),
		newClaimsStuckCmd(a, f),
		newClaimsShowCmd(a, f),
		newClaimsReleaseCmd(a, f),
		newClaimsSettleCmd(a, f),
		newClaimsSweepCmd(a, f),
	)
	cli.AsGroup(cmd)
	return cmd
}

// A claimDocument is an entry as --json prints it.
type claimDocument struct {
	Key       string       `json:"key"`
	State     claims.State `json:"state"`
	LeaseOver *bool        `json:"leaseOver,omitempty"` // of a held one; absent too where nobody knows
	Age       *float64     `json:"ageSeconds"`          // since it was written last; null when the store has no clock
	Lease     float64      `json:"leaseSeconds,omitempty"`
	Owner     string       `json:"owner,omitempty"`
	Fence     uint64       `json:"fence,omitempty"`
	Attempts  int          `json:"attempts"`
	Message   string       `json:"messageId,omitempty"`
	Reason    string       `json:"reason,omitempty"`
}

func newClaimDocument(e *claims.Entry) claimDocument {
	d := claimDocument{
		Key: e.Key, State: e.State, Lease: e.Lease.Seconds(), Owner: e.Owner, Fence: e.Fence,
		Attempts: e.Attempts, Message: e.Message, Reason: e.Reason,
	}
	d.Age = cli.AgeDocument(e.Age)
	if left, known := e.Remaining(); e.State == claims.Held && known {
		over := left == 0
		d.LeaseOver = &over
	}
	return d
}

// stateText says in what state an entry is, and of a held one whether somebody still holds it.
func stateText(e *claims.Entry) string {
	if left, known := e.Remaining(); e.State == claims.Held && known && left == 0 {
		return "held, lease over"
	}
	return string(e.State)
}

// textOrBase64 returns bytes as --json prints them: as text where they are text.
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
