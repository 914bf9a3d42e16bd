package pgrecords

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"tenaq/internal/testing/pgtest"
	"tenaq/records"
)

// A writer writes in a transaction of one package or the other.
type writer struct {
	put              func(records.Write) (records.Record, error)
	show             func(sql string) string
	commit, rollback func() error
}

// writers begin transactions in a database whose settings promise less than the store does.
func writers(t *testing.T, s *Store, url string) map[string]func() writer {
	ctx := t.Context()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	return map[string]func() writer{
		"pgx": func() writer {
			tx, err := s.pool.Begin(ctx)
			fatal(err)
			t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			return writer{
				put: func(w records.Write) (records.Record, error) { return s.PutIn(ctx, tx, w) },
				show: func(sql string) (v string) {
					fatal(tx.QueryRow(ctx, sql, pgx.QueryExecModeExec).Scan(&v))
					return v
				},
				commit:   func() error { return tx.Commit(ctx) },
				rollback: func() error { return tx.Rollback(ctx) },
			}
		},
		"sql": func() writer {
			tx, err := db.BeginTx(ctx, nil)
			fatal(err)
			t.Cleanup(func() { _ = tx.Rollback() })
			return writer{
				put: func(w records.Write) (records.Record, error) { return s.PutInSQL(ctx, tx, w) },
				show: func(sql string) (v string) {
					fatal(tx.QueryRowContext(ctx, sql).Scan(&v))
					return v
				},
				commit:   tx.Commit,
				rollback: tx.Rollback,
			}
		},
	}
}

// A write in a transaction is there when that is committed, and only then.
func TestPutIn(t *testing.T) {
	url := pgtest.URL(t)
	exec(t, url, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`)
	s := open(t, url)
	t.Cleanup(func() { s.Close() }) // behind those of the transactions
	for name, begin := range writers(t, s, url) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			want := func(key, value string) records.Record {
				t.Helper()
				r, err := s.Get(ctx, key)
				if value == "" && errors.Is(err, records.ErrNotFound) {
					return r
				}
				if err != nil || string(r.Value) != value {
					t.Errorf("%s is %q (error %v), want %q", key, r.Value, err, value)
				}
				return r
			}
			a, b := name+" a", name+" b"
			tx := begin()
			written, err := tx.put(records.Write{Key: a, Value: []byte("1"), TTL: time.Hour})
			if err != nil || string(written.Value) != "1" || written.Version == 0 || written.TTL != time.Hour {
				t.Fatalf("put = %+v, error %v", written, err)
			}
			if got := tx.show("SHOW synchronous_commit"); got != "on" {
				t.Errorf("synchronous_commit = %s, want on", got)
			}
			want(a, "")
			if err := tx.rollback(); err != nil {
				t.Fatal(err)
			}
			want(a, "")

			tx = begin()
			written, err = tx.put(records.Write{Key: a, Value: []byte("2")})
			if err != nil {
				t.Fatal(err)
			}
			written, err = tx.put(records.Write{Key: a, If: written.Version})
			if err != nil {
				t.Fatal(err)
			}
			// Conflicts, one with a record and one without: the transaction continues.
			var c *records.Conflict
			if _, err := tx.put(records.Write{Key: a}); !errors.As(err, &c) || c.Current.Version != written.Version || len(c.Current.Value) != 0 {
				t.Errorf("a second one: error %v, want a conflict with the first", err)
			}
			if _, err := tx.put(records.Write{Key: b, If: 7}); !errors.As(err, &c) || c.Current.Version != 0 {
				t.Errorf("over nothing: error %v, want a conflict with nothing", err)
			}
			if err := tx.commit(); err != nil {
				t.Fatal(err)
			}
			if r := want(a, ""); r.Version != written.Version {
				t.Errorf("version %d, want %d", r.Version, written.Version)
			}

			tx = begin()
			if _, err := tx.put(records.Write{}); err == nil {
				t.Error("put without a key")
			}
		})
	}
}

// While a transaction has written to a record, others wait for what becomes of it: those that
// write, and those that name a version that no record has.
func TestOthersWait(t *testing.T) {
	url := pgtest.URL(t)
	s := open(t, url)
	defer s.Close()
	ctx := t.Context()
	for _, commit := range []bool{true, false} {
		v := put(t, s, records.Write{Key: "a", If: version(s, "a")})
		tx, err := s.pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		if _, err := s.PutIn(ctx, tx, records.Write{Key: "a", Value: []byte("mine"), If: v}); err != nil {
			t.Fatal(err)
		}
		answer := make(chan error)
		go func() { answer <- s.Delete(ctx, "a", 0) }()
		select {
		case err := <-answer:
			t.Fatalf("did not wait: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		end, value := tx.Rollback, ""
		if commit {
			end, value = tx.Commit, "mine"
		}
		if err := end(ctx); err != nil {
			t.Fatal(err)
		}
		var c *records.Conflict
		if err := <-answer; !errors.As(err, &c) || string(c.Current.Value) != value {
			t.Errorf("error %v, want a conflict with %q", err, value)
		}
	}
}

func version(s *Store, key string) records.Version {
	r, _ := s.Get(context.Background(), key)
	return r.Version
}

func TestValueFromBytes(t *testing.T) {
	for _, src := range []any{"aGFsbG8=", []byte("aGFsbG8=")} {
		var v value
		if err := v.Scan(src); err != nil || string(v) != "hallo" {
			t.Errorf("scan of a %T = %q, error %v", src, v, err)
		}
	}
}
