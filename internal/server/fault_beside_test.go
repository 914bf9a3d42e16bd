package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"tenaq/internal/testing/proof"
)

// The alarms and the ballast are written past the file system that TestFaultSweep puts under the
// store. Here the system limits how large files may become, so that their writes fail at one byte
// after another; the store itself is in memory meanwhile. An alarm that cannot be stored is
// refused, and nothing else notices. [ALARM-44, DUR-23]
//
// Not tried are a failing sync and a failing rename of these files.
func TestFaultsBesideTheStore(t *testing.T) {
	r := theReference(t)
	refused := make(map[string]int)
	limits := []uint64{1, 1300, 2000, 4000, 1 << 20}
	for _, limit := range limits {
		dir := filepath.Join(t.TempDir(), "data")
		run, err := r.try(faultChild{Dir: dir, Fault: fault{Power: true}, Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		wrong := slices.Concat(run.wrong, r.judge(dir, run))
		if run.status != 0 || run.cut != "" || run.said != "" {
			wrong = append(wrong, fmt.Sprintf("it ends with status %d, %s was cut off, and it says %q", run.status, run.cut, run.said))
		}
		if !strings.Contains(run.log, "ballast not written") {
			wrong = append(wrong, "the log says nothing of the ballast")
		}
		if len(run.refused) > 0 != strings.Contains(run.log, "cannot store the alarms") {
			wrong = append(wrong, fmt.Sprintf("%v were refused, and the log says otherwise", run.refused))
		}
		if len(wrong) > 0 {
			t.Errorf("files of at most %d bytes: %s\n%s", limit, strings.Join(wrong, "\n"), run.log)
		}
		for _, name := range run.refused {
			refused[name]++
		}
		removeDir(t, dir)
	}
	t.Logf("refused: %v", refused)
	deep, wide := refused["PutMetricAlarm deep"], refused["PutMetricAlarm wide"]
	if deep == 0 || wide <= deep || wide == len(limits) || len(refused) != 2 {
		t.Errorf("refused %v: want the first alarm at some limits, the second at some more, and nothing else", refused)
	}
}

// A real full disk: a file system so small that the script does not get to its end. Everything is
// on it, the alarms and the store alike. Everything acknowledged is there when there is room again.
// [DUR-12]
func TestDiskReallyFull(t *testing.T) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 31))
	r := theReference(t)
	trials := proof.Count(3, 16, 16, 160)
	const little = 512 << 10 // not enough for the script, and mostly for a start and some of its steps
	full := 0                // of those with little room, how many ended in the middle of the script because of it
	ends := make(map[string]int)
	for i := range trials {
		dir := t.TempDir()
		data, left := filepath.Join(dir, "data"), filepath.Join(dir, "left")
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		room := (16 + uint64(i)*1100/uint64(trials) + rng.Uint64N(70)) << 10
		run, err := r.try(faultChild{Dir: data, Left: left, Room: room})
		if errors.Is(err, syscall.EPERM) || run != nil && run.noMount {
			proof.Missing(t, "this user may not mount file systems: run it as root")
		}
		if err != nil {
			t.Fatal(err)
		}
		wrong := slices.Concat(run.wrong, fault{Errno: syscall.ENOSPC}.checkEnd(run), r.judge(left, run))
		if len(wrong) > 0 {
			t.Errorf("a disk of %d bytes: step %d, status %d, said %q\n\t%s\n%s", room, run.acked, run.status, run.said, strings.Join(wrong, "\n\t"), run.log)
		}
		if room < little && run.acked > 0 && run.status == 7 {
			full++
		}
		ends[fmt.Sprintf("status %d, %d refused", run.status, len(run.refused))]++
		removeDir(t, left)
	}
	t.Logf("%v; %d in the middle of the script, on disks of less than %d bytes", ends, full, little)
	if full == 0 {
		t.Errorf("got no end with status 7 in the middle of the script on a disk of less than %d bytes, want some", little)
	}
}

// Alarms that the disk does not give back keep a server from starting, because an intact file must
// not count as a missing one: this is a failing disk, and not a damaged store.
func TestAlarmsUnreadable(t *testing.T) {
	cfg := config(t)
	if err := os.Mkdir(filepath.Join(cfg.DataDir, alarmsName), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg)
	if err == nil {
		s.close()
	}
	if !errors.Is(err, ErrStorage) || errors.Is(err, ErrDamaged) || !strings.HasSuffix(err.Error(), "start again") {
		t.Errorf("got %v, want a failed disk, and what to do", err)
	}
}

// A disk that fails is noticed in several places at once. One of them speaks, and ends the process
// before another does. [DUR-12]
func TestOneSentence(t *testing.T) {
	var speaking atomic.Int32
	fatal := oneSentence(func(error) {
		if n := speaking.Add(1); n > 1 {
			t.Errorf("%d speak at the same time", n)
		}
		runtime.Gosched()
		speaking.Add(-1)
	})
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { fatal(ErrStorage) })
	}
	wg.Wait()
}
