package sqlitedb

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	_ "modernc.org/sqlite" // the driver of Open

	"tenaq/internal/work/backoff"
)

// Options say how Open opens a file.
type Options struct {
	Wait        time.Duration // how long a statement waits for other writers
	Connections int           // at most
	Lock        string        // when a transaction takes it: "immediate" or "deferred"
	Existing    bool          // do not create the file
}

// Open returns a pool of connections to a file. Their commits are on disk when they return, also on
// systems where an fsync alone is not enough.
func Open(path string, o Options) (*sql.DB, error) {
	values := url.Values{
		"_pragma": {
			"busy_timeout(" + strconv.FormatInt(max(1, o.Wait.Milliseconds()), 10) + ")",
			"synchronous(FULL)", "fullfsync(ON)", "checkpoint_fullfsync(ON)",
		},
		"_txlock": {o.Lock},
	}
	if o.Existing {
		values.Set("mode", "rw")
	}
	location := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path),
		RawQuery: values.Encode()}
	db, err := sql.Open("sqlite", location.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(o.Connections)
	db.SetMaxIdleConns(o.Connections)
	return db, nil
}

// UseWAL permanently switches a file to a write-ahead log, so that readers and writers do not wait
// for each other. It retries, because SQLite does not wait for others that switch the same file.
func UseWAL(ctx context.Context, db *sql.DB) error {
	return Patiently(ctx, func() error {
		var mode string
		err := db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		if err == nil && mode != "wal" {
			return fmt.Errorf("SQLite cannot share a file there (journal mode %s): put it on a local disk", mode)
		}
		return err
	})
}

// Patiently calls do again, until ctx ends, while another connection holds the lock.
func Patiently(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !IsBusy(err) || ctx.Err() != nil {
			return err
		}
		_ = backoff.Sleep(ctx, 5*time.Millisecond) // the context is checked above
	}
}
