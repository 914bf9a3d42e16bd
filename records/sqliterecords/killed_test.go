package sqliterecords

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"tenaq/internal/testing/proof"
	"tenaq/records"
)

// childTogether says that a child is to write many records at once.
const childTogether = "SQLITERECORDS_TEST_TOGETHER"

// hands is how many goroutines of a child write, each its own record.
const hands = 24

// content is the value of the n-th write of a record. It spreads over pages.
func content(n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%d ", n), 2000) }

// writeTogether has goroutines replace their records, until the process is killed. Each answer is a
// line: the record and the number of the write.
func writeTogether(path string) error {
	s, err := New(Config{Path: path})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for hand := range hands {
		go func() { failed <- replaceAll(s, hand) }()
	}
	return <-failed
}

func replaceAll(s *Store, hand int) error {
	key := fmt.Sprint("hand ", hand)
	r, err := s.Get(context.Background(), key)
	if err != nil && !errors.Is(err, records.ErrNotFound) {
		return err
	}
	n := 0
	_, _ = fmt.Sscan(string(r.Value), &n) // zero without a record
	for n++; ; n++ {
		r, err = s.Put(context.Background(), records.Write{Key: key, Value: content(n), If: r.Version})
		if err != nil {
			return err
		}
		if _, err := fmt.Printf("%d %d\n", hand, n); err != nil {
			return err
		}
	}
}

// Processes are killed while many of their writes share transactions. Answered writes are there; of
// the others, at most the next write of each goroutine is, as a whole.
func TestKilledTogether(t *testing.T) {
	rng := proof.Random(t)
	m := newMachine(t)
	var answered [hands]int
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for range rounds {
		killTogether(t, m.path, 50+rng.IntN(400), &answered)
		s := m.open(t, 0)
		for hand := range hands {
			r, err := s.Get(t.Context(), fmt.Sprint("hand ", hand))
			if answered[hand] == 0 && errors.Is(err, records.ErrNotFound) {
				continue
			}
			n := 0
			_, _ = fmt.Sscan(string(r.Value), &n)
			if err != nil || !bytes.Equal(r.Value, content(n)) || n < answered[hand] || n > answered[hand]+1 {
				t.Errorf("hand %d: write %d of %d bytes is there, %d was answered, %v", hand, n, len(r.Value), answered[hand], err)
			}
			answered[hand] = n
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killTogether kills a child after that many answers, and notes the last one of each hand.
func killTogether(t *testing.T, path string, after int, answered *[hands]int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childTogether+"="+path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() { _ = cmd.Process.Kill() })
	defer kill()
	answers := 0
	for lines := bufio.NewScanner(out); lines.Scan(); answers++ {
		var hand, n int
		if _, err := fmt.Sscan(lines.Text(), &hand, &n); err == nil {
			answered[hand] = n
		}
		if answers == after {
			kill()
		}
	}
	_ = cmd.Wait() // it was killed
	if answers < after {
		t.Fatalf("the child ended after %d answers: %s", answers, stderr.String())
	}
}
