package outbox

import (
	"context"
	"os"

	"tenaq/internal/cli"
	"tenaq/outbox"
)

// A Finder finds rows of an outbox for "tenaq trace".
type Finder struct {
	finder outbox.Finder
	o      *openOutbox
}

// OpenFinder opens the outbox at an address, or that of TENAQ_OUTBOX. It returns nil if neither
// names one.
func OpenFinder(ctx context.Context, address string) (*Finder, error) {
	if address == "" && os.Getenv("TENAQ_OUTBOX") == "" {
		return nil, nil
	}
	f := &flags{address: address, flag: "--outbox"}
	o, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	finder, ok := o.box.(outbox.Finder)
	if !ok {
		o.Close()
		return nil, cli.Codedf(cli.ExitFailed, "rows cannot be found in %s", o.place)
	}
	return &Finder{finder, o}, nil
}

// Find returns the rows of works and of messages, the oldest first.
func (f *Finder) Find(
	ctx context.Context, works, messages []string, limit int,
) ([]outbox.Found, error) {
	found, err := f.finder.Find(ctx, works, messages, limit)
	return found, explain(f.o.place, err)
}

// String is the address of the outbox, without a password.
func (f *Finder) String() string { return f.o.place.String() }

// Close closes the outbox.
func (f *Finder) Close() { f.o.Close() }
