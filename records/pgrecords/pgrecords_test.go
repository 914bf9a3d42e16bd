package pgrecords

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/internal/testing/pgtest"
	"tenaq/internal/work/pgdb"
	"tenaq/records"
	"tenaq/records/recordstest"
)

func TestContract(t *testing.T) {
	recordstest.Run(t, func(t testing.TB) recordstest.Backend {
		url := pgtest.URL(t)
		return recordstest.Backend{Open: func(t testing.TB) records.Store { return open(t, url) }}
	})
}

// The settings of a database make no difference.
func TestContractSerializable(t *testing.T) {
	recordstest.Run(t, func(t testing.TB) recordstest.Backend {
		url := pgtest.URL(t)
		exec(t, url, `DO $$ BEGIN
			EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
			EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
			EXECUTE format('ALTER DATABASE %I SET bytea_output = escape', current_database());
			EXECUTE format('ALTER DATABASE %I SET intervalstyle = iso_8601', current_database());
			EXECUTE format('ALTER DATABASE %I SET timezone = "Asia/Kathmandu"', current_database());
		END $$`)
		return recordstest.Backend{Open: func(t testing.TB) records.Store { return open(t, url) }}
	})
}

// open opens the store of a database. The caller closes it.
func open(t testing.TB, url string) *Store {
	t.Helper()
	s, err := New(Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// exec runs SQL in a database, as a program beside the store would.
func exec(t testing.TB, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// setClock moves the clock of the server, as far as the stores of the database can tell.
func setClock(t testing.TB, url string, by time.Duration) {
	t.Helper()
	exec(t, url, fmt.Sprintf(`CREATE OR REPLACE FUNCTION tenaq_records_now() RETURNS timestamptz LANGUAGE sql VOLATILE
		AS 'SELECT clock_timestamp() + interval ''%d seconds'''`, int(by.Seconds())))
}

func put(t testing.TB, s *Store, w records.Write) records.Version {
	t.Helper()
	r, err := s.Put(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return r.Version
}

func remove(t testing.TB, s *Store, key string, version records.Version) {
	t.Helper()
	if err := s.Delete(t.Context(), key, version); err != nil {
		t.Fatal(err)
	}
}

// Versions rise while the server's clock falls, whatever became of the record in between, and
// nothing is younger than now.
func TestClockSetBack(t *testing.T) {
	url := pgtest.URL(t)
	s := open(t, url)
	defer s.Close()
	last := put(t, s, records.Write{Key: "a"})
	for hour, step := range []struct {
		what  string
		then  func()
		write records.Write
	}{
		{"replaced", func() {}, records.Write{Key: "a", If: last}},
		{"deleted", func() { remove(t, s, "a", last) }, records.Write{Key: "a"}},
		{"deleted and swept", func() { remove(t, s, "a", last) }, records.Write{Key: "a"}},
		{"deleted and swept with others", func() {
			b := put(t, s, records.Write{Key: "b"})
			remove(t, s, "a", last)
			remove(t, s, "b", b)
		}, records.Write{Key: "a", TTL: time.Millisecond}},
		{"expired", func() { time.Sleep(2 * time.Millisecond) }, records.Write{Key: "a", TTL: time.Millisecond}},
		{"expired and swept", func() { time.Sleep(2 * time.Millisecond) }, records.Write{Key: "a"}},
	} {
		step.then()
		if strings.Contains(step.what, "swept") {
			if _, err := s.Sweep(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(step.what, "expired") {
			setClock(t, url, -time.Duration(hour+1)*time.Hour)
		}
		if r, err := s.Get(t.Context(), "a"); err == nil && r.Age != 0 {
			t.Errorf("%s: age %v of what was written in the future", step.what, r.Age)
		}
		version := put(t, s, step.write)
		if version <= last {
			t.Errorf("%s: version %d after %d", step.what, version, last)
		}
		last = version
	}
}

// Creates, deletes and sweeps of one key race in two pools while the clock jumps back, and versions
// rise.
func TestSweepRaces(t *testing.T) {
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			url := pgtest.URL(t)
			stores := []*Store{open(t, url+"&default_transaction_isolation="+strings.ReplaceAll(isolation, " ", "%20")), open(t, url)}
			defer stores[0].Close()
			defer stores[1].Close()
			long := 2 * time.Second
			if testing.Short() {
				long /= 5
			}
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			var largest atomic.Uint64
			var created atomic.Int64
			var callers sync.WaitGroup
			for i := range 8 {
				s := stores[i%2]
				callers.Go(func() {
					for ctx.Err() == nil {
						before := largest.Load()
						r, err := s.Put(t.Context(), records.Write{Key: "a"})
						var c *records.Conflict
						if errors.As(err, &c) {
							continue
						}
						if err != nil || uint64(r.Version) <= before {
							t.Errorf("put = version %d, %v, after %d was deleted", r.Version, err, before)
							return
						}
						created.Add(1)
						largest.Store(uint64(r.Version)) // no other writes until it is deleted
						if err := s.Delete(t.Context(), "a", r.Version); err != nil {
							t.Errorf("delete: %v", err)
							return
						}
						if _, err := s.Sweep(t.Context(), 10); err != nil {
							t.Errorf("sweep: %v", err)
							return
						}
					}
				})
			}
			for seconds := 0; ctx.Err() == nil; seconds-- {
				setClock(t, url, time.Duration(seconds)*time.Second)
			}
			callers.Wait()
			t.Logf("%d records", created.Load())
		})
	}
}

// Answered writes survive kill -9, although the server is set to answer before they are durable.
func TestKill(t *testing.T) {
	server := pgtest.New(t, "synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=0")
	s := open(t, server.URL())
	defer s.Close()
	answered := map[string]records.Version{} // zero: deleted
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		var mu sync.Mutex
		var writers sync.WaitGroup
		for i := range 4 {
			writers.Go(func() {
				for n := 0; ; n++ {
					key := fmt.Sprintf("%d-%d-%d", round, i, n)
					r, err := s.Put(t.Context(), records.Write{Key: key, Value: []byte(key)})
					if err != nil {
						return
					}
					mu.Lock()
					answered[key] = r.Version
					mu.Unlock()
					if n%3 != 0 {
						continue
					}
					err = s.Delete(t.Context(), key, r.Version)
					mu.Lock()
					if answered[key] = 0; err != nil {
						delete(answered, key) // who knows
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
		time.Sleep(300 * time.Millisecond)
		server.Kill(t)
		writers.Wait()
		server.Restart(t)
		for key, version := range answered {
			r, err := s.Get(t.Context(), key)
			if version == 0 && !errors.Is(err, records.ErrNotFound) || version != 0 && (err != nil || r.Version != version || string(r.Value) != key) {
				t.Fatalf("get %s = version %d, %v, and version %d was answered", key, r.Version, err, version)
			}
		}
		if len(answered) < 3 {
			t.Fatalf("%d writes were answered in round %d", len(answered), round)
		}
	}
	t.Logf("%d records", len(answered))
}

// A standby may lack answered writes.
func TestStandby(t *testing.T) {
	server := pgtest.New(t)
	s := open(t, server.URL())
	defer s.Close()
	v := put(t, s, records.Write{Key: "a"})
	exec(t, server.URL(), "CHECKPOINT")
	server.Kill(t)
	if err := os.WriteFile(filepath.Join(server.Data(), "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	server.Restart(t)
	for what, call := range map[string]func() error{
		"get":            func() error { _, err := s.Get(t.Context(), "a"); return err },
		"get of nothing": func() error { _, err := s.Get(t.Context(), "b"); return err },
		"list":           func() error { _, err := s.List(t.Context(), "", "", 0); return err },
		"put":            func() error { _, err := s.Put(t.Context(), records.Write{Key: "a", If: 1}); return err },
		"delete":         func() error { return s.Delete(t.Context(), "a", v) },
		"sweep":          func() error { _, err := s.Sweep(t.Context(), 1); return err },
	} {
		var c *records.Conflict
		if err := call(); err == nil || errors.Is(err, records.ErrNotFound) || errors.As(err, &c) {
			t.Errorf("%s on a standby: %v, want another error", what, err)
		}
	}
}

// counter counts statements.
type counter struct{ atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.Add(1)
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Every call is one statement, and none leaves anything in the session that a pooler in transaction
// mode would hand to another client.
func TestStatements(t *testing.T) {
	url := pgtest.URL(t)
	open(t, url).Close()
	cfg, err := pgxpool.ParseConfig(url + "&pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	var n counter
	cfg.ConnConfig.Tracer = &n
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := New(Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	v := put(t, s, records.Write{Key: "a"}) // looks at the schema first
	for what, call := range map[string]func(){
		"get":      func() { s.Get(t.Context(), "a") },
		"put":      func() { v = put(t, s, records.Write{Key: "a", If: v}) },
		"create":   func() { put(t, s, records.Write{Key: "b", TTL: time.Hour}) },
		"conflict": func() { s.Put(t.Context(), records.Write{Key: "a"}) },
		"delete":   func() { s.Delete(t.Context(), "a", 1) },
		"list":     func() { s.List(t.Context(), "", "", 0) },
		"sweep":    func() { s.Sweep(t.Context(), 10) },
	} {
		before := n.Load()
		if call(); n.Load() != before+1 {
			t.Errorf("%s took %d statements, want 1", what, n.Load()-before)
		}
	}
	var left int
	err = pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_prepared_statements)
		+ (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')
		+ (SELECT count(*) FROM pg_settings WHERE source = 'session' AND name = 'synchronous_commit')`,
		pgx.QueryExecModeExec).Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d things are left in the session, %v", left, err)
	}
	if err := s.Close(); err != nil || pool.Ping(t.Context()) != nil {
		t.Errorf("close: %v, and it closed the caller's pool", err)
	}
}

// A transaction whose view is frozen does not create a record from a floor of the past.
func TestFrozenView(t *testing.T) {
	url := pgtest.URL(t)
	s := open(t, url)
	defer s.Close()
	tx, err := s.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	remove(t, s, "a", put(t, s, records.Write{Key: "a"}))
	if _, err := s.Sweep(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	setClock(t, url, -time.Hour)
	_, err = tx.Exec(t.Context(), "SELECT tenaq_records_put('a', '', 0, NULL)")
	if !pgdb.HasCode(err, pgdb.SerializationFailure) {
		t.Errorf("create: %v, want a serialization failure", err)
	}
}
