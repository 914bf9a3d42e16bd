package sqliterecords

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"time"
)

// A Config says which file, and how.
type Config struct {
	// Path is that of the file. Its directory must exist.
	Path string

	// Wait is how long a call waits for other processes that write; zero is 10 seconds. The context of
	// the call may end it before.
	Wait time.Duration
}

const (
	waitDefault = 10 * time.Second
	readersMax  = 4
)

// Open opens the file, and creates it where there is none.
func Open(cfg Config) (*Store, error) { return open(cfg, time.Now) }

func open(cfg Config, clock func() time.Time) (*Store, error) {
	if cfg.Path == "" {
		return nil, errors.New("open records: no path; name the file that is to hold them")
	}
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("open records in %s: %w", cfg.Path, err)
	}
	wait := cmp.Or(cfg.Wait, waitDefault)
	s := &Store{path: path, clock: clock}
	if s.writer, err = connect(path, wait, 1, "immediate"); err != nil {
		return nil, s.explain(context.Background(), "open records", err)
	}
	if s.reader, err = connect(path, wait, readersMax, "deferred"); err != nil {
		_ = s.writer.Close()
		return nil, s.explain(context.Background(), "open records", err)
	}
	if err := s.prepare(wait); err != nil {
		_ = s.reader.Close()
		_ = s.writer.Close()
		return nil, err
	}
	return s, nil
}

// connect makes a pool of connections, which live as long as it. An answer is durable, on systems too
// where an fsync is not enough for that.
func connect(path string, wait time.Duration, most int, lock string) (*sql.DB, error) {
	location := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: url.Values{
		"_pragma": {
			"busy_timeout(" + strconv.FormatInt(max(1, wait.Milliseconds()), 10) + ")",
			"synchronous(FULL)", "fullfsync(ON)", "checkpoint_fullfsync(ON)",
		},
		"_txlock": {lock},
	}.Encode()}
	db, err := sql.Open("sqlite", location.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, nil
}

// prepare brings the file to where it can be used: ours, in the mode in which reads wait for nobody, and
// with the schema of this version. It changes nothing in a file that is not ours.
func (s *Store) prepare(wait time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait+time.Second)
	defer cancel()
	version, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	if err := s.useWAL(ctx); err != nil {
		return err
	}
	if version == len(migrations) {
		return nil
	}
	return s.migrate(ctx)
}

// inspect returns the version of the file's schema, zero for a file that is empty.
func (s *Store) inspect(ctx context.Context) (version int, err error) {
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return 0, s.explain(ctx, "open records", err)
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	var application, tables int
	for query, dst := range map[string]*int{
		"PRAGMA user_version":                &version,
		"PRAGMA application_id":              &application,
		"SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := tx.QueryRowContext(ctx, query).Scan(dst); err != nil {
			return 0, s.explain(ctx, "open records", err)
		}
	}
	empty := version == 0 && application == 0 && tables == 0
	switch {
	case !empty && application != applicationID:
		return 0, fmt.Errorf("open records in %s: this is the SQLite database of another program; name another file", s.path)
	case version > len(migrations):
		return 0, fmt.Errorf("open records in %s: the file has schema %d and this program knows schemas up to %d; use a newer version of the program",
			s.path, version, len(migrations))
	}
	return version, nil
}

// useWAL makes the file one with a write-ahead log, which it then remains. SQLite does not wait for
// others who are about to do the same.
func (s *Store) useWAL(ctx context.Context) error {
	for {
		var mode string
		err := s.writer.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		switch {
		case err == nil && mode == "wal":
			return nil
		case err == nil:
			return fmt.Errorf("open records in %s: SQLite cannot share a file there (journal mode %s); put it on a local disk", s.path, mode)
		case code(err) != busy || ctx.Err() != nil:
			return s.explain(ctx, "open records", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// migrate takes the schema to the newest version. Of several processes that try one does.
func (s *Store) migrate(ctx context.Context) error {
	return s.write(ctx, "create the schema", func(tx *sql.Tx, _ int64) error {
		var version int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		for ; version < len(migrations); version++ {
			if _, err := tx.ExecContext(ctx, migrations[version]); err != nil {
				return fmt.Errorf("to version %d: %w", version+1, err)
			}
		}
		return nil
	})
}
