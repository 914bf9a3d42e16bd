package peers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"tenaq/internal/bench"
)

// startArtemis creates a broker with the tool of Artemis, which measures the disk for it, and
// starts it. It speaks STOMP here.
func startArtemis(ctx context.Context, at *place) (server, error) {
	if _, err := program("java"); err != nil {
		return nil, err
	}
	home, err := fetched("artemis", "home")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(at.dir, "broker")
	create := exec.CommandContext(ctx, filepath.Join(home, "bin", "artemis"), "create", dir,
		"--user", "tenaq", "--password", "tenaq", "--allow-anonymous", "--silent",
		"--host", "127.0.0.1", "--default-port", at.port, "--no-amqp-acceptor",
		"--no-hornetq-acceptor", "--no-mqtt-acceptor", "--no-stomp-acceptor", "--no-web")
	if out, err := create.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("artemis create: %w\n%s", err, out)
	}
	if err := anyDisk(filepath.Join(dir, "etc", "broker.xml")); err != nil {
		return nil, err
	}
	p, err := start(at, []string{"JAVA_ARGS_APPEND=-Xmx4g"}, filepath.Join(dir, "bin", "artemis"),
		"run")
	if err != nil {
		return nil, err
	}
	return &broker{p,
			func(context.Context, string) error { return nil }, // by its first message
			func(string) error { return nil },
			func(ctx context.Context, queue string, w *bench.Work) (client, error) {
				return dialArtemis(ctx, at.port, queue, w)
			}},
		p.ready(ctx, func(ctx context.Context) error {
			c, err := dialArtemis(ctx, at.port, "ready", &bench.Work{Kind: bench.Send})
			if err == nil {
				c.close()
			}
			return err
		})
}

// anyDisk lets a broker work on a disk that is nearly full. By itself it blocks producers there.
func anyDisk(path string) error {
	const limit, none = "<max-disk-usage>90</max-disk-usage>", "<max-disk-usage>-1</max-disk-usage>"
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte(limit)) {
		return fmt.Errorf("%s has no %s", path, limit)
	}
	return os.WriteFile(path, bytes.Replace(text, []byte(limit), []byte(none), 1), 0o600)
}

// A stomp sends a batch at once and waits for the receipt of each message. Its subscription holds
// about a batch, all of which it acknowledges with one frame.
type stomp struct {
	*wire
	queue string
	acks  []string // of what was received and not yet deleted
}

func dialArtemis(ctx context.Context, port, queue string, work *bench.Work) (*stomp, error) {
	w, err := dialWire(ctx, port)
	if err != nil {
		return nil, err
	}
	c := &stomp{wire: w, queue: queue}
	c.frame("CONNECT", "", "accept-version:1.2", "host:127.0.0.1", "heart-beat:0,0")
	if err := c.flush(); err != nil {
		return nil, err
	}
	if _, err := c.next("CONNECTED"); err != nil || work.Kind == bench.Send {
		return c, err
	}
	const overhead = 400 // of a message, in the window of a consumer
	c.frame("SUBSCRIBE", "", "id:0", "destination:"+queue, "subscription-type:ANYCAST",
		"ack:client", "receipt:s", "consumer-window-size:"+strconv.Itoa(work.Batch*(work.Size+overhead)))
	if err := c.flush(); err != nil {
		return nil, err
	}
	_, err = c.next("RECEIPT")
	return c, err
}

// frame collects a frame.
func (c *stomp) frame(command, body string, headers ...string) {
	c.out = append(append(c.out, command...), '\n')
	for _, h := range headers {
		c.out = append(append(c.out, h...), '\n')
	}
	c.out = append(append(append(c.out, '\n'), body...), 0)
}

func (c *stomp) send(bodies []string) error {
	for _, body := range bodies {
		c.frame("SEND", body, "destination:"+c.queue, "destination-type:ANYCAST", "persistent:true",
			"receipt:m", "content-length:"+strconv.Itoa(len(body)))
	}
	if err := c.flush(); err != nil {
		return err
	}
	return c.receipts(len(bodies))
}

// receipts waits for receipts. Messages that come in between are kept.
func (c *stomp) receipts(n int) error {
	for n > 0 {
		kind, err := c.next("RECEIPT", "MESSAGE")
		if err != nil {
			return err
		}
		if kind == "RECEIPT" {
			n--
		}
	}
	return nil
}

func (c *stomp) consume(n int, until time.Time) (int, error) {
	for len(c.acks) < n {
		if came, err := c.await(until); err != nil || !came {
			return 0, err
		}
		if next, _ := c.r.Peek(1); next[0] == '\n' { // follows a frame, or keeps the connection
			_ = c.skip(1) // it is in the buffer
			continue
		}
		if _, err := c.next("MESSAGE"); err != nil {
			return 0, err
		}
	}
	c.frame("ACK", "", "id:"+c.acks[n-1], "receipt:a")
	c.acks = append(c.acks[:0], c.acks[n:]...)
	if err := c.flush(); err != nil {
		return 0, err
	}
	return n, c.receipts(1)
}

// next reads the next frame, which must be one of some.
func (c *stomp) next(wanted ...string) (kind string, err error) {
	command, err := c.line()
	for err == nil && len(command) == 0 { // a newline may follow a frame
		command, err = c.line()
	}
	if err != nil {
		return "", err
	}
	kind = string(bytes.TrimLeft(command, "\x00"))
	length, ack := -1, ""
	for {
		line, err := c.line()
		if err != nil {
			return "", err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "content-length":
			if length, err = number(value); err != nil {
				return "", err
			}
		case "ack":
			ack = string(value)
		}
	}
	var body []byte
	if length >= 0 {
		body, err = c.block(length + 1)
	} else {
		body, err = c.r.ReadBytes(0)
	}
	if err != nil {
		return "", err
	}
	if kind == "MESSAGE" {
		c.acks = append(c.acks, ack)
	}
	if slices.Contains(wanted, kind) {
		return kind, nil
	}
	return "", fmt.Errorf("the server sent a frame %s: %.200q", kind, body)
}
