package sqliteoutbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/outbox"
)

// The SQL of a source must be one expression: it cannot leave its parentheses.
func TestOneExpression(t *testing.T) {
	for text, ok := range map[string]bool{
		"":                                     true,
		"a = 'it''s; -- )' AND (b OR (c))":     true,
		`"od""d;)" = [;)'] AND ` + "`;(``)`":   true,
		"a = 1 -- ; ) ' /*":                    true,
		"a /* ; ) ' -- */ = 1":                 true,
		"a = '-- /*' AND b = '*/'":             true,
		"x'00ff' < a AND a$b = 1e5 AND é = .5": true,
		"payload -> '$.a?' ->> '$.b'":          true,
		"a = '\n' -- x\n AND (b)":              true,

		"a; b": false, "a;": false, "a)": false, "(a": false, "a) OR (b": false, "a = 'b": false, `"a`: false, "[a": false, "`a": false,
		"a /* b": false, "/*/": false, "a = ?": false, "a = ?1": false, "a = :x": false, "a = @x": false, "a = $x": false,
		"a -- x\n; b": false, "'a' ; 'b'": false, "a \x00 b": false, "'a\x00'": false, "')' )": false, "-- x\n)": false, "/* x */ )": false,
	} {
		err := oneExpression(text)
		if ok && err != nil || !ok && !errors.Is(err, outbox.ErrSource) {
			t.Errorf("%q: %v, want it to be allowed: %v", text, err, ok)
		}
	}
}

// Every allowed text is one SELECT for SQLite too: no random text deletes a row, on a connection
// that may write.
func TestOneExpressionRandom(t *testing.T) {
	seed := proof.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	db := connect(t, filepath.Join(t.TempDir(), "x.db"))
	db.SetMaxOpenConns(1)
	run(t, db, "CREATE TABLE kept (a)", "INSERT INTO kept VALUES (1)")
	parts := []string{
		"SELECT 1", "a", " ", "\n", "'", `"`, "`", "[", "]", "(", ")", "--", "/*", "*/", "/", "*", "-", "'it''s'", `"a"`, "FROM kept", "1", "e", "$", "é",
		"; DELETE FROM kept; ", ") q; DELETE FROM kept; --", "); DELETE FROM kept; SELECT (1", "'); DELETE FROM kept; --", "\n); DELETE FROM kept;--", "*/); DELETE FROM kept; /*",
	}
	rounds, allowed := proof.Count(4_000, 40_000, 40_000, 400_000), 0
	for range rounds {
		var b strings.Builder
		for range 1 + rng.IntN(7) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
		if text := b.String(); oneExpression(text) == nil {
			allowed++
			if rows, err := db.Query("SELECT * FROM (\n" + text + "\n)"); err == nil {
				_ = rows.Close()
			}
			if count(t, db, "kept") != 1 {
				t.Fatalf("%q is allowed, and has deleted a row", text)
			}
		}
	}
	if allowed < rounds/50 {
		t.Errorf("%d of %d texts were allowed, which says little", allowed, rounds)
	}
}

// A query's columns keep their kinds, as SQLite has them and not as drivers make them of declared
// types.
func TestQueryValues(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	run(t, db, `CREATE TABLE shop (n INTEGER PRIMARY KEY, "at" DATETIME, paid BOOLEAN, price REAL, note TEXT, blob BLOB)`,
		`INSERT INTO shop VALUES (1, '2026-01-02 03:04:05', 1, 1.5, 'é"', NULL), (9007199254740993, '2026', 0, NULL, '{"x": 1}', x'00'), (3, 4, NULL, 1e300, x'61', CAST(x'ff' AS TEXT))`)
	const columns = `'q' AS aggregatetype, n AS dedup_id, "at" AS aggregateid, paid AS generation, price AS type, `
	query := "SELECT " + columns + "note AS payload, json_object('paid', paid, 'h', 'x') AS headers FROM shop WHERE n <> 3 ORDER BY n DESC"
	n, all, err := b.Look(t.Context(), outbox.Source{Query: query}, 5)
	if err != nil || n != 2 || len(all) != 2 {
		t.Fatalf("Look counts %d: %+v, %v", n, all, err)
	}
	for i, want := range []string{`9007199254740993 2026 0  {"x": 1} x0`, `1 2026-01-02 03:04:05 1 1.5 é" x1`} {
		m := all[i].Message
		if got := fmt.Sprintf("%s %s %d %s %s %s", m.Dedup, m.Key, m.Generation, m.Type, m.Body, m.Headers["h"]+m.Headers["paid"]); got != want {
			t.Errorf("row %d is %q, want %q", i, got, want)
		}
	}
	for text, want := range map[string]string{
		"SELECT " + columns + "note AS payload FROM shop":             `row 2: the column "payload" of the query is a blob`,
		"SELECT " + columns + "blob AS payload FROM shop WHERE n = 3": `row 1: the column "payload" of the query is not UTF-8`,
		"SELECT 'd' AS dedup_id, 'a' AS payload, 'b' AS payload":      `column "payload:1"`,
		"SELECT 'd' AS dedup_id, 9e999 AS type":                       `unsupported value: +Inf`,
		"SELECT 'd' AS dedup_id, 'a' AS \"o\"\"dd\"":                  `column "o\"dd"`,
		"VALUES (1)": `column "column1"`,
		"SELECT 'd' AS dedup_id FROM shop WHERE json(note)":       `malformed JSON`,
		"SELECT dedup_id FROM shop":                               "no such column: dedup_id",
		"PRAGMA query_only = OFF":                                 "syntax error",
		"ATTACH 'other.db' AS other":                              "syntax error",
		"INSERT INTO shop (n) VALUES (7) RETURNING n AS dedup_id": "syntax error",
		"SELECT load_extension('x') AS dedup_id":                  "not authorized",
		"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n, nowhere) SELECT i FROM n": "no such table: nowhere",
	} {
		_, _, err := b.Look(t.Context(), outbox.Source{Query: text}, 5)
		if !errors.Is(err, outbox.ErrSource) {
			t.Errorf("%s: %v, want ErrSource", text, err)
		}
		says(t, text, err, want)
		r := begin(t, b, outbox.Source{Query: text})
		_, err = b.StageReplay(t.Context(), r.Number)
		if err == nil {
			_, err = b.Staged(t.Context(), r.Number, 0, 10)
		}
		if !errors.Is(err, outbox.ErrSource) {
			t.Errorf("stage %s: %v, want ErrSource", text, err)
		}
	}
	if got := count(t, db, "shop"); got != 3 {
		t.Errorf("there are %d rows of the shop after all that, want 3", got)
	}

	// The order is that of the query, with many rows too, and they are kept in it.
	source := outbox.Source{Query: `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
		SELECT i AS dedup_id, 'q' AS aggregatetype, i AS payload FROM n ORDER BY i * 7919 % 5003`}
	r := begin(t, b, source)
	if r, err = b.StageReplay(t.Context(), r.Number); err != nil || r.Found != 5000 {
		t.Fatal(r, err)
	}
	staged, err := b.Staged(t.Context(), r.Number, 0, 5001)
	if err != nil || len(staged) != 5000 {
		t.Fatal(len(staged), err)
	}
	if !slices.IsSortedFunc(staged, func(x, y outbox.Staged) int { return place(x) - place(y) }) {
		t.Error("the rows of a query are not in its order")
	}
}

func place(s outbox.Staged) (n int) {
	_, _ = fmt.Sscan(s.Body, &n)
	return n * 7919 % 5003
}

// After a look a connection can write, unless it could not before; after one that was given up too.
func TestLookRestores(t *testing.T) {
	path := newFile(t)
	for _, readOnly := range []string{"0", "1"} {
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)&")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		b, err := New(Config{DB: db})
		if err != nil {
			t.Fatal(err)
		}
		run(t, db, "CREATE TEMP VIEW mark AS SELECT 1", "PRAGMA query_only = "+readOnly) // the view is there as long as the connection is
		forever := outbox.Source{Query: "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS dedup_id FROM n"}
		where := everything
		where.Where = "1 = (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n)"
		fillOne(t, path)
		for what, s := range map[string]outbox.Source{"works": everything, "works not": {Query: "SELECT nonsense"}, "never ends": forever, "never does": where} {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			_, _, err := b.Look(ctx, s, 1)
			cancel()
			if strings.HasPrefix(what, "never") && (!errors.Is(err, context.DeadlineExceeded) || errors.Is(err, outbox.ErrSource)) {
				t.Errorf("a look that %s: %v, want that the time is over", what, err)
			}
			var got string
			if err := db.QueryRow("PRAGMA query_only").Scan(&got); err != nil || got != readOnly {
				t.Errorf("after a look that %s query_only is %s, %v, want %s", what, got, err, readOnly)
			}
			if count(t, db, "mark") != 1 {
				t.Errorf("after a look that %s the connection is another one", what)
			}
			if _, err := db.Exec("BEGIN; ROLLBACK"); err != nil {
				t.Errorf("after a look that %s a transaction is open: %v", what, err)
			}
		}
	}
}

// fillOne makes sure that there is a row that was sent.
func fillOne(t *testing.T, path string) {
	db := connect(t, path)
	if count(t, db, "outbox_sent") == 0 {
		fillSent(t, db, 1)
	}
}

// No statement of a source can write.
func TestReadingCannotWrite(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	fillSent(t, db, 1)
	for _, statement := range []string{"DELETE FROM outbox", "DROP TABLE outbox", "CREATE TABLE more (a)"} {
		err := b.reading(t.Context(), func(c *sql.Conn) error {
			_, err := c.ExecContext(t.Context(), statement)
			return err
		})
		says(t, statement, err, "attempt to write a readonly database")
	}
	run(t, b.db, "DELETE FROM outbox")
}

// A database that cannot be used is not the fault of the SQL.
func TestNotTheSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "business.db")
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b, err := New(Config{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := everything
	s.Where = "type = ''"
	if _, _, err := b.Look(t.Context(), s, 1); err != nil {
		t.Fatal(err)
	}
	hog, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer hog.Close()
	if _, err := hog.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil { // without WAL, no connection can even read
		t.Fatal(err)
	}
	for _, s := range []outbox.Source{s, {Query: "SELECT id FROM outbox"}} {
		_, _, err = b.Look(t.Context(), s, 1)
		says(t, "a look at a file in use", err, "another process has been writing for too long")
		if errors.Is(err, outbox.ErrSource) {
			t.Errorf("a file in use is ErrSource: %v", err)
		}
	}
}
