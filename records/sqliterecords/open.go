package sqliterecords

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"tenaq/internal/work/sqlitedb"
)

// A Config says where the records are. Path is required.
type Config struct {
	// Path is the file. Its directory must exist.
	Path string

	// Wait is how long a call waits for other processes that write: 10 s when zero. The context of
	// the call may end earlier.
	Wait time.Duration
}

const (
	waitDefault = 10 * time.Second
	readersMax  = 4
)

// New opens the file, creates it if necessary, and updates one of an older version.
func New(cfg Config) (*Store, error) { return open(cfg, time.Now) }

func open(cfg Config, clock func() time.Time) (*Store, error) {
	if cfg.Path == "" {
		return nil, errors.New("sqliterecords: Config.Path is missing: set it to the file of the records")
	}
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("open records in %s: %w", cfg.Path, err)
	}
	wait := cmp.Or(cfg.Wait, waitDefault)
	s := &Store{path: path, clock: clock}
	s.line.wait, s.line.ready.L = wait, &s.line.mu
	s.writerDB, err = sqlitedb.Open(path,
		sqlitedb.Options{Connections: 1, Lock: "immediate"}) // run waits for the lock
	if err != nil {
		return nil, s.explain(context.Background(), "open records", err)
	}
	s.reader, err = sqlitedb.Open(path,
		sqlitedb.Options{Wait: wait, Connections: readersMax, Lock: "deferred"})
	if err != nil {
		_ = s.writerDB.Close()
		return nil, s.explain(context.Background(), "open records", err)
	}
	if err := s.prepare(wait); err != nil {
		s.line.close()
		s.statements.close()
		_ = s.reader.Close()
		if s.writer != nil {
			_ = s.writer.Close()
		}
		_ = s.writerDB.Close()
		return nil, err
	}
	return s, nil
}

// prepare switches the file to WAL mode and updates its schema. It does not change the file of
// another program.
func (s *Store) prepare(wait time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait+time.Second)
	defer cancel()
	version, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	if err := sqlitedb.UseWAL(ctx, s.writerDB); err != nil {
		return s.explain(ctx, "open records", err)
	}
	if s.writer, err = s.writerDB.Conn(ctx); err == nil {
		err = s.prepareTurns(ctx)
	}
	if err != nil {
		return s.explain(ctx, "open records", err)
	}
	if version < len(migrations) {
		if err := s.migrate(ctx); err != nil {
			return err
		}
	}
	return s.explain(ctx, "open records", s.prepareRows(ctx))
}

// inspect returns the version of the schema of the file, or zero if the file is empty.
func (s *Store) inspect(ctx context.Context) (version int, err error) {
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return 0, s.explain(ctx, "open records", err)
	}
	defer func() { _ = tx.Rollback() }() // it has only read
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

// migrate updates the schema to the newest version. If several processes try, one does it.
func (s *Store) migrate(ctx context.Context) error {
	return s.write(ctx, "create the schema", turnBytes, func(t *turn) error {
		var version int
		background := context.Background()
		err := t.writer.QueryRowContext(background, "PRAGMA user_version").Scan(&version)
		if err != nil {
			return err
		}
		for ; version < len(migrations); version++ {
			if _, err := t.writer.ExecContext(background, migrations[version]); err != nil {
				return fmt.Errorf("to version %d: %w", version+1, err)
			}
		}
		return nil
	})
}
