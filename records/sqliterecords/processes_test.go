package sqliterecords

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"tenaq/records"
)

// childPath names the file that the test binary is to work on instead of running tests.
const childPath = "SQLITERECORDS_TEST_CHILD"

func TestMain(m *testing.M) {
	for env, be := range map[string]func(string) error{childPath: count, childTogether: writeTogether} {
		if path := os.Getenv(env); path != "" {
			if err := be(path); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

// count adds one to a record for each line that it reads, and answers each with a line.
func count(path string) error {
	s, err := New(Config{Path: path})
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		version, err := increment(s)
		if err != nil {
			return err
		}
		fmt.Println(version)
	}
	return s.Close()
}

func increment(s *Store) (records.Version, error) {
	ctx := context.Background()
	r, err := s.Get(ctx, "n")
	if err != nil && !errors.Is(err, records.ErrNotFound) {
		return 0, err
	}
	for {
		n, _ := strconv.Atoi(string(r.Value))
		got, err := s.Put(ctx, records.Write{Key: "n", Value: strconv.AppendInt(nil, int64(n)+1, 10), If: r.Version})
		var c *records.Conflict
		if !errors.As(err, &c) {
			return got.Version, err
		}
		r = c.Current
	}
}

// Processes count in one record, from before the file exists, and some are killed in between. Each
// answered write is there, and at most one more of each killed process.
func TestProcesses(t *testing.T) {
	const children, killed, each = 5, 2, 40
	m := newMachine(t)
	answers := make(chan []records.Version, children)
	for i := range children {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childPath+"="+m.path)
		cmd.Stdin = strings.NewReader(strings.Repeat("\n", each))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			var versions []records.Version
			for lines := bufio.NewScanner(out); lines.Scan(); {
				v, err := strconv.ParseUint(lines.Text(), 10, 64)
				if err != nil {
					t.Errorf("child %d answered %q", i, lines.Text())
				}
				versions = append(versions, records.Version(v))
				if i < killed && len(versions) == each/4 {
					_ = cmd.Process.Kill()
				}
			}
			if err := cmd.Wait(); err != nil && i >= killed {
				t.Errorf("child %d: %v: %s", i, err, stderr.String())
			}
			answers <- versions
		}()
	}
	answered, seen := 0, map[records.Version]bool{}
	for range children {
		last := records.Version(0)
		for _, v := range <-answers {
			if v <= last || seen[v] {
				t.Errorf("version %d after %d, or twice", v, last)
			}
			last, seen[v] = v, true
			answered++
		}
	}
	if answered < (children-killed)*each {
		t.Errorf("%d increments were answered, want those of %d children", answered, children-killed)
	}
	s := m.open(t, 0)
	defer s.Close()
	r, err := s.Get(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	sum, _ := strconv.Atoi(string(r.Value))
	if sum < answered || sum > answered+killed {
		t.Errorf("the sum is %d, and %d increments were answered", sum, answered)
	}
	for v := range seen {
		if v > r.Version {
			t.Errorf("version %d was answered, and %d is there", v, r.Version)
		}
	}
}
