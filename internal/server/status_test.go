package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/internal/api/v1"
)

// statusOf asks a server for its figures.
func statusOf(t *testing.T, s *Server) (status v1.ServerStatus) {
	t.Helper()
	code, body := get(t, s.URL()+"/v1/status")
	if err := json.Unmarshal([]byte(body), &status); err != nil || code != http.StatusOK {
		t.Fatalf("got %d %s: %v", code, body, err)
	}
	return status
}

// The figures are those of this process and of its latest look at the disk. While a look hangs,
// they come at once, with the time of the look before. [V1-25, CONSOLE-9, DUR-20]
func TestStatus(t *testing.T) {
	cfg := config(t)
	cfg.Region, cfg.DiskReserve = "eu-west-1", 1<<30
	before := time.Now().Truncate(time.Second)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var free atomic.Int64
	free.Store(3 << 30)
	hangs, hung := make(chan bool), make(chan bool)
	defer close(hangs)
	s.disk.room = func(string) (room, error) {
		if free.Load() < 0 {
			select {
			case hung <- true:
			case <-hangs:
			}
			<-hangs
		}
		return room{free.Load(), 9 << 30}, nil
	}
	begin(t, s)
	got := statusOf(t, s)
	if got.Version != "v1.2.3" || got.Region != "eu-west-1" || got.Started.Before(before) || got.Now.Before(got.Started) || got.SendsRefused || got.Memory.Goroutines < 5 {
		t.Errorf("got %+v", got)
	}
	if n, ok := resident(); ok && (got.Memory.ResidentBytes < int64(n)/10 || got.Memory.ResidentBytes > 10*int64(n)) {
		t.Errorf("got a memory of %d, and %v are resident", got.Memory.ResidentBytes, n)
	}
	if d := got.Disk; d.FreeBytes == nil || *d.FreeBytes != 3<<30 || *d.TotalBytes != 9<<30 || d.ReserveBytes != 1<<30 || !d.Near || d.At.Before(before) {
		t.Errorf("got the disk %+v", d)
	}

	if b := got.Backups; b == nil || b.Running || b.Taken != nil {
		t.Errorf("before the first backup: got %+v", b)
	}
	size := int64(len(takeBackup(t, s)))
	eventually(t, "the backup is known", func() bool {
		b := statusOf(t, s).Backups
		return b.Taken != nil && !b.Taken.Before(before) && b.Bytes == size && !b.Running
	})

	free.Store(1<<30 - 1)
	eventually(t, "sends are refused", func() bool {
		got := statusOf(t, s)
		return got.SendsRefused && *got.Disk.FreeBytes == 1<<30-1
	})
	free.Store(-1)
	<-hung
	last := *statusOf(t, s).Disk.At
	eventually(t, "the latest look is old", func() bool {
		got := statusOf(t, s)
		if *got.Disk.FreeBytes != 1<<30-1 || !got.Disk.At.Equal(last) || !got.SendsRefused {
			t.Fatalf("while a look hangs: got %+v, of %v", got, last)
		}
		return got.Now.Sub(last) > 2*time.Second
	})
}

// Each node of a cluster answers with the figures of the one that leads. [V1-25]
func TestStatusInCluster(t *testing.T) {
	reserve := func(i int) int64 { return int64(1000 + i) }
	nodes, _ := three(t, func(i int, cfg *Config) { cfg.DiskReserve = reserve(i) })
	for i, s := range nodes {
		eventually(t, fmt.Sprintf("node %d shows the leader", i), func() bool {
			code, body := get(t, s.URL()+"/v1/status")
			var got v1.ServerStatus
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatalf("got %d %s: %v", code, body, err)
			}
			return code == http.StatusOK && got.Disk.ReserveBytes == reserve(leaderOf(t, nodes))
		})
	}
}
