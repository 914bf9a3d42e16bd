package serve

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"
)

// A notifier tells a service manager such as systemd how this server is, as sd_notify(3) says: when
// it serves, that it still does, and that it stops. Without a service manager it is nil, and says
// nothing. [DUR-41, DUR-42]
type notifier struct {
	conn   net.Conn
	every  time.Duration // between two signs of life; 0 for none
	logger *slog.Logger
}

// notifyMax bounds how long a message may wait for a service manager that does not read.
const notifyMax = time.Second

// openNotifier connects to the socket that the service manager names. A server whose service
// manager cannot be reached serves all the same.
func openNotifier(getenv func(string) string, logger *slog.Logger) *notifier {
	name := getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", name)
	if err != nil {
		logger.Warn("service manager not reached: it does not learn that the server is ready",
			"error", err)
		return nil
	}
	n := &notifier{conn: conn, logger: logger}
	micros, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	pid := getenv("WATCHDOG_PID")
	if err == nil && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.every = time.Duration(micros) * time.Microsecond / 3 // one may be late, and one be lost
	}
	return n
}

func (n *notifier) send(message string) {
	_ = n.conn.SetWriteDeadline(time.Now().Add(notifyMax)) // it fails when conn is closed
	if _, err := n.conn.Write([]byte(message)); err != nil {
		n.logger.Warn("service manager not notified", "message", message, "error", err)
	}
}

// run says that the server is ready, then gives signs of life while stuck returns no reason against
// them. It returns when ctx ends and the manager knows that the server stops.
func (n *notifier) run(ctx context.Context, stuck func() string) {
	if n == nil {
		return
	}
	defer n.conn.Close()
	const ready = "STATUS=ready"
	n.send("READY=1\n" + ready)
	var ticks <-chan time.Time
	if n.every > 0 {
		ticker := time.NewTicker(n.every)
		defer ticker.Stop()
		ticks = ticker.C
	}
	said := ready
	for {
		select {
		case <-ctx.Done():
			n.send("STOPPING=1\nSTATUS=stopping")
			return
		case <-ticks:
		}
		trouble, status := stuck(), ready
		if trouble != "" {
			status = "STATUS=" + trouble
		}
		if status != said {
			n.send(status)
			said = status
		}
		if trouble == "" {
			n.send("WATCHDOG=1")
		}
	}
}
