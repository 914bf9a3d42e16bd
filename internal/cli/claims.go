package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/records"
)

// ClaimsFlags say which ledger a command reads.
type ClaimsFlags struct {
	RecordsFlags
	Ledger    string
	Retention time.Duration // 0 for commands that only read
}

// Register adds the flags of commands that read.
func (f *ClaimsFlags) Register(cmd *cobra.Command) {
	f.RecordsFlags.Register(cmd)
	cmd.PersistentFlags().StringVar(&f.Ledger, "ledger", "claim/", "key `prefix` of the ledger")
}

// RegisterRetention adds the flag of commands that write entries, or that judge by missing ones.
func (f *ClaimsFlags) RegisterRetention(cmd *cobra.Command) {
	const usual = "360h" // also for empty text, as of an unset shell variable
	Value(cmd.Flags(), &f.Retention, "retention", usual, "retention `duration` of entries",
		func(text string) (time.Duration, error) { return ParseDuration(cmp.Or(text, usual)) })
}

type Ledger struct {
	*claims.Ledger
	Store *RecordStore
}

// Open opens the ledger. It creates nothing.
func (f *ClaimsFlags) Open(ctx context.Context) (*Ledger, error) {
	store, err := f.OpenExisting(ctx)
	if err != nil {
		return nil, err
	}
	l, err := claims.New(claims.Config{Store: store, Prefix: f.Ledger, Owner: Operator(),
		Retention: f.Retention})
	if err != nil {
		_ = store.Close()
		return nil, Usagef("%v", err)
	}
	return &Ledger{l, store}, nil
}

func (l *Ledger) Close() error { return l.Store.Close() }

const ListBatch = 500

// Each calls visit with all entries whose keys begin with prefix, in order, until visit returns
// true.
func (l *Ledger) Each(
	ctx context.Context, prefix string, visit func(claims.Entry) (stop bool),
) error {
	for after := ""; ; {
		entries, err := l.List(ctx, prefix, after, ListBatch)
		if err != nil {
			return fmt.Errorf("%w (in %s)", err, l.Store.Place)
		}
		if slices.ContainsFunc(entries, visit) || len(entries) < ListBatch {
			return nil
		}
		after = entries[len(entries)-1].Key
	}
}

// AgeDocument is an age as --json prints it: in seconds, or null.
func AgeDocument(age time.Duration) *float64 {
	if age == records.AgeUnknown {
		return nil
	}
	seconds := age.Seconds()
	return &seconds
}

// Operator names the user of this program in entries that they change.
func Operator() string { return Person() + " (tenaq claims)" }

// Person names the user who runs this program.
func Person() string {
	name := cmp.Or(os.Getenv("USER"), "unknown")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	return name + "@" + cmp.Or(host, "unknown")
}
