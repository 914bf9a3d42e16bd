package pgrecords

import (
	"errors"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/internal/testing/pgtest"
	"tenaq/internal/testing/proof"
	"tenaq/records"
)

// over returns a store over a pool that ends with the test.
func over(t testing.TB, url string, cfg Config) *Store {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	cfg.Pool = pool
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fails checks that an error says what to do.
func fails(t testing.TB, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line with %q", err, want)
	}
}

// Any number migrate at once, into schemas of their own or the same, and nothing is lost by doing
// so again.
func TestMigrate(t *testing.T) {
	url := pgtest.URL(t)
	exec(t, url, `CREATE SCHEMA one; CREATE SCHEMA "Two"`)
	tables := []string{"", "one.jobs", "Two.Jobs", "one." + strings.Repeat("x", 50)}
	var group sync.WaitGroup
	for i := range 12 {
		s := over(t, url, Config{Table: tables[i%len(tables)]})
		group.Go(func() {
			if err := s.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, table := range tables {
		s := over(t, url, Config{Table: table})
		put(t, s, records.Write{Key: "a"})
		remove(t, s, "b", put(t, s, records.Write{Key: "b"}))
	}
}

// The SQL from Schema can be applied by hand, even twice, and Migrate then finds nothing to do.
func TestSchemaByHand(t *testing.T) {
	u := pgtest.URL(t)
	s := over(t, u, Config{})
	_, err := s.Get(t.Context(), "a")
	fails(t, err, "call Migrate, or apply the SQL of Schema")
	exec(t, u, s.names.sql())
	v := put(t, s, records.Write{Key: "a"})
	exec(t, u, s.names.sql())

	exec(t, u, `CREATE ROLE app LOGIN;
		GRANT SELECT, INSERT, UPDATE, DELETE ON tenaq_records TO app;
		GRANT SELECT, UPDATE ON tenaq_records_meta TO app`)
	app, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	app.User = url.User("app")
	s = open(t, app.String())
	defer s.Close()
	v = put(t, s, records.Write{Key: "a", If: v})
	remove(t, s, "a", v)
	put(t, s, records.Write{Key: "a", TTL: 1})
	if _, err := s.Sweep(t.Context(), 10); err != nil {
		t.Error(err)
	}
}

func TestNewerSchema(t *testing.T) {
	url := pgtest.URL(t)
	old := open(t, url)
	defer old.Close()
	exec(t, url, "UPDATE tenaq_records_meta SET schema = 1000")
	newer, err := New(Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer newer.Close()
	fails(t, newer.Migrate(t.Context()), "run a newer version of the program")
	s := over(t, url, Config{})
	fails(t, s.Migrate(t.Context()), "run a newer version of the program")
	_, err = s.Put(t.Context(), records.Write{Key: "a"})
	fails(t, err, "run a newer version of the program")
	_, err = s.pool.Exec(t.Context(), s.names.sql())
	fails(t, err, "run a newer version of the program")
}

func TestOtherEncoding(t *testing.T) {
	u := pgtest.URL(t)
	name := "latin" + strings.TrimPrefix(mustParse(t, u).Path, "/")
	exec(t, u, "CREATE DATABASE "+name+" ENCODING LATIN1 TEMPLATE template0")
	latin := mustParse(t, u)
	latin.Path = "/" + name
	s, err := New(Config{URL: latin.String()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fails(t, s.Migrate(t.Context()), "ENCODING UTF8")
}

func mustParse(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestTableNames(t *testing.T) {
	for _, name := range []string{".", "a.", ".a", "a.b.c", "a b", `a"b`, "a'b", "1a", "a;b", strings.Repeat("a", 51)} {
		if _, err := Schema(name); err == nil {
			t.Errorf("the table may be called %q", name)
		}
	}
	for want, cfg := range map[string]Config{
		"neither Pool nor URL": {}, "both Pool and URL": {Pool: new(pgxpool.Pool), URL: "postgres:///"}, "Config.Table": {URL: "postgres:///", Table: "a b"},
		"Config.URL": {URL: "postgres://%"},
	} {
		_, err := New(cfg)
		fails(t, err, want)
	}
}

// A pool whose every connection is gone serves again, and an error in between is neither answer.
func TestErrors(t *testing.T) {
	url := pgtest.URL(t)
	s := open(t, url)
	defer s.Close()
	v := put(t, s, records.Write{Key: "a"})
	exec(t, url, "DROP TABLE tenaq_records_meta")
	_, err := s.Put(t.Context(), records.Write{Key: "b"})
	var c *records.Conflict
	if err == nil || errors.As(err, &c) || !strings.HasPrefix(err.Error(), `put record "b": `) {
		t.Errorf("put without a floor: %v", err)
	}
	exec(t, url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	for n := 0; ; n++ {
		r, err := s.Get(t.Context(), "a")
		if err == nil && r.Version == v {
			break
		}
		if n == 10 || errors.Is(err, records.ErrNotFound) {
			t.Fatalf("get = version %d, %v", r.Version, err)
		}
	}
}

// behind is the least string behind all with the prefix.
func TestBehind(t *testing.T) {
	for prefix, want := range map[string]string{
		"a": "b", "a\x7f": "a\u0080", "\ud7ff": "\ue000", "a\U0010ffff": "b", "ab\U0010ffff\U0010ffff": "ac", "\uffff": "\U00010000",
	} {
		if got := behind(prefix); got == nil || *got != want {
			t.Errorf("behind %+q = %v, want %+q", prefix, got, want)
		}
	}
	for _, prefix := range []string{"", "\U0010ffff", "\U0010ffff\U0010ffff"} {
		if got := behind(prefix); got != nil {
			t.Errorf("behind %+q = %+q, want none", prefix, *got)
		}
	}
	rng := rand.New(rand.NewPCG(proof.Seed(t), 0))
	word := func(n int) string {
		runes := make([]rune, rng.IntN(n))
		for i := range runes {
			runes[i] = []rune("ab\x7f\u0080\ud7ff\ue000\uffff\U0010ffff")[rng.IntN(8)]
		}
		return string(runes)
	}
	for range 10_000 {
		prefix, key := word(4), word(6)
		end := behind(prefix)
		if got, want := key >= prefix && (end == nil || key < *end), strings.HasPrefix(key, prefix); got != want {
			t.Fatalf("%+q in the range of %+q: %v, want %v", key, prefix, got, want)
		}
	}
}
