package main

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

// recordsHelp says what --records takes; it is part of the help of every command that has it.
const recordsHelp = `Records are kept where all who share them can reach them, as --records or TENAQ_RECORDS says:

  sqlite:PATH                      one file, for the processes of one machine
  postgres://USER@HOST/DATABASE    PostgreSQL, in the table tenaq_records; with ?tenaq_table=NAME, or
                                   SCHEMA.NAME, in another one; the rest is as psql has it
  dynamodb:TABLE                   DynamoDB, with the credentials and the region that AWS programs use

Without either it is the file records.db in the directory where "tenaq serve" keeps its data unless told.
Others on the machine can see a command line: a password belongs in PGPASSWORD, ~/.pgpass or TENAQ_RECORDS.`

// recordsFlags say where a command keeps its records.
type recordsFlags struct{ address string }

func (f *recordsFlags) register(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.address, "records", "", "`address` of the place where records are kept: sqlite:PATH, postgres://... or dynamodb:TABLE (default $TENAQ_RECORDS, then records.db in the state directory)")
}

// A recordStore is an open store that knows how to call itself.
type recordStore struct {
	records.Store
	place recordsPlace
}

// open opens the store for work. It makes the SQLite file and the tables of PostgreSQL when they are
// missing. A table of DynamoDB, which has a price, is left to "tenaq records init".
func (f *recordsFlags) open(ctx context.Context) (*recordStore, error) {
	place, err := f.place()
	if err != nil {
		return nil, err
	}
	if d, ok := place.(*dynamoPlace); ok {
		return openExisting(ctx, d)
	}
	if err := place.make(ctx); err != nil {
		place.close()
		return nil, err
	}
	return openPlace(ctx, place)
}

// openExisting opens the store for a look. It makes nothing: who looks into the wrong place has to hear so.
func (f *recordsFlags) openExisting(ctx context.Context) (*recordStore, error) {
	place, err := f.place()
	if err != nil {
		return nil, err
	}
	return openExisting(ctx, place)
}

func openExisting(ctx context.Context, place recordsPlace) (*recordStore, error) {
	there, err := place.exists(ctx)
	if err == nil && !there {
		err = codedf(exitNotFound, "there are no records in %s; check --records and TENAQ_RECORDS, or make them with: tenaq records init", place)
	}
	if err != nil {
		place.close()
		return nil, err
	}
	return openPlace(ctx, place)
}

func openPlace(ctx context.Context, place recordsPlace) (*recordStore, error) {
	store, err := place.open(ctx)
	if err != nil {
		place.close()
		return nil, err
	}
	return &recordStore{store, place}, nil
}

// ListDue implements records.DueLister, where the store does.
func (s *recordStore) ListDue(ctx context.Context, prefix string, until time.Time, limit int) ([]records.Record, error) {
	if lister, ok := s.Store.(records.DueLister); ok {
		return lister.ListDue(ctx, prefix, until, limit)
	}
	return nil, records.ErrNoIndex
}

// Close ends the use of the store.
func (s *recordStore) Close() error {
	err := s.Store.Close()
	s.place.close()
	return err
}

// A recordsPlace is where records are kept, or could be. Its errors are for operators: they say where, and
// what to do. It is used by one goroutine.
type recordsPlace interface {
	String() string // its address, without a password
	exists(context.Context) (bool, error)
	make(context.Context) error // what is missing
	open(context.Context) (records.Store, error)
	schema() string // what make makes, for those who make it otherwise
	close()
}

// place finds out what the address means. It connects to nothing.
func (f *recordsFlags) place() (recordsPlace, error) {
	address, origin := f.address, "--records"
	if address == "" {
		address, origin = os.Getenv("TENAQ_RECORDS"), "TENAQ_RECORDS"
	}
	if address == "" {
		dir, _, err := defaultDataDir(os.Getenv)
		if err != nil {
			return nil, usagef("there is no home directory to keep records in; set --records or TENAQ_RECORDS")
		}
		return &sqlitePlace{path: filepath.Join(dir, "records.db"), dir: dir}, nil
	}
	place, err := parsePlace(address)
	if err != nil {
		return nil, usagef("%s: %v", origin, err)
	}
	return place, nil
}

func parsePlace(address string) (recordsPlace, error) {
	scheme, rest, _ := strings.Cut(address, ":")
	switch scheme {
	case "sqlite":
		return newSQLitePlace(rest)
	case "postgres", "postgresql":
		if strings.HasPrefix(rest, "//") {
			return newPostgresPlace(address)
		}
	case "dynamodb":
		if rest != "" && !strings.HasPrefix(rest, "/") {
			return &dynamoPlace{table: rest}, nil
		}
	}
	const known = "sqlite:PATH, postgres://USER@HOST/DATABASE or dynamodb:TABLE"
	if rest == "" && strings.HasSuffix(address, ".db") {
		return nil, fmt.Errorf("%q is none of %s; did you mean sqlite:%s?", address, known, address)
	}
	// The rest may hold a password.
	return nil, fmt.Errorf("what begins with %q is none of %s", cmp.Or(scheme, ":"), known)
}

// A sqlitePlace is a SQLite file.
type sqlitePlace struct {
	path string
	dir  string // a directory to make, too; "" for none
}

func newSQLitePlace(rest string) (*sqlitePlace, error) {
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
	return &sqlitePlace{path: path}, nil
}

func (p *sqlitePlace) String() string { return "sqlite:" + p.path }

func (p *sqlitePlace) exists(context.Context) (bool, error) {
	info, err := os.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, codedf(exitFailed, "open records: %v; let this user read the directory, or name another file", err)
	case info.IsDir():
		return false, usagef("%s is a directory; name a file in it", p)
	}
	return info.Size() > 0, nil
}

func (p *sqlitePlace) make(ctx context.Context) error {
	if p.dir != "" {
		if err := os.MkdirAll(p.dir, 0o700); err != nil {
			return codedf(exitFailed, "make the directory of the records: %v; name another place with --records", err)
		}
	}
	store, err := p.open(ctx)
	if err != nil {
		return err
	}
	return store.Close()
}

func (p *sqlitePlace) open(context.Context) (records.Store, error) {
	return sqliterecords.Open(sqliterecords.Config{Path: p.path})
}

func (p *sqlitePlace) schema() string { return sqliterecords.Schema() }

func (p *sqlitePlace) close() {}
