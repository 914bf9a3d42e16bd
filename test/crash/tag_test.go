package crash

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/testing/proof"
	"tenaq/internal/work/v1client"
)

// The promises of tags hold when the server is killed: a tick is sent once, a dead letter holds its
// group until it is back, a deduplication id is known, and neither the pause after a failed attempt
// nor a long delay gets shorter.
// [SCHED-4, SCHED-6, SCHED-7, HOLD-1, HOLD-3, EXT-17, EXT-18, EXT-24, EXT-28, EXT-29, EXT-30]
func TestKillTags(t *testing.T) {
	t.Parallel()
	seed := proof.Seed(t)
	r := newRig(t, time.Second)
	n := (kills() + 1) / 2
	k := &tagged{rig: r, v1: v1client.New(r.api)}
	scheduled, _ := r.queue("ticks", nil)
	r.tag(scheduled, map[string]string{"tenaq:schedule": "@every 1s", "tenaq:schedule.other": "@every 1s body=other"})
	k.since = time.Now()
	parts := []func(context.Context) error{k.holds, k.ids, k.pauses}

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() {
			for enough := false; !enough && ctx.Err() == nil; {
				enough = k.over() // what begins behind the last kill is the last
				if err := part(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	err := r.disturb(ctx, seed, n, nil)
	k.end()
	wg.Wait()
	r.must(errors.Join(err, context.Cause(ctx)))
	rounds := []int{k.held, k.known, k.paused, k.later}
	t.Logf("groups held, ids known, pauses, and delays: %d", rounds)
	for i, got := range rounds {
		if got == 0 {
			t.Errorf("got none of kind %d, so the run means nothing", i)
		}
	}
	k.ticks(t.Context(), scheduled)
	r.must(r.Stop())
}

// An answered is when a send was asked for and when its answer was there.
type answered struct{ from, to time.Time }

// A tagged is the queues of TestKillTags, with what their clients found.
type tagged struct {
	*rig
	v1   *v1client.Client
	mu   sync.Mutex
	done bool

	since                      time.Time // there are schedules
	round                      [3]int
	answers                    []answered
	held, known, paused, later int
}

func (k *tagged) over() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.done
}

func (k *tagged) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done = true
}

// insist repeats a request until there is an answer, or for 90 s, in which a server starts many
// times. The request may be carried out several times, so what a receive whose answer is lost has
// taken must come again within that time.
func insist[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for end := time.Now().Add(90 * time.Second); ; wait(ctx, 20*time.Millisecond) {
		out, err := ask()
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return out, err
		}
	}
}

// create creates a queue, however often it takes.
func (k *tagged) create(ctx context.Context, name string, attributes, tags map[string]string) (url, arn string, err error) {
	out, err := insist(ctx, func() (*sqs.CreateQueueOutput, error) {
		return k.api.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes, Tags: tags})
	})
	if err != nil {
		return "", "", err
	}
	return *out.QueueUrl, "arn:aws:sqs:us-east-1:000000000000:" + name, nil
}

func (k *tagged) send(ctx context.Context, in *sqs.SendMessageInput) (id string, err error) {
	out, err := insist(ctx, func() (*sqs.SendMessageOutput, error) { return k.api.SendMessage(ctx, in) })
	if err != nil {
		return "", err
	}
	return *out.MessageId, nil
}

// next waits for the next messages.
func (k *tagged) next(ctx context.Context, url string, visibility int32) (types.Message, error) {
	return insist(ctx, func() (m types.Message, err error) {
		out, err := k.receive(ctx, url, visibility, 1)
		if err == nil && len(out) == 0 {
			err = errors.New("nothing to receive in " + url)
		}
		if err != nil {
			return m, err
		}
		return out[0], nil
	})
}

func (k *tagged) receive(ctx context.Context, url string, visibility, most int32) ([]types.Message, error) {
	out, err := k.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &url, VisibilityTimeout: visibility, MaxNumberOfMessages: most, WaitTimeSeconds: 1,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		MessageAttributeNames:       []string{"All"},
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

// holds gives the first message of a group back as poison, checks that nothing of the group comes
// while other groups do, and that the group comes in its order when the letter is back.
func (k *tagged) holds(ctx context.Context) error {
	k.round[0]++
	name := fmt.Sprint("orders-", k.round[0])
	fifo := map[string]string{"FifoQueue": "true"}
	dead, deadARN, err := k.create(ctx, name+"-dead.fifo", fifo, nil)
	if err != nil {
		return err
	}
	url, arn, err := k.create(ctx, name+".fifo", map[string]string{
		"FifoQueue":     "true",
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":1000}`, deadARN),
	}, map[string]string{"tenaq:fifo-on-dead-letter": "hold-group"})
	if err != nil {
		return err
	}
	send := func(group, body string) error {
		_, err := k.send(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body, MessageGroupId: &group, MessageDeduplicationId: &body})
		return err
	}
	for i := range 3 {
		if err := send("held", fmt.Sprint("held-", i)); err != nil {
			return err
		}
	}
	if err := k.poison(ctx, url, dead, name+".fifo"); err != nil {
		return err
	}
	for i := range 4 { // while the server dies
		body := fmt.Sprint("free-", i)
		if err := errors.Join(send("free", body), send("held", fmt.Sprint("held-", i+3))); err != nil {
			return err
		}
		if err := k.take(ctx, url, body); err != nil {
			return fmt.Errorf("while a dead letter holds its group: %w", err)
		}
	}
	if err := k.redrive(ctx, deadARN, arn, dead); err != nil {
		return err
	}
	for i := range 7 {
		if err := k.take(ctx, url, fmt.Sprint("held-", i)); err != nil {
			return fmt.Errorf("after the dead letter is back: %w", err)
		}
	}
	k.held++
	return nil
}

// poison makes the only visible message a dead letter.
func (k *tagged) poison(ctx context.Context, url, dead, name string) error {
	_, err := insist(ctx, func() (none struct{}, err error) {
		if n, err := k.count(ctx, dead); err != nil || n == 1 {
			return none, err // an answer was lost
		}
		got, err := k.receive(ctx, url, 30, 1)
		if err != nil || len(got) == 0 {
			return none, errors.Join(err, errors.New("nothing to give back"))
		}
		var out struct{ Outcomes []struct{ Done bool } }
		err = k.v1.Post(ctx, "/queues/"+name+"/nack", map[string]any{
			"entries": []map[string]any{{"receiptHandle": *got[0].ReceiptHandle, "verdict": "poison"}},
		}, &out)
		if err == nil && !out.Outcomes[0].Done {
			err = errors.New("the nack is refused")
		}
		return none, err
	})
	return err
}

// redrive moves the only dead letter back.
func (k *tagged) redrive(ctx context.Context, from, to, dead string) error {
	_, err := insist(ctx, func() (none struct{}, err error) {
		if n, err := k.count(ctx, dead); err != nil || n == 0 {
			return none, err
		}
		// One that is under way refuses another.
		_, err = k.api.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{SourceArn: &from, DestinationArn: &to})
		return none, errors.Join(err, errors.New("the dead letter is not back yet"))
	})
	return err
}

// count returns how many messages a queue has.
func (k *tagged) count(ctx context.Context, url string) (n int, err error) {
	out, err := k.api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return 0, err
	}
	for _, name := range []string{"", "NotVisible", "Delayed"} {
		i, err := strconv.Atoi(out.Attributes["ApproximateNumberOfMessages"+name])
		if err != nil {
			return 0, err
		}
		n += i
	}
	return n, nil
}

// take receives and deletes the next message, which must be the one with the body.
func (k *tagged) take(ctx context.Context, url, body string) error {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		m, err := k.next(ctx, url, 30)
		if err != nil {
			return err
		}
		if *m.Body != body {
			return fmt.Errorf("%s delivers %s, want %s", url, *m.Body, body)
		}
		before, err := insist(ctx, func() (int, error) { return k.count(ctx, url) })
		if err != nil {
			return err
		}
		_, err = k.api.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle})
		if err == nil {
			return nil
		}
		// It is unknown whether it is deleted, or the handle has expired.
		after, err := insist(ctx, func() (int, error) { return k.count(ctx, url) })
		if err != nil || after < before {
			return err
		}
	}
	return fmt.Errorf("%s: got no delete of %s within two minutes", url, body)
}

// ids sends with an id that was used before: the message is the first one.
func (k *tagged) ids(ctx context.Context) error {
	k.round[1]++
	url, _, err := k.create(ctx, "window", nil, map[string]string{"tenaq:dedup-window": "1d"})
	if err != nil {
		return err
	}
	send := func(id string) (string, error) {
		from := time.Now()
		id, err := k.send(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"),
			MessageAttributes: map[string]types.MessageAttributeValue{"tenaq.dedup-id": {DataType: aws.String("String"), StringValue: &id}}})
		k.answers = append(k.answers, answered{from, time.Now()})
		return id, err
	}
	first, err := send(fmt.Sprint("id-", k.round[1]))
	if err != nil {
		return err
	}
	for old := k.round[1]; old > 0; old = old * 2 / 3 {
		again, err := send(fmt.Sprint("id-", old))
		if err != nil {
			return err
		}
		if old == k.round[1] && again != first {
			return fmt.Errorf("id-%d: got the message %s, want %s of the send before", old, again, first)
		}
	}
	n, err := insist(ctx, func() (int, error) { return k.count(ctx, url) })
	if err == nil && n != k.round[1] {
		err = fmt.Errorf("got %d messages of %d deduplication ids", n, k.round[1])
	}
	k.known++
	return err
}

// pauses lets an attempt fail, and sends a message with a long delay and one with a short delay. No
// message may come before its time, by the clock of this machine, which is also the server's.
func (k *tagged) pauses(ctx context.Context) error {
	const pause, delay = 2 * time.Second, 3 * time.Second
	const slack = 10 * time.Millisecond // the server counts milliseconds, and this clock may be slewed
	k.round[2]++
	url, _, err := k.create(ctx, fmt.Sprint("jobs-", k.round[2]), nil, map[string]string{"tenaq:retry": "2s", "tenaq:delay-max": "2d"})
	if err != nil {
		return err
	}
	send := func(body, delay string) (err error) {
		_, err = k.send(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body,
			MessageAttributes: map[string]types.MessageAttributeValue{"tenaq.delay": {DataType: aws.String("String"), StringValue: &delay}}})
		return err
	}
	if err := send("job", "0s"); err != nil {
		return err
	}
	failed, attempts := time.Now(), 0
	for ok := false; !ok; {
		m, err := k.next(ctx, url, 30)
		if err != nil {
			return err
		}
		failed = time.Now()
		if attempts, err = strconv.Atoi(m.Attributes["ApproximateReceiveCount"]); err != nil {
			return err
		}
		_, err = k.api.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle})
		ok = err == nil // otherwise it comes again, whenever that is
	}
	sent := time.Now()
	if err := errors.Join(send("soon", delay.String()), send("tomorrow", "1d")); err != nil {
		return err
	}
	for seen := map[string]bool{}; !seen["job"] || !seen["soon"]; {
		m, err := k.next(ctx, url, 30)
		if err != nil {
			return err
		}
		at := time.Now()
		seen[*m.Body] = true
		switch early := at.Sub(failed) < pause-slack; *m.Body {
		case "job":
			if early && m.Attributes["ApproximateReceiveCount"] == strconv.Itoa(attempts+1) {
				return fmt.Errorf("the message is there %v after its failure, want a pause of %v", at.Sub(failed), pause)
			}
		case "soon":
			if at.Sub(sent) < delay-slack {
				return fmt.Errorf("the message is there %v after its send, want a delay of %v", at.Sub(sent), delay)
			}
		default:
			return fmt.Errorf("got the message %s, which is delayed by a day", *m.Body)
		}
	}
	waiting := k.attributeOf(ctx, url, types.QueueAttributeNameApproximateNumberOfMessagesDelayed)
	if n, _ := strconv.Atoi(waiting); n < 1 {
		return fmt.Errorf("got %s messages that are delayed by a day, want one", waiting)
	}
	k.paused++
	k.later++
	return nil
}

func (k *tagged) attributeOf(ctx context.Context, url string, name types.QueueAttributeName) string {
	value, _ := insist(ctx, func() (string, error) {
		out, err := k.api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{name}})
		if err != nil {
			return "", err
		}
		return out.Attributes[string(name)], nil
	})
	return value
}

// ticks receives everything that schedules sent. Each schedule has one message for a tick, and each
// message is for the last tick before it was sent. A tick can be missing only if the server could
// not send before the next one, so not if it answered other sends meanwhile.
func (k *tagged) ticks(ctx context.Context, url string) {
	const undisturbed = 3
	seen, sent := make(map[string]string), map[string]int{}
	for calm := 0; calm < undisturbed; {
		got, err := insist(ctx, func() ([]types.Message, error) { return k.receive(ctx, url, 3600, 10) })
		k.must(err)
		for _, m := range got {
			name, text := *m.MessageAttributes["tenaq.schedule"].StringValue, *m.MessageAttributes["tenaq.tick"].StringValue
			tick, err := time.Parse(time.RFC3339, text)
			k.must(err)
			at, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64)
			k.must(err)
			if late := time.UnixMilli(at).Sub(tick); late < 0 || late >= time.Second {
				k.t.Errorf("the message for %s of %s was sent %v behind it, want the last tick", text, name, late)
			}
			key := name + " " + text
			if id, twice := seen[key]; twice && id != *m.MessageId {
				k.t.Errorf("schedule %s sent two messages for %s", name, text)
			}
			seen[key] = *m.MessageId
			sent[name]++
		}
		if len(got) < 10 {
			calm++
		}
	}
	k.t.Logf("ticks sent: %v; answered sends: %d", sent, len(k.answers))
	const start, enough = 200 * time.Millisecond, 3
	able := map[time.Time]int{}
	for _, a := range k.answers {
		if tick := a.from.Truncate(time.Second); a.from.Sub(tick) > start && a.to.Before(tick.Add(time.Second)) {
			able[tick]++
		}
	}
	for tick, answers := range able {
		for name := range sent {
			text := tick.UTC().Format(time.RFC3339)
			if seen[name+" "+text] == "" && answers >= enough && tick.After(k.since) {
				k.t.Errorf("schedule %s sent nothing for %s, when %d other sends were answered", name, text, answers)
			}
		}
	}
	if len(sent) != 2 || min(sent["default"], sent["other"]) < 3 {
		k.t.Errorf("got %v ticks, too few to mean anything", sent)
	}
}
