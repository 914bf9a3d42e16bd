package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/records"
	"tenaq/records/sqliterecords"
)

// RecordsHelp says what --records takes; it is part of the help of every command that has it.
const RecordsHelp = `Records are kept where all who share them can reach them, as --records or TENAQ_RECORDS says:

  sqlite:PATH                      one file, for the processes of one machine
  postgres://USER@HOST/DATABASE    PostgreSQL, in the table tenaq_records; with ?tenaq_table=NAME, or
                                   SCHEMA.NAME, in another one; the rest is as psql has it
  dynamodb:TABLE                   DynamoDB, with the credentials and the region that AWS programs use

Without either it is the file records.db in the directory where "tenaq serve" keeps its data unless told.
Others on the machine can see a command line: a password belongs in PGPASSWORD, ~/.pgpass or TENAQ_RECORDS.`

// RecordsFlags say where a command keeps its records.
type RecordsFlags struct{ Address string }

func (f *RecordsFlags) Register(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.Address, "records", "", "`address` of the place where records are kept: sqlite:PATH, postgres://... or dynamodb:TABLE (default $TENAQ_RECORDS, then records.db in the state directory)")
}

// A RecordStore is an open store that knows how to call itself.
type RecordStore struct {
	records.Store
	Place RecordsPlace
}

// Open opens the store for work. It makes the SQLite file and the tables of PostgreSQL when they are
// missing. A table of DynamoDB, which has a price, is left to "tenaq records init".
func (f *RecordsFlags) Open(ctx context.Context) (*RecordStore, error) {
	place, err := f.Place()
	if err != nil {
		return nil, err
	}
	if d, ok := place.(*DynamoPlace); ok {
		return openExisting(ctx, d)
	}
	if err := place.Make(ctx); err != nil {
		place.Close()
		return nil, err
	}
	return openPlace(ctx, place)
}

// OpenExisting opens the store for a look. It makes nothing: who looks into the wrong place has to hear so.
func (f *RecordsFlags) OpenExisting(ctx context.Context) (*RecordStore, error) {
	place, err := f.Place()
	if err != nil {
		return nil, err
	}
	return openExisting(ctx, place)
}

func openExisting(ctx context.Context, place RecordsPlace) (*RecordStore, error) {
	there, err := place.Exists(ctx)
	if err == nil && !there {
		err = Codedf(ExitNotFound, "there are no records in %s; check --records and TENAQ_RECORDS, or make them with: tenaq records init", place)
	}
	if err != nil {
		place.Close()
		return nil, err
	}
	return openPlace(ctx, place)
}

func openPlace(ctx context.Context, place RecordsPlace) (*RecordStore, error) {
	store, err := place.Open(ctx)
	if err != nil {
		place.Close()
		return nil, err
	}
	return &RecordStore{store, place}, nil
}

// ListDue implements records.DueLister, where the store does.
func (s *RecordStore) ListDue(ctx context.Context, prefix string, until time.Time, limit int) ([]records.Record, error) {
	if lister, ok := s.Store.(records.DueLister); ok {
		return lister.ListDue(ctx, prefix, until, limit)
	}
	return nil, records.ErrNoIndex
}

// Close ends the use of the store.
func (s *RecordStore) Close() error {
	err := s.Store.Close()
	s.Place.Close()
	return err
}

// A RecordsPlace is where records are kept, or could be. Its errors are for operators: they say where, and
// what to do. It is used by one goroutine.
type RecordsPlace interface {
	String() string // its address, without a password
	Exists(context.Context) (bool, error)
	Make(context.Context) error // what is missing
	Open(context.Context) (records.Store, error)
	Schema() string // what make makes, for those who make it otherwise
	Close()
}

// Place finds out what the address means. It connects to nothing.
func (f *RecordsFlags) Place() (RecordsPlace, error) {
	address, origin := f.Address, "--records"
	if address == "" {
		address, origin = os.Getenv("TENAQ_RECORDS"), "TENAQ_RECORDS"
	}
	if address == "" {
		dir, _, err := DefaultDataDir(os.Getenv)
		if err != nil {
			return nil, Usagef("there is no home directory to keep records in; set --records or TENAQ_RECORDS")
		}
		return &SQLitePlace{Path: filepath.Join(dir, "records.db"), dir: dir}, nil
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
	const known = "sqlite:PATH, postgres://USER@HOST/DATABASE or dynamodb:TABLE"
	if rest == "" && strings.HasSuffix(address, ".db") {
		return nil, fmt.Errorf("%q is none of %s; did you mean sqlite:%s?", address, known, address)
	}
	// The rest may hold a password.
	return nil, fmt.Errorf("what begins with %q is none of %s", cmp.Or(scheme, ":"), known)
}

// A SQLitePlace is a SQLite file.
type SQLitePlace struct {
	Path string
	dir  string // a directory to make, too; "" for none
}

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
		return nil, fmt.Errorf("sqlite:%s: only a shell knows what ~ means, and only at the beginning of a word; write the whole path", path)
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
		return false, Codedf(ExitFailed, "open records: %v; let this user read the directory, or name another file", err)
	case info.IsDir():
		return false, Usagef("%s is a directory; name a file in it", p)
	}
	return info.Size() > 0, nil
}

func (p *SQLitePlace) Make(ctx context.Context) error {
	if p.dir != "" {
		if err := os.MkdirAll(p.dir, 0o700); err != nil {
			return Codedf(ExitFailed, "make the directory of the records: %v; name another place with --records", err)
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
