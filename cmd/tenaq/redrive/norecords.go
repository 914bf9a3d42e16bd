package redrive

import (
	"context"
	"errors"
	"os"

	"tenaq/internal/cli"
	"tenaq/records"
)

// openRecords opens the records of a command.
type openRecords func(context.Context) (*cli.RecordStore, error)

// openOrEmpty opens the records for a look. On a machine that has none, and where none are named,
// they are empty: no redriver has run yet.
func (f *flags) openOrEmpty(ctx context.Context) (*cli.RecordStore, error) {
	store, err := f.OpenExisting(ctx)
	if f.Address != "" || os.Getenv("TENAQ_RECORDS") != "" ||
		cli.ExitCode(err) != cli.ExitNotFound {
		return store, err
	}
	place, err := f.Place()
	return &cli.RecordStore{Store: noRecords{}, Place: place}, err
}

// noRecords is a store that has nothing and keeps nothing.
type noRecords struct{}

var errNoRecords = errors.New("there are no records")

func (noRecords) Get(context.Context, string) (records.Record, error) {
	return records.Record{}, records.ErrNotFound
}

func (noRecords) List(context.Context, string, string, int) ([]records.Record, error) {
	return nil, nil
}

func (noRecords) Put(context.Context, records.Write) (records.Record, error) {
	return records.Record{}, errNoRecords
}

func (noRecords) Delete(context.Context, string, records.Version) error { return errNoRecords }
func (noRecords) Sweep(context.Context, int) (int, error)               { return 0, nil }
func (noRecords) Close() error                                          { return nil }
