package pipeline

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newTestTask returns the settings of a run with a source, and a function that runs a task for a file.
func newTestTask(t *testing.T) (s *Settings, src *source, run func(id string) (int, error)) {
	t.Helper()
	p := newPlan(1)
	p.Deaths = nil
	src, err := newSource(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.close)
	s = &Settings{Dir: t.TempDir(), Source: src.url, Secret: src.secret, Plan: p}
	for _, dir := range []string{"out", "parts", "died"} {
		if err := os.Mkdir(filepath.Join(s.Dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return s, src, func(id string) (int, error) {
		t.Helper()
		t.Setenv("TENAQ_EFFECT_KEY", id)
		return s.Do(t.Context(), strings.NewReader(file{ID: id}.body(batchID)))
	}
}

// A task says by its exit code what is to become of the message, and by its error why.
func TestTaskExits(t *testing.T) {
	_, _, run := newTestTask(t)
	for _, test := range []struct {
		id   string
		code int
		says string
	}{
		{fileDamaged, exitFailed, "message authentication failed"},
		{fileWithdrawn, exitPoison, "was withdrawn"},
		{fileNotYet, exitLater, "not there yet"},
		{fileNotYet, exitLater, "not there yet"},
		{fileNotYet, 0, ""},
		{fileAfterWrite, 0, ""},
	} {
		code, err := run(test.id)
		if code != test.code || (err == nil) != (test.code == 0) || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %d and %v, want %d and %q", test.id, code, err, test.code, test.says)
		}
	}
}

// A file is written once, whole, under its effect key. What is there and differs is left alone and told of.
func TestTaskWritesOnce(t *testing.T) {
	s, src, run := newTestTask(t)
	const id = fileAfterWrite
	for range 3 {
		if code, err := run(id); code != 0 {
			t.Fatalf("got %d and %v", code, err)
		}
	}
	h, err := openHistory(s.historyFile())
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	if err := h.read(); err != nil || h.count(wrote) != 1 || h.count(found) != 2 {
		t.Errorf("got %v and error %v, want it written once and found twice", h.events, err)
	}
	if got, err := os.ReadFile(s.outFile(id)); err != nil || !bytes.Equal(got, src.texts[id]) {
		t.Errorf("got %d bytes and error %v, want the original", len(got), err)
	}
	if parts, _ := os.ReadDir(filepath.Join(s.Dir, "parts")); len(parts) != 0 {
		t.Errorf("left behind: %v", parts)
	}
	if err := os.WriteFile(s.outFile(id), []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, err := run(id); code != exitPoison || !strings.Contains(err.Error(), "is another file") {
		t.Errorf("over another file: got %d and %v", code, err)
	}
	if got, _ := os.ReadFile(s.outFile(id)); string(got) != "something else" {
		t.Error("it was written over")
	}
}
