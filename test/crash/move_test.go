package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/testing/proof"
	"tenaq/internal/work/v1client"
)

// A move task continues after each death of the server, and in the end every message is in its
// destination once. [MOVE-14]
//
// Two queues are each other's dead-letter queue, and tasks move everything from one to the other
// and back until the server has died often enough.
func TestKillDuringMove(t *testing.T) {
	for _, m := range []mover{
		{name: "as fast as possible", count: 6000, alive: 80 * time.Millisecond},
		{name: "FIFO, as fast as possible", suffix: ".fifo", count: 6000, alive: 80 * time.Millisecond},
		{name: "at a rate", count: 2000, rate: 500, alive: time.Second},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.seed = proof.Seed(t)
			m.rig = newRig(t, time.Second)
			m.run((kills() + 1) / 2)
		})
	}
}

// A mover is a run of the test.
type mover struct {
	*rig
	name, suffix string
	seed         uint64
	count        int // of messages
	rate         int32
	alive        time.Duration // at most, from one death to the next
	urls, arns   [2]string
}

const moveGroups = 20

func (m *mover) run(kills int) {
	m.create()
	m.fill()
	rng := rand.New(rand.NewPCG(m.seed, 0))
	at, killed, rounds := 0, 0, 0
	for ; killed < kills; at, rounds = 1-at, rounds+1 {
		killed += m.move(rng, at)
	}
	m.t.Logf("%d kills during %d moves of %d messages", killed, rounds, m.count)
	if rounds > 2*kills {
		m.t.Errorf("got %d kills in %d moves, so most were over before anything happened", killed, rounds)
	}
	m.take(at)
	m.must(m.Stop())
}

// A replay continues after each death of the server as well. It sends each message of the history
// once and says how many it sent. [REPLAY-1, REPLAY-2, REPLAY-7, TASK-9]
//
// Everything is received and deleted, and replays send it to the other queue, where it is received
// again, until the server has died often enough.
func TestKillDuringReplay(t *testing.T) {
	t.Parallel()
	m := mover{rig: newRig(t, time.Second), count: 1500, rate: 600, alive: 600 * time.Millisecond}
	rng := rand.New(rand.NewPCG(proof.Seed(t), 0))
	m.create()
	m.tag(m.urls[0], history)
	m.fill()
	m.take(0)
	v1 := v1client.New(m.api)
	killed, rounds := 0, 0
	for n := (kills() + 1) / 2; killed < n; rounds++ {
		var task struct {
			ID, State, Reason string
			Done              int64
		}
		m.must(v1.Post(t.Context(), "/tasks", map[string]any{"do": "replay", "queue": "left", "to": "right", "rate": m.rate}, &task))
		killed += m.through(rng, func() (state string, done int64, reason string) {
			m.must(v1.Get(t.Context(), "/tasks/"+task.ID, nil, &task))
			return task.State, task.Done, task.Reason
		})
		m.wantLeft(1, m.count)
		m.take(1)
	}
	t.Logf("%d kills during %d replays of %d messages", killed, rounds, m.count)
	m.must(m.Stop())
}

// create creates the two queues. Neither ever gives up a message that is received.
func (m *mover) create() {
	attributes := map[string]string{}
	if m.suffix != "" {
		attributes["FifoQueue"] = "true"
	}
	for i, name := range []string{"left", "right"} {
		m.urls[i], m.arns[i] = m.queue(name+m.suffix, attributes)
	}
	for i := range m.urls {
		_, err := m.api.SetQueueAttributes(m.t.Context(), &sqs.SetQueueAttributesInput{
			QueueUrl:   &m.urls[i],
			Attributes: map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":1000}`, m.arns[1-i])},
		})
		m.must(err)
	}
}

// fill sends all messages to the first queue.
func (m *mover) fill() {
	for n := 0; n < m.count; {
		in := &sqs.SendMessageBatchInput{QueueUrl: &m.urls[0]}
		for ; len(in.Entries) < 10 && n < m.count; n++ {
			id := aws.String(strconv.Itoa(n))
			e := types.SendMessageBatchRequestEntry{Id: id, MessageBody: id}
			if m.suffix != "" {
				e.MessageGroupId, e.MessageDeduplicationId = aws.String(strconv.Itoa(n%moveGroups)), id
			}
			in.Entries = append(in.Entries, e)
		}
		out, err := m.api.SendMessageBatch(m.t.Context(), in)
		m.must(err)
		if len(out.Failed) > 0 {
			m.t.Fatalf("send: %s", aws.ToString(out.Failed[0].Message))
		}
	}
}

// move moves everything out of one queue, kills the server until that is done, and returns how
// often.
func (m *mover) move(rng *rand.Rand, from int) (killed int) {
	ctx := m.t.Context()
	in := &sqs.StartMessageMoveTaskInput{SourceArn: &m.arns[from], DestinationArn: &m.arns[1-from]}
	if m.rate > 0 {
		in.MaxNumberOfMessagesPerSecond = &m.rate
	}
	_, err := m.api.StartMessageMoveTask(ctx, in)
	m.must(err)
	killed = m.through(rng, func() (state string, done int64, reason string) {
		task := m.task(ctx, from)
		return *task.Status, task.ApproximateNumberOfMessagesMoved, aws.ToString(task.FailureReason)
	})
	m.wantLeft(from, 0)
	m.wantLeft(1-from, m.count)
	return killed
}

// through kills the server until a task is completed, and returns how often. The task must have
// taken every message.
func (m *mover) through(rng *rand.Rand, task func() (state string, done int64, reason string)) (killed int) {
	ctx := m.t.Context()
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) {
		wait(ctx, time.Duration(rng.Int64N(int64(m.alive))))
		switch state, done, reason := task(); state {
		case "RUNNING":
		case "COMPLETED":
			if done != int64(m.count) {
				m.t.Errorf("the task says that it took %d messages, want %d", done, m.count)
			}
			return killed
		default:
			m.t.Fatalf("the task is %s: %s", state, reason)
		}
		m.must(m.Kill())
		killed++
		if rng.IntN(4) == 0 {
			killed++
			m.must(m.StartAndKill(time.Duration(rng.IntN(150)) * time.Millisecond))
		}
		m.must(m.start(ctx))
	}
	m.t.Fatal("the task did not complete within two minutes")
	return 0
}

// task returns the latest task of a queue.
func (m *mover) task(ctx context.Context, from int) types.ListMessageMoveTasksResultEntry {
	out, err := m.api.ListMessageMoveTasks(ctx, &sqs.ListMessageMoveTasksInput{SourceArn: &m.arns[from]})
	m.must(err)
	if len(out.Results) != 1 {
		m.t.Fatalf("got %d tasks, want 1", len(out.Results))
	}
	return out.Results[0]
}

func (m *mover) wantLeft(queue, want int) {
	m.t.Helper()
	if got := m.attribute(m.urls[queue], types.QueueAttributeNameApproximateNumberOfMessages); got != strconv.Itoa(want) {
		m.t.Errorf("got %s messages in %s after a move, want %d", got, m.urls[queue], want)
	}
}

// take receives all messages from a queue, which must be there once, as new ones, and in the order
// of their groups.
func (m *mover) take(from int) {
	ctx := m.t.Context()
	taken := make([]bool, m.count)
	last := map[string]int{}
	lost := 0 // messages in answers that never arrived: the client asked again, and they come back later
	for got, empty := 0, 0; got < m.count; {
		in := &sqs.ReceiveMessageInput{
			QueueUrl: &m.urls[from], MaxNumberOfMessages: 10, VisibilityTimeout: 15,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		}
		if m.suffix != "" {
			in.ReceiveRequestAttemptId = aws.String(fmt.Sprint("take-", got, "-", empty)) // asking again finds the same
		}
		out, err := m.api.ReceiveMessage(ctx, in)
		m.must(err)
		if r, ok := retry.GetAttemptResults(out.ResultMetadata); ok && len(r.Results) > 1 && m.suffix == "" {
			lost += 10 * (len(r.Results) - 1)
		}
		if len(out.Messages) == 0 {
			hidden := m.attribute(m.urls[from], types.QueueAttributeNameApproximateNumberOfMessagesNotVisible)
			if empty++; empty > 100 || lost == 0 {
				m.t.Fatalf("got %d messages, want %d; %s are in flight", got, m.count, hidden)
			}
			wait(ctx, 200*time.Millisecond)
			continue
		}
		del := &sqs.DeleteMessageBatchInput{QueueUrl: &m.urls[from]}
		for i, msg := range out.Messages {
			got++
			n, err := strconv.Atoi(*msg.Body)
			m.must(err)
			if taken[n] {
				m.t.Errorf("message %d is there twice", n)
			}
			taken[n] = true
			if count := msg.Attributes["ApproximateReceiveCount"]; count != "1" && lost > 0 {
				lost--
			} else if count != "1" {
				m.t.Errorf("message %d has receive count %s, want 1", n, count)
			}
			if g, ok := msg.Attributes["MessageGroupId"]; ok {
				if n < last[g] {
					m.t.Errorf("message %d of group %s came after %d", n, g, last[g])
				}
				last[g] = n
			}
			del.Entries = append(del.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: msg.ReceiptHandle})
		}
		deleted, err := m.api.DeleteMessageBatch(ctx, del)
		m.must(err)
		for _, f := range deleted.Failed {
			m.t.Errorf("delete: %s", aws.ToString(f.Message))
		}
	}
	for queue := range m.urls {
		m.wantLeft(queue, 0)
	}
}
