package sqliteoutbox

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"tenaq/outbox"
	"tenaq/outbox/outboxtest"
)

// newFile makes a database with an empty outbox in it.
func newFile(t testing.TB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "business.db")
	db := connect(t, path)
	b, err := New(Config{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return path
}

// connect opens a database as a program would that writes to it.
func connect(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func open(t testing.TB, path string) *Box {
	t.Helper()
	b, err := New(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// write writes messages in one transaction.
func write(ctx context.Context, db *sql.DB, commit bool, messages ...outbox.Message) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := Enqueue(ctx, tx, messages...); err != nil || !commit {
		return err
	}
	return tx.Commit()
}

func harness(t testing.TB) outboxtest.Harness {
	path := newFile(t)
	db := connect(t, path)
	return outboxtest.Harness{
		Table: `"outbox"`,
		Open:  func(t testing.TB) outbox.Box { return open(t, path) },
		Enqueue: func(ctx context.Context, commit bool, messages ...outbox.Message) error {
			return write(ctx, db, commit, messages...)
		},
	}
}

func TestContract(t *testing.T) { outboxtest.Run(t, harness) }

// A history works in a file without a write-ahead log too, and with one connection.
func TestHistoryContract(t *testing.T) {
	t.Run("WAL", func(t *testing.T) { outboxtest.RunHistory(t, harness) })
	for name, location := range map[string]string{
		"Rollback": "file:%s?_pragma=busy_timeout(20000)&_pragma=journal_mode(delete)&_pragma=synchronous(off)&_txlock=immediate",
		"Memory":   ":memory:",
	} {
		t.Run(name, func(t *testing.T) {
			outboxtest.RunHistory(t, func(t testing.TB) outboxtest.Harness {
				location := strings.ReplaceAll(location, "%s", filepath.Join(t.TempDir(), "business.db"))
				db, err := sql.Open("sqlite", location)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = db.Close() })
				if location == ":memory:" {
					db.SetMaxOpenConns(1)
				}
				box := func(t testing.TB) outbox.Box {
					b, err := New(Config{DB: db})
					if err != nil {
						t.Fatal(err)
					}
					return b
				}
				if err := box(t).(*Box).Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
				return outboxtest.Harness{
					Table: "outbox", Open: box,
					Enqueue: func(ctx context.Context, commit bool, messages ...outbox.Message) error {
						return write(ctx, db, commit, messages...)
					},
				}
			})
		})
	}
}
