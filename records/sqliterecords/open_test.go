package sqliterecords

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tenaq/records"
)

// runSQL runs SQL on a file, as another program would.
func runSQL(t *testing.T, path, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statements); err != nil {
		t.Fatal(err)
	}
}

// schemaOf returns what a file says about itself.
func schemaOf(t *testing.T, path string) string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var all, mode string
	var version, application int
	for query, dst := range map[string]any{
		"SELECT group_concat(sql, x'0a') FROM (SELECT sql FROM sqlite_schema ORDER BY name)": &all,
		"PRAGMA user_version":   &version,
		"PRAGMA application_id": &application,
		"PRAGMA journal_mode":   &mode,
	} {
		if err := db.QueryRow(query).Scan(dst); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprint(all, version, application, mode)
}

func TestSchema(t *testing.T) {
	dir := t.TempDir()
	opened, made := filepath.Join(dir, "opened.db"), filepath.Join(dir, "made.db")
	s, err := New(Config{Path: opened})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	runSQL(t, made, Schema())
	runSQL(t, made, Schema()) // again does no harm
	before := schemaOf(t, made)
	if got := schemaOf(t, opened); got != before {
		t.Errorf("Open creates\n%s\nand Schema\n%s", got, before)
	}
	s, err = New(Config{Path: made})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), records.Write{Key: "a"}); err != nil {
		t.Error(err)
	}
	s.Close()
	if got := schemaOf(t, made); got != before {
		t.Errorf("Open changed the schema to\n%s\nfrom\n%s", got, before)
	}
	if want := fmt.Sprintf("application_id = %d;", applicationID); !strings.Contains(Schema(), want) {
		t.Errorf("the schema has no %q", want)
	}
	if want := fmt.Sprintf("user_version = %d;", len(migrations)); !strings.Contains(migrations[len(migrations)-1], want) {
		t.Errorf("the last migration has no %q", want)
	}
}

// Concurrent opens of a file that does not exist yet all get the same one.
func TestOpenTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			s, err := New(Config{Path: path})
			if err != nil {
				t.Errorf("%d: %v", i, err)
				return
			}
			defer s.Close()
			if _, err := s.Put(t.Context(), records.Write{Key: fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	s, err := New(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if all, err := s.List(t.Context(), "", "", 0); len(all) != 8 || err != nil {
		t.Errorf("%d records, %v, want 8", len(all), err)
	}
}

// A file that cannot be used is left as it is, and the error says what to do.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	runSQL(t, file("newer.db"), Schema()+"PRAGMA user_version = 99")
	runSQL(t, file("other.db"), "CREATE TABLE customers (name TEXT)")
	runSQL(t, file("marked.db"), "PRAGMA application_id = 42")
	garbage := []byte(strings.Repeat("this is no database\n", 500))
	if err := os.WriteFile(file("garbage.db"), garbage, 0o666); err != nil {
		t.Fatal(err)
	}
	runSQL(t, file("cut.db"), Schema())
	if err := os.Truncate(file("cut.db"), 4096); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, want string }{
		{"", "set it to the file of the records"},
		{file("newer.db"), "newer.db: the file has schema 99 and this program knows schemas up to 1; use a newer version of the program"},
		{file("other.db"), "other.db: this is the SQLite database of another program; name another file"},
		{file("marked.db"), "marked.db: this is the SQLite database of another program; name another file"},
		{file("garbage.db"), "not a SQLite database, or a damaged one; restore it from a backup, or name another file"},
		{file("cut.db"), "the file is damaged; stop all programs that use it, then restore it"},
		{file("missing/records.db"), "check that the file and its directory exist and that this user may write to them"},
		{dir, "check that the file and its directory exist and that this user may write to them"},
	} {
		before, _ := os.ReadFile(tt.path)
		s, err := New(Config{Path: tt.path})
		if err == nil {
			_, err = s.Put(t.Context(), records.Write{Key: "a"}) // some damage is found no earlier
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("open %s: %v\nwant an error with %q", filepath.Base(tt.path), err, tt.want)
		}
		if after, _ := os.ReadFile(tt.path); string(after) != string(before) {
			t.Errorf("%s was changed", filepath.Base(tt.path))
		}
	}
}

// Damage in the middle of the file is found when it is read, and never returned as an answer.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	s, err := New(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := s.Put(t.Context(), records.Write{Key: fmt.Sprint(i), Value: make([]byte, 5000)}); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(content); i++ {
		content[i] ^= 0x5a
	}
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	if s, err = New(Config{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Get(t.Context(), "7")
	if err == nil || errors.Is(err, records.ErrNotFound) || !strings.Contains(err.Error(), "the file is damaged") {
		t.Errorf("get from a damaged file: %v", err)
	}
	if _, err := s.List(t.Context(), "", "", 0); err == nil || !strings.Contains(err.Error(), "the file is damaged") {
		t.Errorf("list of a damaged file: %v", err)
	}
}

// A write without room leaves nothing, and once there is room, writes succeed again.
func TestFull(t *testing.T) {
	m := newMachine(t)
	s := m.open(t, 0)
	defer s.Close()
	put := func(key string, size int) error {
		_, err := s.Put(t.Context(), records.Write{Key: key, Value: make([]byte, size)})
		return err
	}
	limit := func(pages int) {
		t.Helper()
		if _, err := s.writer.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	if err := put("before", 10); err != nil {
		t.Fatal(err)
	}
	limit(20)
	err := put("large", 200_000)
	if err == nil || !strings.HasSuffix(err.Error(), "the disk is full; free some space, no restart is needed") || !strings.Contains(err.Error(), m.path) {
		t.Errorf("put on a full disk: %v", err)
	}
	if all, err := s.List(t.Context(), "", "", 0); len(all) != 1 || err != nil {
		t.Errorf("%d records, %v, want the one from before", len(all), err)
	}
	limit(1000)
	if err := put("large", 200_000); err != nil {
		t.Errorf("put with room again: %v", err)
	}
}

// A writer that never ends is waited for as long as Config.Wait, or as the context says; reads
// do not wait.
func TestWait(t *testing.T) {
	m := newMachine(t)
	hog := m.open(t, 0)
	defer hog.Close()
	there, err := hog.Put(t.Context(), records.Write{Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := hog.writer.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Path: m.path, Wait: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := s.Get(t.Context(), "a"); err != nil || got.Version != there.Version {
		t.Errorf("get = version %d, %v, want %d", got.Version, err, there.Version)
	}
	err = s.Delete(t.Context(), "a", there.Version)
	if err == nil || !strings.Contains(err.Error(), "another process has been writing for too long") {
		t.Errorf("delete while another writes: %v", err)
	}

	patient := m.open(t, 0)
	defer patient.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	err = patient.Delete(ctx, "a", there.Version)
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 15*time.Second {
		t.Errorf("delete with a deadline while another writes: %v after %v", err, took)
	}
	time.AfterFunc(30*time.Millisecond, func() { _ = tx.Rollback() })
	if err := patient.Delete(t.Context(), "a", there.Version); err != nil {
		t.Errorf("delete by one who waits: %v", err)
	}
}
