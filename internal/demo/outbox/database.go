package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver for files

	"tenaq/claims"
	"tenaq/claims/pgclaims"
	box "tenaq/outbox"
	"tenaq/outbox/pgoutbox"
	"tenaq/outbox/sqliteoutbox"
	"tenaq/records"
	"tenaq/records/pgrecords"
	"tenaq/records/sqliterecords"
)

// A database has the jobs, the outbox, and what workers know of each other: all of it in one PostgreSQL, or in two
// files of SQLite.
type database struct {
	*sql.DB
	box     box.History
	records records.Store
	ledger  *claims.Ledger

	// server: it is PostgreSQL, where transactions run beside each other and a claim can be completed in one.
	server bool
	ends   []func()
}

// schema is understood by both databases. What is in deliveries says what the queues gave: a message has an id of
// the queue's own, new with every send.
const schema = `
CREATE TABLE videos (
	video_id TEXT PRIMARY KEY,
	versions INTEGER NOT NULL
);
CREATE TABLE jobs (
	job_id     TEXT PRIMARY KEY,
	video_id   TEXT NOT NULL,
	version    INTEGER NOT NULL,           -- of the video
	status     TEXT NOT NULL,              -- pending, done
	generation INTEGER NOT NULL DEFAULT 0, -- of the work that did it last
	fence      BIGINT NOT NULL DEFAULT 0,  -- of that work
	transcoder INTEGER NOT NULL DEFAULT 0  -- the version that did it
);
CREATE TABLE transcodes (
	n          SERIALKEY,
	effect     TEXT NOT NULL UNIQUE,
	job_id     TEXT NOT NULL,
	video_id   TEXT NOT NULL,
	version    INTEGER NOT NULL,
	generation INTEGER NOT NULL
);
CREATE TABLE deliveries (
	message_id TEXT PRIMARY KEY,
	job_id     TEXT NOT NULL,
	generation INTEGER NOT NULL,
	ordered    BOOLEAN NOT NULL
);
CREATE TABLE usual_jobs (
	job_id TEXT PRIMARY KEY,
	status TEXT NOT NULL
)`

// Names of the files in Config.Dir.
const (
	databaseFile = "studio.db"
	recordsFile  = "records.db"
)

// claimLease ends before a message comes back: it would be found busy, and given back once more.
const claimLease = 2 * time.Second

// makeDatabase makes the tables, in a schema of their own where it is PostgreSQL. It returns the URL of that, and
// what removes it.
func makeDatabase(ctx context.Context, dir, address string, say func(string, ...any)) (made string, drop func(context.Context) error, err error) {
	drop = func(context.Context) error { return nil }
	if address != "" {
		at, err := url.Parse(address)
		if err != nil {
			return "", drop, errors.New("--db is no URL; write postgres://USER@HOST/DATABASE") // the error has the password in it
		}
		name := "tenaq_demo_" + strings.ToLower(rand.Text()[:8])
		if err := execute(ctx, address, "CREATE SCHEMA "+name); err != nil {
			return "", drop, fmt.Errorf("make a schema for the demo: %w; give --db a database in which this user may make one", err)
		}
		say("the tables are in the schema %s", name)
		drop = func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			return execute(ctx, address, "DROP SCHEMA "+name+" CASCADE")
		}
		settings := at.Query()
		settings.Set("search_path", name)
		at.RawQuery = settings.Encode()
		made = at.String()
	}
	return made, drop, makeTables(ctx, dir, made)
}

func makeTables(ctx context.Context, dir, address string) error {
	db, err := openDatabase(ctx, dir, address)
	if err != nil {
		return err
	}
	defer db.close()
	key := "INTEGER PRIMARY KEY AUTOINCREMENT"
	if db.server {
		key = "BIGSERIAL PRIMARY KEY"
	}
	for statement := range strings.SplitSeq(strings.ReplaceAll(schema, "SERIALKEY", key), ";") {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("make the tables: %w", err)
		}
	}
	for _, makes := range []any{db.box, db.records} {
		if m, ok := makes.(interface{ Migrate(context.Context) error }); ok {
			if err := m.Migrate(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func execute(ctx context.Context, address, statement string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement)
	return err
}

// openDatabase opens what makeDatabase made.
func openDatabase(ctx context.Context, dir, address string) (db *database, err error) {
	db = &database{server: address != ""}
	defer func() {
		if err != nil {
			db.close()
		}
	}()
	if db.server {
		err = db.openServer(ctx, address)
	} else {
		err = db.openFiles(dir)
	}
	if err != nil {
		return nil, err
	}
	db.ledger, err = claims.New(db.records, claims.Config{Lease: claimLease})
	return db, err
}

func (db *database) openFiles(dir string) (err error) {
	location := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(filepath.Join(dir, databaseFile)), RawQuery: url.Values{
		"_pragma": {"busy_timeout(30000)", "journal_mode(WAL)"}, "_txlock": {"immediate"},
	}.Encode()}
	if db.DB, err = sql.Open("sqlite", location.String()); err != nil {
		return err
	}
	db.ends = append(db.ends, func() { _ = db.DB.Close() })
	db.SetMaxOpenConns(8)
	if db.box, err = sqliteoutbox.New(sqliteoutbox.Config{DB: db.DB, Wait: 30 * time.Second}); err != nil {
		return err
	}
	store, err := sqliterecords.New(sqliterecords.Config{Path: filepath.Join(dir, recordsFile)})
	if err == nil {
		db.records = store
		db.ends = append(db.ends, func() { _ = store.Close() })
	}
	return err
}

func (db *database) openServer(ctx context.Context, address string) (err error) {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return err
	}
	db.DB = stdlib.OpenDBFromPool(pool)
	db.ends = append(db.ends, pool.Close, func() { _ = db.DB.Close() })
	b, err := pgoutbox.New(pgoutbox.Config{Pool: pool})
	if err != nil {
		return err
	}
	db.box = b
	db.ends = append(db.ends, func() { _ = b.Close() })
	db.records, err = pgrecords.New(pgrecords.Config{Pool: pool})
	return err
}

// close ends the use of it, what was opened last first.
func (db *database) close() {
	for i := len(db.ends) - 1; i >= 0; i-- {
		db.ends[i]()
	}
}

// enqueue writes into the outbox, within a transaction.
func (db *database) enqueue(ctx context.Context, tx *sql.Tx, m box.Message) error {
	if db.server {
		return pgoutbox.EnqueueSQL(ctx, tx, m)
	}
	return sqliteoutbox.Enqueue(ctx, tx, m)
}

// within runs work in a transaction.
func (db *database) within(ctx context.Context, work func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // which does nothing after a commit
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// errStale is what a worker is told whose job has been done by a later holder of its claim.
var errStale = errors.New("the job was recorded by a later holder of its claim, or in a later generation")

// record writes down that a job is done. Fences grow with every claim on a key, and a generation is another key: so
// the later generation counts, and within it the larger fence.
func (db *database) record(ctx context.Context, w work, effect string, generation, transcoder int, claim *claims.Claim) error {
	return db.within(ctx, func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, `UPDATE jobs SET status = 'done', generation = $1, fence = $2, transcoder = $3
			WHERE job_id = $4 AND (generation < $1 OR generation = $1 AND fence <= $2)`,
			generation, int64(claim.Fence()), transcoder, w.Job)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errStale)
		}
		// It is there already when a worker died before the ledger knew.
		if _, err := tx.ExecContext(ctx, `INSERT INTO transcodes (effect, job_id, video_id, version, generation) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (effect) DO NOTHING`, effect, w.Job, w.Video, w.Version, generation); err != nil {
			return err
		}
		if db.server { // the worker finds the claim completed
			return pgclaims.CompleteSQL(ctx, tx, claim, nil)
		}
		return nil
	})
}

// now is the time by the clock that the outbox goes by.
func (db *database) now(ctx context.Context) (now time.Time, err error) {
	if !db.server {
		return time.Now().Truncate(time.Millisecond), nil
	}
	return now, db.QueryRowContext(ctx, `SELECT clock_timestamp()`).Scan(&now)
}

// count asks for a number.
func (db *database) count(ctx context.Context, query string, args ...any) (n int, err error) {
	return n, db.QueryRowContext(ctx, query, args...).Scan(&n)
}

// unfinished counts rows that are not sent and jobs that are not done.
func (db *database) unfinished(ctx context.Context) (rows, jobs int, err error) {
	stats, err := db.box.Stats(ctx)
	if err != nil {
		return 0, 0, err
	}
	jobs, err = db.count(ctx, `SELECT count(*) FROM jobs WHERE status <> 'done'`)
	return stats.Pending, jobs, err
}
