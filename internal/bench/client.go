package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// A client is one of the connections of a workload, with the requests that it makes.
type client struct {
	*conn
	w       *working
	tally   Tally
	sends   request
	receive request
	deletes request

	latency *latencies
	told    func(action string, answer []byte) // gets each answer, if set
}

func (w *working) client(ctx context.Context) (*client, error) {
	c := &client{w: w}
	var err error
	if c.conn, err = dial(ctx, w.Endpoint.URL); err != nil {
		return nil, err
	}
	c.sends = request{endpoint: &w.Endpoint, action: "SendMessage", watched: true}
	c.receive = request{endpoint: &w.Endpoint, action: "ReceiveMessage", watched: true}
	c.deletes = request{endpoint: &w.Endpoint, action: "DeleteMessage", watched: true}
	if w.Batch > 1 {
		c.deletes.action += "Batch"
	}
	c.receive.set(`{"QueueUrl":%q,"MaxNumberOfMessages":%d}`, w.url, w.Batch)
	return c, nil
}

// throttledPause is how long a client pauses after a refusal for overload.
const throttledPause = 10 * time.Millisecond

// work does steps until the round is over.
func (c *client) work(ctx context.Context, p *pace) error {
	if err := c.c.SetDeadline(p.ends.Add(answerMax)); err != nil {
		return err
	}
	for {
		due, ok := p.wait(ctx)
		if !ok {
			return nil
		}
		refused := c.tally.Throttled
		if err := c.step(ctx); err != nil {
			if ctx.Err() != nil {
				return nil // the reason is known
			}
			return err
		}
		if c.tally.Throttled > refused {
			time.Sleep(throttledPause)
			continue
		}
		c.tally.Steps++
		c.latency.add(time.Since(due))
	}
}

func (c *client) step(ctx context.Context) error {
	if c.w.Kind != Receive {
		if sent, err := c.send(ctx, c.w.Batch); err != nil || !sent {
			return err
		}
	}
	if c.w.Kind == Send {
		c.tally.Messages += int64(c.w.Batch)
		return nil
	}
	return c.consume(ctx)
}

// send sends some messages in one request. It reports false if they were refused for overload.
func (c *client) send(ctx context.Context, n int) (sent bool, err error) {
	r := &c.sends
	switch {
	case n == 1 && c.w.Groups == 0:
		if len(r.body) == 0 || r.action != "SendMessage" || c.w.Random {
			r.set(`{"QueueUrl":"%s","MessageBody":"%s"}`, c.w.url, c.w.body())
		}
		r.action = "SendMessage"
	case n == 1:
		r.action = "SendMessage"
		r.set(`{"QueueUrl":%q,%s}`, c.w.url, c.w.entry())
	default:
		r.action = "SendMessageBatch"
		r.bytes = r.bytes[:0]
		r.body = fmt.Appendf(r.body[:0], `{"QueueUrl":%q,"Entries":[`, c.w.url)
		for i := range n {
			if i > 0 {
				r.body = append(r.body, ',')
			}
			r.body = fmt.Appendf(r.body, `{"Id":"%d",%s}`, i, c.w.entry())
		}
		r.body = append(r.body, "]}"...)
	}
	answer, err := c.ask(ctx, r)
	return answer != nil, err
}

// body returns the next body.
func (w *working) body() string {
	if w.bodies != nil {
		return w.bodies.Next()
	}
	return w.text
}

// entry returns the part of a request that describes the next message.
func (w *working) entry() string {
	if w.Groups == 0 {
		return fmt.Sprintf(`"MessageBody":"%s"`, w.body())
	}
	n := w.sent.Add(1)
	return fmt.Sprintf(`"MessageBody":"%s","MessageGroupId":"g%d","MessageDeduplicationId":"%s-%d"`, w.body(), n%int64(w.Groups), w.unique, n)
}

func (c *client) consume(ctx context.Context) error {
	answer, err := c.ask(ctx, &c.receive)
	if err != nil || answer == nil {
		return err
	}
	handles := handlesOf(answer)
	if len(handles) == 0 {
		c.tally.Empty++ // another client was quicker, or every group is locked
		return nil
	}
	r := &c.deletes
	if c.w.Batch == 1 {
		r.set(`{"QueueUrl":%q,"ReceiptHandle":"%s"}`, c.w.url, handles[0])
	} else {
		r.bytes = r.bytes[:0]
		r.body = fmt.Appendf(r.body[:0], `{"QueueUrl":%q,"Entries":[`, c.w.url)
		for i, h := range handles {
			if i > 0 {
				r.body = append(r.body, ',')
			}
			r.body = fmt.Appendf(r.body, `{"Id":"%d","ReceiptHandle":"%s"}`, i, h)
		}
		r.body = append(r.body, "]}"...)
	}
	n := len(handles)
	if answer, err = c.ask(ctx, r); err == nil && answer != nil {
		c.tally.Messages += int64(n)
	}
	return err
}

// handlesOf returns the receipt handles of a receive, which are parts of its answer.
func handlesOf(answer []byte) (handles [][]byte) {
	const name = `"ReceiptHandle":"`
	for {
		_, rest, ok := bytes.Cut(answer, []byte(name))
		if !ok {
			return handles
		}
		var handle []byte
		handle, answer, _ = bytes.Cut(rest, []byte{'"'})
		handles = append(handles, bytes.Clone(handle))
	}
}

// ask makes a request and counts it. The answer is nil if it was refused for overload.
func (c *client) ask(ctx context.Context, r *request) ([]byte, error) {
	answer, err := c.conn.ask(ctx, r)
	c.tally.Requests++
	switch {
	case err == errThrottled:
		c.tally.Throttled++
		if !bytes.Contains(answer, []byte("RequestThrottled")) {
			c.tally.Unnamed++
		}
		return nil, nil
	case err == nil && c.told != nil:
		c.told(r.action, answer)
	}
	return answer, err
}

// Call makes one request that has to succeed.
func Call(ctx context.Context, e Endpoint, action, body string) (answer []byte, err error) {
	c, err := dial(ctx, e.URL)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.ask(ctx, &request{endpoint: &e, action: action, body: []byte(body)})
}

func member(answer []byte, name string) (text string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(answer, &members) != nil {
		return ""
	}
	_ = json.Unmarshal(members[name], &text)
	return text
}
