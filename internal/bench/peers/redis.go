package peers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"tenaq/internal/bench"
)

// startRedis starts Redis with a log that is forced to disk before each answer.
func startRedis(ctx context.Context, at *place) (server, error) {
	path, err := program("redis-server")
	if err != nil {
		return nil, err
	}
	p, err := start(at, nil, path, "--bind", "127.0.0.1", "--port", at.port, "--dir", at.dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "")
	if err != nil {
		return nil, err
	}
	once := func(ctx context.Context, args ...string) error {
		c, err := dialRedis(ctx, at.port, "")
		if err != nil {
			return err
		}
		defer c.close()
		c.command(args...)
		if err := c.flush(); err != nil {
			return err
		}
		_, err = c.head()
		return err
	}
	return &broker{p,
			func(ctx context.Context, queue string) error {
				return once(ctx, "XGROUP", "CREATE", queue, "g", "$", "MKSTREAM")
			},
			func(queue string) error { return once(context.Background(), "UNLINK", queue) },
			func(ctx context.Context, queue string, _ *bench.Work) (client, error) {
				return dialRedis(ctx, at.port, queue)
			}},
		p.ready(ctx, func(ctx context.Context) error { return once(ctx, "PING") })
}

// A redis is a producer and a consumer of a stream with a group. It deletes what it has
// acknowledged, as a queue does. The commands of a batch are pipelined.
type redis struct {
	*wire
	queue, name string
	ids         []string
}

var consumers atomic.Int64

func dialRedis(ctx context.Context, port, queue string) (*redis, error) {
	w, err := dialWire(ctx, port)
	return &redis{w, queue, "c" + strconv.FormatInt(consumers.Add(1), 10), nil}, err
}

// command collects a command.
func (c *redis) command(args ...string) {
	c.out = strconv.AppendInt(append(c.out, '*'), int64(len(args)), 10)
	c.out = append(c.out, "\r\n"...)
	for _, arg := range args {
		c.out = strconv.AppendInt(append(c.out, '$'), int64(len(arg)), 10)
		c.out = append(c.out, "\r\n"...)
		c.out = append(append(c.out, arg...), "\r\n"...)
	}
}

func (c *redis) send(bodies []string) error {
	for _, body := range bodies {
		c.command("XADD", c.queue, "*", "b", body)
	}
	if err := c.flush(); err != nil {
		return err
	}
	for range bodies {
		if _, err := c.text(); err != nil {
			return err
		}
	}
	return nil
}

func (c *redis) consume(n int, _ time.Time) (int, error) {
	c.command("XREADGROUP", "GROUP", "g", c.name, "COUNT", strconv.Itoa(n), "STREAMS", c.queue, ">")
	if err := c.flush(); err != nil {
		return 0, err
	}
	if err := c.entries(); err != nil || len(c.ids) == 0 {
		return 0, err
	}
	c.command(append([]string{"XACK", c.queue, "g"}, c.ids...)...)
	c.command(append([]string{"XDEL", c.queue}, c.ids...)...)
	if err := c.flush(); err != nil {
		return 0, err
	}
	for range 2 {
		done, err := c.head()
		if err == nil && done != len(c.ids) {
			err = fmt.Errorf("the server deleted %d of %d entries", done, len(c.ids))
		}
		if err != nil {
			return 0, err
		}
	}
	return len(c.ids), nil
}

// entries reads the ids of the entries of one stream: an array of streams, each with its name and
// an array of entries, each with its id and an array of fields and values. The array is nil when
// there are none.
func (c *redis) entries() error {
	c.ids = c.ids[:0]
	if n, err := c.head(); err != nil || n <= 0 {
		return err
	}
	if _, err := c.head(); err != nil {
		return err
	}
	if _, err := c.text(); err != nil {
		return err
	}
	n, err := c.head()
	for ; n > 0 && err == nil; n-- {
		if _, err = c.head(); err != nil {
			break
		}
		var id []byte
		if id, err = c.text(); err != nil {
			break
		}
		c.ids = append(c.ids, string(id))
		var fields int
		fields, err = c.head()
		for ; fields > 0 && err == nil; fields-- {
			_, err = c.text()
		}
	}
	return err
}

// head reads the first line of an answer: the length of an array or a text, or a number.
func (c *redis) head() (int, error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	switch {
	case len(line) == 0:
		return 0, errors.New("the server sent an empty line")
	case line[0] == '-':
		return 0, fmt.Errorf("the server refused: %s", line[1:])
	case line[0] == '+':
		return 0, nil
	}
	return number(line[1:])
}

// text reads a text, valid until the next read.
func (c *redis) text() (text []byte, err error) {
	n, err := c.head()
	if err != nil || n < 0 {
		return nil, err
	}
	if text, err = c.r.Peek(n + 2); err != nil {
		return nil, err
	}
	return text[:n], c.skip(n + 2)
}
