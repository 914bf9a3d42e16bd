package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"tenaq/internal/bench"
)

// startNATS starts NATS with JetStream, which forces each message to disk.
func startNATS(ctx context.Context, at *place) (server, error) {
	path, err := fetched("nats", "nats-server")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(at.dir, "nats.conf")
	text := fmt.Sprintf("host: 127.0.0.1\nport: %s\njetstream { store_dir: %q, sync_interval: always }\n", at.port, filepath.Join(at.dir, "data"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := start(at, nil, path, "-c", config)
	if err != nil {
		return nil, err
	}
	once := func(ctx context.Context, request string, body any) error {
		c, err := dialNATS(ctx, at.port, "")
		if err != nil {
			return err
		}
		defer c.close()
		return c.call(request, body)
	}
	return &broker{p,
			func(ctx context.Context, queue string) error {
				stream := map[string]any{"name": queue, "subjects": []string{queue},
					"retention": "workqueue", "storage": "file", "num_replicas": 1}
				consumer := map[string]any{"stream_name": queue, "config": map[string]any{
					"durable_name": "c", "ack_policy": "explicit", "ack_wait": 10 * time.Minute,
					"max_ack_pending": 100_000}}
				return errors.Join(once(ctx, "STREAM.CREATE."+queue, stream),
					once(ctx, "CONSUMER.DURABLE.CREATE."+queue+".c", consumer))
			},
			func(queue string) error {
				return once(context.Background(), "STREAM.DELETE."+queue, nil)
			},
			func(ctx context.Context, queue string, _ *bench.Work) (client, error) {
				return dialNATS(ctx, at.port, queue)
			}},
		p.ready(ctx, func(ctx context.Context) error { return once(ctx, "INFO", nil) })
}

// A nats publishes a batch at once and waits for the ack of each message. It fetches a batch from a
// durable pull consumer and acknowledges each message.
type nats struct {
	*wire
	queue, inbox string
	replies      []string
}

var inboxes atomic.Int64

func dialNATS(ctx context.Context, port, queue string) (*nats, error) {
	w, err := dialWire(ctx, port)
	if err != nil {
		return nil, err
	}
	c := &nats{w, queue, "_INBOX.p" + strconv.FormatInt(inboxes.Add(1), 10), nil}
	c.out = fmt.Appendf(c.out, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\nSUB %s 1\r\n", c.inbox)
	return c, c.flush()
}

// publish collects a message.
func (c *nats) publish(subject, reply, body string) {
	c.out = fmt.Appendf(c.out, "PUB %s %s %d\r\n", subject, reply, len(body))
	c.out = append(append(c.out, body...), "\r\n"...)
}

// call makes a request to JetStream.
func (c *nats) call(request string, body any) error {
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body) // it has nothing that cannot be encoded
	}
	c.publish("$JS.API."+request, c.inbox, string(text))
	if err := c.flush(); err != nil {
		return err
	}
	m, err := c.next()
	if err == nil && m.status != "" {
		err = fmt.Errorf("the server answered %s with status %s", request, m.status)
	}
	if err == nil && bytes.Contains(m.body, []byte(`"error":`)) {
		err = fmt.Errorf("the server refused %s: %s", request, m.body)
	}
	return err
}

func (c *nats) send(bodies []string) error {
	for _, body := range bodies {
		c.publish(c.queue, c.inbox, body)
	}
	if err := c.flush(); err != nil {
		return err
	}
	for range bodies {
		m, err := c.next()
		if err == nil && (m.status != "" || bytes.Contains(m.body, []byte(`"error":`))) {
			err = fmt.Errorf("the server refused a message: %s %s", m.status, m.body)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *nats) consume(n int, _ time.Time) (int, error) {
	c.publish("$JS.API.CONSUMER.MSG.NEXT."+c.queue+".c", c.inbox,
		fmt.Sprintf(`{"batch":%d,"no_wait":true}`, n))
	if err := c.flush(); err != nil {
		return 0, err
	}
	c.replies = c.replies[:0]
	for len(c.replies) < n {
		m, err := c.next()
		if err != nil {
			return 0, err
		}
		if m.status != "" {
			break // there are no more
		}
		c.replies = append(c.replies, m.reply)
	}
	for _, reply := range c.replies {
		c.publish(reply, "", "+ACK")
	}
	return len(c.replies), c.flush()
}

// A natsMessage is what a subscription gets. A status stands in the header of one without a body.
type natsMessage struct {
	reply, status string
	body          []byte
}

// next reads the next message, and answers what the server asks in between.
func (c *nats) next() (m natsMessage, err error) {
	for {
		line, err := c.line()
		if err != nil {
			return m, err
		}
		f := bytes.Fields(line)
		switch {
		case len(f) == 0 || bytes.Equal(f[0], []byte("INFO")) || bytes.Equal(f[0], []byte("PONG")):
		case bytes.Equal(f[0], []byte("PING")):
			if _, err := c.c.Write([]byte("PONG\r\n")); err != nil {
				return m, err
			}
		case bytes.Equal(f[0], []byte("MSG")) && len(f) >= 4:
			if len(f) == 5 {
				m.reply = string(f[3])
			}
			return m, c.payload(&m, 0, f[len(f)-1])
		case bytes.Equal(f[0], []byte("HMSG")) && len(f) >= 5:
			if len(f) == 6 {
				m.reply = string(f[3])
			}
			header, err := number(f[len(f)-2])
			if err != nil {
				return m, err
			}
			return m, c.payload(&m, header, f[len(f)-1])
		default:
			return m, fmt.Errorf("the server sent %.100q", line)
		}
	}
}

// payload reads the header and the body of a message. A header is "NATS/1.0 404 No Messages", or
// without a status, and lines that matter to no test here.
func (c *nats) payload(m *natsMessage, header int, length []byte) error {
	n, err := number(length)
	if err != nil {
		return err
	}
	text, err := c.block(n + 2)
	if err == nil && header > n {
		err = fmt.Errorf("the server sent a header of %d bytes in %d", header, n)
	}
	if err != nil {
		return err
	}
	if f := bytes.Fields(text[:header]); len(f) > 1 && len(f[1]) == 3 {
		m.status = string(f[1])
	}
	m.body = text[header:n]
	return nil
}
