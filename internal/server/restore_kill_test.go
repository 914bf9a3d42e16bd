package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"tenaq/internal/testing/proof"
	"testing"
	"time"
)

// A waiting reader says when a number of bytes have been read, and then reads no more.
type waiting struct {
	r    io.Reader
	left int
}

func (w *waiting) Read(p []byte) (int, error) {
	if w.left == 0 {
		fmt.Println("there")
		time.Sleep(time.Hour) // until it is killed
	}
	n, err := w.r.Read(p[:min(len(p), w.left)])
	w.left -= n
	return n, err
}

// TestRestoreChild is the process that TestRestoreKilled kills.
func TestRestoreChild(t *testing.T) {
	path, dir := os.Getenv("TENAQ_RESTORE_FILE"), os.Getenv("TENAQ_RESTORE_DIR")
	if path == "" {
		t.Skip("only as a child")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at, err := strconv.Atoi(os.Getenv("TENAQ_RESTORE_WAIT"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("begins")
	if _, err := Restore(context.Background(), &waiting{f, at}, dir, nil); err != nil {
		t.Fatal(err)
	}
}

// A restore that is killed leaves a directory that holds nothing, or all, or one that no server
// takes. [DUR-33]
func TestRestoreKilled(t *testing.T) {
	b := smallBackup(t)
	seed := proof.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	path := filepath.Join(t.TempDir(), "backup.tar")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	trials := 16
	if testing.Short() {
		trials = 4
	}
	refused, whole, nothing := 0, 0, 0
	for i := range trials {
		dir := filepath.Join(t.TempDir(), "new")
		wait := rng.IntN(len(b))
		if i%2 == 1 {
			wait = 1 << 40 // it is killed by the clock
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestRestoreChild$", "-test.v")
		cmd.Env = append(os.Environ(), "TENAQ_RESTORE_FILE="+path, "TENAQ_RESTORE_DIR="+dir, "TENAQ_RESTORE_WAIT="+strconv.Itoa(wait))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line := "there"
		if i%2 == 1 {
			line = "begins"
		}
		for in := bufio.NewScanner(out); in.Scan() && in.Text() != line; {
		}
		if i%2 == 1 {
			time.Sleep(time.Duration(rng.IntN(120)) * time.Millisecond)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()

		entries, err := os.ReadDir(dir)
		switch {
		case errors.Is(err, os.ErrNotExist), err == nil && len(entries) == 0:
			nothing++
			continue
		case err != nil:
			t.Fatal(err)
		}
		cfg := config(t)
		cfg.DataDir = dir
		s, err := New(cfg)
		if err != nil {
			refused++
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "interrupted") || !strings.Contains(err.Error(), "remove the directory") {
				t.Errorf("killed at byte %d: the server says %v", wait, err)
			}
			continue
		}
		whole++
		s.close()
		if v := mustVerify(t, dir); v.Messages != 5 {
			t.Errorf("killed at byte %d: there are %d messages, want 5", wait, v.Messages)
		}
	}
	t.Logf("of %d killed restores %d were refused, %d were whole, %d had not begun", trials, refused, whole, nothing)
	if refused == 0 {
		t.Error("no restore was killed in the middle")
	}
}
