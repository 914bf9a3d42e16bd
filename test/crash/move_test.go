package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"tenaq/internal/testing/proof"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// A move task goes on after each death of the server, and in the end every message is in its
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
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) {
		wait(ctx, time.Duration(rng.Int64N(int64(m.alive))))
		switch task := m.task(ctx, from); *task.Status {
		case "RUNNING":
		case "COMPLETED":
			if got := task.ApproximateNumberOfMessagesMoved; got != int64(m.count) {
				m.t.Errorf("the task says that it moved %d messages, want %d", got, m.count)
			}
			m.wantLeft(from, 0)
			m.wantLeft(1-from, m.count)
			return killed
		default:
			m.t.Fatalf("the task is %s: %s", *task.Status, aws.ToString(task.FailureReason))
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
