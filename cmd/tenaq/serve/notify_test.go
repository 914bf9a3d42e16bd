package serve

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// managerSocket is the socket of a service manager; next returns what it receives.
func managerSocket(t *testing.T) (name string, next func() string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return name, func() string {
		t.Helper()
		b := make([]byte, 4<<10)
		if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := socket.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

// [DUR-41, DUR-42]
func TestNotifier(t *testing.T) {
	name, next := managerSocket(t)
	env := map[string]string{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000"}
	n := openNotifier(func(name string) string { return env[name] }, slog.Default())
	var trouble atomic.Value
	var asked atomic.Int64
	trouble.Store("")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.run(ctx, func() string { asked.Add(1); return trouble.Load().(string) })
	}()
	until := func(last string) (said []string) {
		t.Helper()
		for {
			said = append(said, next())
			if said[len(said)-1] == last {
				return said
			}
		}
	}
	if first := next(); first != "READY=1\nSTATUS=ready" {
		t.Errorf("first message %q, want READY=1", first)
	}
	until("WATCHDOG=1")
	trouble.Store("the disk hangs")
	until("STATUS=the disk hangs")
	for from := asked.Load(); asked.Load() < from+10; {
		time.Sleep(time.Millisecond)
	}
	trouble.Store("")
	if said := until("STATUS=ready"); slices.Contains(said, "WATCHDOG=1") {
		t.Errorf("a stuck server says %q, want no sign of life", said)
	}
	until("WATCHDOG=1")
	cancel()
	<-ended
	until("STOPPING=1\nSTATUS=stopping")
}

// The watchdog of another process, or none, asks for no signs of life; without a socket there is
// nothing to tell, and one that is gone ends nothing. [DUR-41, DUR-42]
func TestNotifierUnasked(t *testing.T) {
	name, next := managerSocket(t)
	for _, env := range []map[string]string{
		{"NOTIFY_SOCKET": name},
		{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"},
		{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "soon"},
		{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "0"},
	} {
		n := openNotifier(func(name string) string { return env[name] }, slog.Default())
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		n.run(ctx, func() string { t.Errorf("%v: asked for a sign of life", env); return "" })
		if first, last := next(), next(); !strings.HasPrefix(first, "READY=1\n") ||
			!strings.HasPrefix(last, "STOPPING=1\n") {
			t.Errorf("%v: got %q and %q, want READY=1 and STOPPING=1", env, first, last)
		}
	}
	for _, name := range []string{"", "/nonexistent/notify"} {
		var log strings.Builder
		n := openNotifier(func(v string) string {
			return map[string]string{"NOTIFY_SOCKET": name}[v]
		}, slog.New(slog.NewTextHandler(&log, nil)))
		n.run(t.Context(), nil)
		if warned := strings.Contains(log.String(), "service manager not reached"); warned != (name != "") {
			t.Errorf("socket %q: log %q", name, log.String())
		}
	}
}
