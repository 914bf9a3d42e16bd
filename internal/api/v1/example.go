package v1

import (
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tenaq/internal/engine"
)

// The queues of the example, with which a newcomer sees what happens when a worker fails. [V1-26]
const (
	exampleQueue = "example-orders"
	exampleDead  = "example-orders-dlq"
)

// Bounds of the example: its worker tries an order three times, and ends after twelve receives at
// the latest, because other clients may take messages away from it.
const (
	exampleTries    = 3
	exampleReceives = 12
	exampleLate     = 3 // orders that come when the worker has ended
)

// An exampleMade is the answer to POST /v1/example.
type exampleMade struct {
	Queue       string `json:"queue"`
	DeadLetters string `json:"deadLetters" doc:"name of its dead-letter queue"`
	Sent        int    `json:"sent" doc:"messages"`
	Deleted     int    `json:"deleted" doc:"messages that the worker of the example has done"`
	Dead        int    `json:"dead" doc:"messages that it gave up, which are dead letters now"`
}

// An order is a message of the example.
type order struct {
	body        string
	class, text string         // why it fails; empty if the worker can do it
	last        engine.Verdict // with which the worker gives it up
}

// exampleOrders returns the orders of the example, the late ones last.
func exampleOrders() []order {
	orders := make([]order, 20)
	for i := range orders {
		number, place := 1001+i, strconv.Itoa(10115+i*37)
		total := fmt.Sprintf("%d.%02d", 9+i*37%90, i*29%100)
		o := &orders[i]
		switch i {
		case 2, 7, 12:
			o.last, o.class = engine.Exhausted, "Timeout"
			o.text = fmt.Sprintf("no answer to the payment of %s within 5 s", total)
		case 4, 10:
			o.last, o.class = engine.Poison, "InvalidAddress"
			place = place[:2] + "O" + place[3:]
			o.text = fmt.Sprintf("the postcode %q has a letter", place)
		}
		o.body = fmt.Sprintf(`{"order": %d, "customer": "customer-%d", "total": %q, "postcode": %q}`,
			number, 1+i*7%9, total, place)
		if i == 14 {
			o.last, o.class = engine.Poison, "SyntaxError"
			o.body, _, _ = strings.Cut(o.body, `, "postcode"`)
			o.text = fmt.Sprintf("the body ends at byte %d, within an object", len(o.body))
		}
	}
	return orders
}

// makeExample answers POST /v1/example: it makes two queues, sends messages, and plays a worker
// that fails with some of them. All of it goes through the operations of other clients. [V1-26]
func (c *call) makeExample(none) (made exampleMade, err error) {
	if err := c.allow(exampleQueue, "sqs:CreateQueue", "sqs:SendMessage", "sqs:ReceiveMessage",
		"sqs:DeleteMessage", "tenaq:Nack"); err != nil {
		return made, err
	}
	if err := c.allow(exampleDead, "sqs:CreateQueue"); err != nil {
		return made, err
	}
	select { // a second caller finds the queues of the first
	case c.making <- struct{}{}:
		defer func() { <-c.making }()
	case <-c.Done():
		return made, c.Err()
	}
	if err := c.noExample(); err != nil {
		return made, err
	}
	made = exampleMade{Queue: exampleQueue, DeadLetters: exampleDead}
	if err := c.do(&engine.CreateQueue{Queue: c.queue(exampleDead), NameSet: true,
		Attributes: map[string]string{"MessageRetentionPeriod": "1209600"}}); err != nil {
		return made, err
	}
	c.log(exampleQueue, "with its dead letters "+exampleDead)
	if err := c.fillExample(&made); err != nil {
		return made, unfinished(err)
	}
	return made, nil
}

// noExample refuses to make the example if a queue of it exists.
func (c *call) noExample() error {
	var found []string
	for _, name := range []string{exampleQueue, exampleDead} {
		err := c.do(&engine.GetQueueURL{Queue: c.queue(name), NameSet: true})
		refused, _ := errors.AsType[*engine.Error](err)
		switch {
		case err == nil:
			found = append(found, name)
		case refused == nil || refused.Code != engine.CodeNoQueue:
			return err
		}
	}
	if len(found) == 0 {
		return nil
	}
	return &Error{http.StatusConflict, string(engine.CodeQueueExists),
		"There is already a queue " + strings.Join(found, ", and a queue ") +
			". To make the example again, " + deleteFirst(found)}
}

// deleteFirst says what to do with queues that are in the way.
func deleteFirst(queues []string) string {
	return "delete " + strings.Join(queues, ", then ") +
		", wait 60 seconds, and try again: tenaq queue delete " + queues[0]
}

// unfinished adds to an error what to do with a part of the example.
func unfinished(err error) error {
	e := asError(err)
	return &Error{e.status, e.Code, e.Message + " The example is unfinished. If " + exampleQueue +
		" or " + exampleDead + " exists, " + deleteFirst([]string{exampleQueue, exampleDead})}
}

// fillExample makes the queue of the example beside the one for its dead letters, sends the
// messages, and lets a worker receive all but the late ones.
func (c *call) fillExample(made *exampleMade) error {
	look := &engine.GetQueueAttributes{Queue: c.queue(exampleDead), Names: []string{"QueueArn"}}
	if err := c.do(look); err != nil {
		return err
	}
	policy, err := json.Marshal(map[string]any{"maxReceiveCount": exampleTries,
		"deadLetterTargetArn": look.Attributes["QueueArn"]})
	if err != nil {
		return err
	}
	if err := c.do(&engine.CreateQueue{Queue: c.queue(exampleQueue), NameSet: true,
		Attributes: map[string]string{"RedrivePolicy": string(policy)}}); err != nil {
		return err
	}
	orders := exampleOrders()
	early := orders[:len(orders)-exampleLate]
	open := make(map[engine.MessageID]*order) // with which the worker is not done
	if err := c.sendOrders(early, made, open); err != nil {
		return err
	}
	for range exampleReceives {
		if len(open) == 0 {
			break
		}
		if err := c.workOnce(open, made); err != nil {
			return err
		}
	}
	return c.sendOrders(orders[len(early):], made, open)
}

// sendOrders sends orders, and adds each to open under the id of its message.
func (c *call) sendOrders(
	orders []order, made *exampleMade, open map[engine.MessageID]*order,
) error {
	for part := range slices.Chunk(orders, 10) {
		send := &engine.SendMessageBatch{Queue: c.queue(exampleQueue), Given: true}
		for i := range part {
			text := func(s string) engine.Text { return engine.Text{Value: s, Set: true} }
			send.Drafts = append(send.Drafts, engine.NewDraft(engine.Entry{
				ID: text(strconv.Itoa(i)), Body: text(part[i].body),
				BodyMD5: md5.Sum([]byte(part[i].body)), Sender: c.principal.UserID()}))
		}
		if err := c.do(send); err != nil {
			return err
		}
		for i := range send.Sent {
			if err := send.Sent[i].Err; err != nil {
				return err
			}
			open[send.Sent[i].ID] = &part[i]
			made.Sent++
		}
	}
	return nil
}

// workOnce receives orders as a worker does, deletes those that it can do, and gives the others
// back with a reason. It removes from open those that have left the queue.
func (c *call) workOnce(open map[engine.MessageID]*order, made *exampleMade) error {
	queue := c.queue(exampleQueue)
	received := &engine.ReceiveMessage{Queue: queue, Max: engine.Int{Value: 10, Set: true}}
	if err := c.do(received); err != nil {
		return err
	}
	done := &engine.DeleteMessageBatch{Queue: queue, Given: true}
	failed := &engine.Nack{Queue: queue}
	var doneIDs, failedIDs []engine.MessageID
	for i := range received.Messages {
		d := &received.Messages[i]
		handle := engine.Handle{Text: "example", Valid: true, Incarnation: received.Incarnation,
			Space: d.Space, Seq: d.Seq, Generation: d.Generation, Received: d.Received}
		switch o := open[d.ID]; {
		case o == nil: // another client has sent it
		case o.class == "":
			doneIDs = append(doneIDs, d.ID)
			done.Entries = append(done.Entries, engine.DeleteEntry{Handle: handle,
				ID: engine.Text{Value: strconv.Itoa(i), Set: true}})
		default:
			verdict := o.last
			if verdict == engine.Exhausted && d.Receives < exampleTries {
				verdict = engine.Retry
			}
			failedIDs = append(failedIDs, d.ID)
			failed.Entries = append(failed.Entries, engine.NackEntry{Handle: handle,
				Verdict: verdict, Class: o.class, Text: o.text})
		}
	}
	if len(doneIDs) > 0 {
		if err := c.do(done); err != nil {
			return err
		}
	}
	if len(failedIDs) > 0 {
		if err := c.do(failed); err != nil {
			return err
		}
	}
	for i, id := range doneIDs {
		if done.Outcomes[i] == nil {
			delete(open, id)
			made.Deleted++
		}
	}
	for i, id := range failedIDs {
		if failed.Outcomes[i] == nil && failed.Entries[i].Verdict != engine.Retry {
			delete(open, id)
			made.Dead++
		}
	}
	return nil
}
