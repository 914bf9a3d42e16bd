package bench

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// The name of a program may have spaces and parentheses.
func TestParseStat(t *testing.T) {
	const stat = "42 (a (b) c) S 7 2 3 4 -1 6 7 8 9 10 150 25 20 5 20 0 9 0 77 88 99"
	id, parent, used, err := parseStat(stat)
	if err != nil || id != 42 || parent != 7 || used != 2*time.Second {
		t.Errorf("got %d, %d, %v, %v, want 42, 7, 2s", id, parent, used, err)
	}
	for _, bad := range []string{"", "42 (a) S 1 2", "42 (a) S 1 2 3 4 5 6 7 8 9 10 x 25 1 2", "x (a) S 1 2 3 4 5 6 7 8 9 10 1 2 3 4"} {
		if _, _, used, err := parseStat(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, used)
		}
	}
}

// The time of children counts, those that run and those that have ended.
func TestCPUTimeOfDescendants(t *testing.T) {
	for name, script := range map[string]string{
		"running": `sh -c 'while :; do :; done' & echo begun; read -r _; kill $!`,
		"ended":   `sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done'; echo begun; read -r _`,
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", script)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer in.Close()
			if _, err := out.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			for began := time.Now(); time.Since(began) < time.Minute; {
				used, err := CPUTime(cmd.Process.Pid)
				if err != nil {
					t.Fatal(err)
				}
				if used >= 50*time.Millisecond {
					return
				}
			}
			t.Error("no CPU time of the child was found")
		})
	}
	if _, err := CPUTime(1 << 30); err == nil {
		t.Error("a process that is not there is no error")
	}
}

// A costed contender leaves the first round out, in which everything is cold.
func TestCosted(t *testing.T) {
	c := Costed{Contender: nothing{}, PID: os.Getpid()}
	if c.Each() != 0 {
		t.Errorf("got %v before the first round", c.Each())
	}
	c.rounds = []float64{9, 1, 3, 2}
	if c.Each() != 2*time.Second || c.rounds[1] != 1 {
		t.Errorf("got %v, want 2s; rounds %v", c.Each(), c.rounds)
	}
	if _, err := c.Round(t.Context(), Load{}); err != nil || len(c.rounds) != 5 {
		t.Errorf("got %v, %v", c.rounds, err)
	}
	c.PID = 1 << 30
	if _, err := c.Round(t.Context(), Load{}); err == nil {
		t.Error("a process that is not there is no error")
	}
}

type nothing struct{}

func (nothing) Prepare(context.Context, func(float64)) error   { return nil }
func (nothing) Round(context.Context, Load) (t Tally, _ error) { return t, nil }
func (nothing) Close() error                                   { return nil }
