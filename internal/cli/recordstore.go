package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/records"
	"tenaq/records/sqliterecords"
)

// RecordsHelp explains --records in the help of every command that has it.
const RecordsHelp = `--records or TENAQ_RECORDS names the store of records. All processes that share
records must reach it:

  server                         the tenaq server of the command
  sqlite:PATH                    one file, for the processes of one machine
  postgres://USER@HOST/DATABASE  PostgreSQL, in the table tenaq_records, or in
                                 another one with ?tenaq_table=[SCHEMA.]NAME;
                                 otherwise as for psql
  dynamodb:TABLE                 DynamoDB, with the credentials and the region
                                 of the AWS environment

The default is "server" if the queues are on tenaq, unless the default data
directory of "tenaq serve" has a file records.db. Otherwise it is that file.
Other users of a machine can read command lines: put a password into PGPASSWORD,
~/.pgpass or TENAQ_RECORDS.`

type RecordsFlags struct {
	Address string

	// Connect connects to the server that may keep the records; nil for no server.
	Connect func(context.Context) (*Client, error)
}

func (f *RecordsFlags) Register(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.Address, "records", "",
		"`address` of the records (default $TENAQ_RECORDS)")
}

type RecordStore struct {
	records.Store
	Place RecordsPlace
}

// Open opens the store for work. It creates a missing SQLite file and missing tables of PostgreSQL.
// A DynamoDB table costs money, so only "tenaq records init" creates one.
func (f *RecordsFlags) Open(ctx context.Context) (*RecordStore, error) {
	place, err := f.Place(ctx)
	if err != nil {
		return nil, err
	}
	if d, ok := place.(*DynamoPlace); ok {
		return openExisting(ctx, d)
	}
	return openPlace(ctx, place, place.Make(ctx))
}

// OpenExisting opens the store for reading. It creates nothing, so a wrong address is an error.
func (f *RecordsFlags) OpenExisting(ctx context.Context) (*RecordStore, error) {
	place, err := f.Place(ctx)
	if err != nil {
		return nil, err
	}
	return openExisting(ctx, place)
}

func openExisting(ctx context.Context, place RecordsPlace) (*RecordStore, error) {
	there, err := place.Exists(ctx)
	if err == nil && !there {
		err = Codedf(ExitNotFound,
			"there are no records in %s; check --records and TENAQ_RECORDS, or create them with: tenaq records init", place)
	}
	return openPlace(ctx, place, err)
}

// openPlace opens a place unless err prevents that.
func openPlace(ctx context.Context, place RecordsPlace, err error) (*RecordStore, error) {
	var store records.Store
	if err == nil {
		store, err = place.Open(ctx)
	}
	if err != nil {
		place.Close()
		return nil, err
	}
	return &RecordStore{store, place}, nil
}

// ListDue implements records.DueLister, where the store does.
func (s *RecordStore) ListDue(
	ctx context.Context, prefix string, until time.Time, limit int,
) ([]records.Record, error) {
	if lister, ok := s.Store.(records.DueLister); ok {
		return lister.ListDue(ctx, prefix, until, limit)
	}
	return nil, records.ErrNoIndex
}

func (s *RecordStore) Close() error {
	err := s.Store.Close()
	s.Place.Close()
	return err
}

// A Place is a database that has tables of tenaq, or could have them. Its errors name the place and
// what to do. It is for one goroutine.
type Place interface {
	String() string // its address, without a password
	Schema() string // what would be made, as text
	Exists(context.Context) (bool, error)
	Close()
}

// InitPlace makes what a place lacks, or only prints its schema. what is its member of a JSON
// document; made and current are the formats of the result.
func (a *App) InitPlace(
	ctx context.Context, p Place, show bool, make func(context.Context) error,
	what, made, current string,
) error {
	switch {
	case show && a.JSON:
		return a.PrintJSON(map[string]string{what: p.String(), "schema": p.Schema()})
	case show:
		_, err := io.WriteString(a.Stdout, p.Schema())
		return err
	}
	there, err := p.Exists(ctx)
	if err == nil {
		err = make(ctx)
	}
	if err != nil {
		return err
	}
	if there {
		made = current
	}
	return a.Result(map[string]any{what: p.String(), "made": !there}, made, p)
}

type RecordsPlace interface {
	Place
	Make(context.Context) error // what is missing
	Open(context.Context) (records.Store, error)
}

// IsUsual reports whether no address names a place.
func (f *RecordsFlags) IsUsual() bool { return f.Address == "" && os.Getenv("TENAQ_RECORDS") == "" }

// Place finds the place that the address names, or the usual one. It connects only to the server
// of the command, and only if the place may be there.
func (f *RecordsFlags) Place(ctx context.Context) (RecordsPlace, error) {
	address, origin := FlagOr("--records", f.Address, "TENAQ_RECORDS", os.Getenv)
	switch address {
	case "":
		return f.usualPlace(ctx)
	case ServerRecords:
		return f.serverPlace(ctx)
	}
	place, err := ParsePlace(address)
	if err != nil {
		return nil, Usagef("%s: %v", origin, err)
	}
	return place, nil
}

func ParsePlace(address string) (RecordsPlace, error) {
	scheme, rest, _ := strings.Cut(address, ":")
	switch scheme {
	case "sqlite":
		return NewSQLitePlace(rest)
	case "postgres", "postgresql":
		if strings.HasPrefix(rest, "//") {
			return newPostgresPlace(address)
		}
	case "dynamodb":
		if rest != "" && !strings.HasPrefix(rest, "/") {
			return &DynamoPlace{table: rest}, nil
		}
	}
	const known = "server, sqlite:PATH, postgres://USER@HOST/DATABASE or dynamodb:TABLE"
	if rest == "" && strings.HasSuffix(address, ".db") {
		return nil, fmt.Errorf("%q is not one of %s; did you mean sqlite:%s?", address, known, address)
	}
	// The rest may hold a password.
	return nil, fmt.Errorf("an address that begins with %q is not one of %s", cmp.Or(scheme, ":"),
		known)
}

type SQLitePlace struct {
	Path string
	dir  string // a directory to make, too; "" for none
}

// NewSQLitePlace parses an address without its sqlite:.
func NewSQLitePlace(rest string) (*SQLitePlace, error) {
	path := rest
	if strings.HasPrefix(rest, "//") {
		path = rest[len("//"):]
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("sqlite:%s names a host; write sqlite:PATH, or sqlite:///PATH from the root", rest)
		}
	}
	switch {
	case path == "":
		return nil, errors.New("the path of the file is missing; write sqlite:PATH")
	case strings.HasPrefix(path, "~"):
		return nil, fmt.Errorf("sqlite:%s: %w", path, errTilde)
	}
	return &SQLitePlace{Path: path}, nil
}

func (p *SQLitePlace) String() string { return "sqlite:" + p.Path }

func (p *SQLitePlace) Exists(context.Context) (bool, error) {
	info, err := os.Stat(p.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, Codedf(ExitFailed,
			"cannot open the records: %v; let this user read the directory, or name another file",
			err)
	case info.IsDir():
		return false, Usagef("%s is a directory; name a file in it", p)
	}
	return info.Size() > 0, nil
}

func (p *SQLitePlace) Make(ctx context.Context) error {
	if p.dir != "" {
		if err := os.MkdirAll(p.dir, 0o700); err != nil {
			return Codedf(ExitFailed,
				"cannot create the directory of the records: %v; name another place with --records",
				err)
		}
	}
	store, err := p.Open(ctx)
	if err != nil {
		return err
	}
	return store.Close()
}

func (p *SQLitePlace) Open(context.Context) (records.Store, error) {
	return sqliterecords.New(sqliterecords.Config{Path: p.Path})
}

func (p *SQLitePlace) Schema() string { return sqliterecords.Schema() }

func (p *SQLitePlace) Close() {}
