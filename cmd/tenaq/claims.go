package main

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/records"
)

func newClaimsCmd(a *app) *cobra.Command {
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

` + recordsHelp,
		Example: `  tenaq claims list --state parked
  tenaq claims show order-17
  tenaq claims settle order-17 --result '{"charge": "ch_1"}' --reason 'seen in the books of the bank'
  tenaq claims sweep`,
	}
	f := &claimsFlags{}
	f.register(cmd)
	cmd.AddCommand(
		newClaimsListCmd(a, f),
		newClaimsStuckCmd(a, f),
		newClaimsShowCmd(a, f),
		newClaimsReleaseCmd(a, f),
		newClaimsSettleCmd(a, f),
		newClaimsSweepCmd(a, f),
	)
	asGroup(cmd)
	return cmd
}

// claimsFlags say which ledger a command looks into.
type claimsFlags struct {
	recordsFlags
	ledger    string
	retention string // for commands that change something
}

func (f *claimsFlags) register(cmd *cobra.Command) {
	f.recordsFlags.register(cmd)
	cmd.PersistentFlags().StringVar(&f.ledger, "ledger", "claim/", "`prefix` of the keys of the ledger; send/QUEUE/ for what producers have registered for a queue")
}

// registerRetention adds the flag of commands that write entries, or conclude from missing ones.
func (f *claimsFlags) registerRetention(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.retention, "retention", "360h", "the `duration` for which workers and producers keep entries, in hours")
}

// A ledger is an open ledger of claims.
type ledger struct {
	*claims.Ledger
	store *recordStore
}

func (f *claimsFlags) open(ctx context.Context) (*ledger, error) {
	cfg := claims.Config{Prefix: f.ledger, Owner: operator()}
	if f.retention != "" {
		var err error
		if cfg.Retention, err = parseDuration(f.retention); err != nil {
			return nil, usagef("--retention: %v", err)
		}
	}
	store, err := f.openExisting(ctx)
	if err != nil {
		return nil, err
	}
	l, err := claims.New(store, cfg)
	if err != nil {
		_ = store.Close()
		return nil, usagef("%v", err)
	}
	return &ledger{l, store}, nil
}

func (l *ledger) Close() error { return l.store.Close() }

// listBatch is how many entries are asked for at a time.
const listBatch = 500

// each calls visit with all entries whose keys begin with prefix, in order, until visit says stop.
func (l *ledger) each(ctx context.Context, prefix string, visit func(claims.Entry) (stop bool)) error {
	for after := ""; ; {
		entries, err := l.List(ctx, prefix, after, listBatch)
		if err != nil {
			return fmt.Errorf("%w (in %s)", err, l.store.place)
		}
		for _, e := range entries {
			if visit(e) {
				return nil
			}
		}
		if len(entries) < listBatch {
			return nil
		}
		after = entries[len(entries)-1].Key
	}
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
	d.Age = ageDocument(e.Age)
	if left, known := e.Remaining(); e.State == claims.Held && known {
		over := left == 0
		d.LeaseOver = &over
	}
	return d
}

// ageDocument is an age as --json prints it: in seconds, or null.
func ageDocument(age time.Duration) *float64 {
	if age == records.AgeUnknown {
		return nil
	}
	seconds := age.Seconds()
	return &seconds
}

// stateText says in what state an entry is, and of a held one whether somebody still holds it.
func stateText(e *claims.Entry) string {
	if left, known := e.Remaining(); e.State == claims.Held && known && left == 0 {
		return "held, lease over"
	}
	return string(e.State)
}

// ageText says how long ago an entry was written, to the largest unit.
func ageText(age time.Duration) string {
	if age == records.AgeUnknown {
		return "unknown"
	}
	for _, u := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if age >= u {
			return humanDuration(age.Truncate(u))
		}
	}
	return humanDuration(0)
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
