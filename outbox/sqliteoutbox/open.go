package sqliteoutbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	_ "modernc.org/sqlite" // the driver of Open

	"tenaq/internal/work/backoff"
)

// connections is how many a Box of Open has at most.
const connections = 4

// Open opens the outbox in the file of a database, which must exist; Migrate makes the tables. It takes the file to
// the mode WAL, in which it then remains, and what it writes is on the disk when it answers.
func Open(path string, o Options) (*Box, error) {
	b, err := New(nil, o)
	if err != nil {
		return nil, err
	}
	b.own = true
	if path == "" {
		return nil, errors.New("open an outbox: no path; name the file of the database that it is in")
	}
	if b.where, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("open the outbox in %s: %w", path, err)
	}
	if _, err := os.Stat(b.where); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open the outbox in %s: there is no such file; name the database to which the program writes", b.where)
	}
	if b.db, err = sql.Open("sqlite", location(b.where, b.wait)); err != nil {
		return nil, b.explain(context.Background(), "open the outbox", err)
	}
	b.db.SetMaxOpenConns(connections)
	b.db.SetMaxIdleConns(connections)
	ctx, cancel := context.WithTimeout(context.Background(), b.wait+time.Second)
	defer cancel()
	if err := b.useWAL(ctx); err != nil {
		_ = b.db.Close()
		return nil, err
	}
	return b, nil
}

// location is the file and how it is opened: an answer is durable, on systems too where an fsync is not enough.
func location(path string, wait time.Duration) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: url.Values{
		"mode": {"rw"},
		"_pragma": {
			"busy_timeout(" + strconv.FormatInt(max(1, wait.Milliseconds()), 10) + ")",
			"synchronous(FULL)", "fullfsync(ON)", "checkpoint_fullfsync(ON)",
		},
		"_txlock": {"immediate"},
	}.Encode()}
	return u.String()
}

// useWAL makes the file one with a write-ahead log. SQLite does not wait for others who are about to do the same.
func (b *Box) useWAL(ctx context.Context) error {
	for {
		var mode string
		err := b.db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		switch {
		case err == nil && mode == "wal":
			return nil
		case err == nil:
			return fmt.Errorf("open the outbox in %s: SQLite cannot share a file there (journal mode %s); put it on a local disk", b.where, mode)
		case code(err) != busy || ctx.Err() != nil:
			return b.explain(ctx, "open the outbox", err)
		}
		_ = backoff.Sleep(ctx, 5*time.Millisecond) // the context is looked at above
	}
}
