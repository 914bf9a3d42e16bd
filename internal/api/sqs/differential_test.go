package sqs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/testing/proof"
)

// Two servers are asked the same things, one in JSON and one in the Query protocol, and answer the
// same: the same members with the same values, or the same error. The requests are random, legal or
// not, of every action. [XML-3 to XML-10, XML-15, XML-17, XML-18, XML-22, XML-23]
func TestBothProtocols(t *testing.T) {
	seed, steps := proof.Seed(t), proof.Count(150, 600, 600, 20_000)
	inBubble(t, settings{}, func(t *testing.T, _ *world) {
		s := new(script)
		s.begin(settings{hosts: []string{}, engine: engine.Config{InFlightMax: 40, PurgeInterval: 60_000, RecreateDelay: 2_000}})
		defer func() { s.stop(); time.Sleep(time.Second) }()
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), masks: s.masks}
		codes := map[string]int{}
		for step := range steps {
			action, body := g.request()
			conns := [2]net.Conn{s.listener.dial(), s.twin.listener.dial()}
			p := s.settle(t, s.askOn(t, conns, action, "", body))
			conns[0].Close()
			conns[1].Close()
			if p.form == "" {
				t.Errorf("step %d: %s %s was not asked in both protocols", step, action, body)
			}
			codes[p.json.query]++
			if t.Failed() {
				t.Fatalf("step %d: %s %s", step, action, body)
			}
			time.Sleep(time.Duration(g.IntN(4)) * time.Second)
		}
		// A test in which everything is refused, or nothing, finds little.
		if n := codes[""]; steps >= 300 && (n < steps/5 || n > steps*9/10 || len(codes) < 8) {
			t.Errorf("%d of %d succeeded, with the codes %v", n, steps, codes)
		}
	})
}

// A generator makes requests. Queues, handles and names come from small sets, so that requests
// meet.
type generator struct {
	*rand.Rand
	masks *masks
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// object writes members as JSON, each with its chance in tenths.
func (g *generator) object(members ...member) string {
	var parts []string
	for _, m := range members {
		if g.IntN(10) < m.chance {
			parts = append(parts, fmt.Sprintf("%q:%s", m.name, m.value()))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

type member struct {
	name   string
	chance int
	value  func() string
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// one returns one of the texts, quoted.
func (g *generator) one(texts ...string) func() string {
	return func() string { return quoted(pick(g, texts...)) }
}

// number returns one of the numbers.
func (g *generator) number(numbers ...int) func() string {
	return func() string { return fmt.Sprint(pick(g, numbers...)) }
}

func (g *generator) list(low, high int, element func(i int) string) func() string {
	return func() string {
		var parts []string
		for i := range low + g.IntN(high-low+1) {
			parts = append(parts, element(i))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
}

// texts is a list of texts.
func (g *generator) texts(from ...string) func() string {
	return g.list(0, 3, func(int) string { return quoted(pick(g, from...)) })
}

// values is a map from texts to texts.
func (g *generator) values(names, values []string) func() string {
	return func() string {
		var parts []string
		for _, i := range g.Perm(len(names))[:1+g.IntN(3)] {
			parts = append(parts, quoted(names[i])+":"+quoted(pick(g, values...)))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
}

// text returns characters that are hard for one protocol or the other.
func (g *generator) text() string {
	var b strings.Builder
	for range g.IntN(8) {
		b.WriteString(pick(g, "a", "ö", "€", "\U0001F600", "\"", "&quot;", "<b>", "]]>", "\r", "\n", "\r\n", "\t", "+", "%2B", "&", "=", ";",
			"\u2028", "\u0085", "\x7f", "\uFFFD", " ", "\\", "/", "#"))
	}
	if g.IntN(20) == 0 {
		b.WriteString(pick(g, "\x01", "\uFFFF", "\x00"))
	}
	return b.String()
}

func (g *generator) queue() string {
	if g.IntN(12) == 0 {
		return quoted(pick(g, "nowhere", "", "0/1/2", g.text()))
	}
	return quoted(pick(g, "q", "q", "dead", "jobs.fifo", "http://localhost:9324/000000000000/q"))
}

// handle is mostly a handle from an earlier answer, of any queue.
func (g *generator) handle() string {
	if n := g.masks.counts["r"]; n > 0 && g.IntN(8) > 0 {
		return fmt.Sprintf(`"r%d"`, n-g.IntN(min(n, 6)))
	}
	return quoted(pick(g, "", "AQEB", g.text()))
}

func (g *generator) attributes() string {
	var parts []string
	for _, i := range g.Perm(5)[:1+g.IntN(3)] {
		parts = append(parts, quoted([]string{"k", "ö.x", "AWS.no", "b", "n"}[i])+":"+g.object(
			member{"DataType", 9, g.one("String", "String.label", "Number", "Binary", "Nonsense", "")},
			member{"StringValue", 7, func() string { return pick(g, quoted(g.text()), `"12"`, `"x"`) }},
			member{"BinaryValue", 3, g.one("AAH/", "", "/+8=")},
			member{"StringListValues", 1, g.texts("x")},
		))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (g *generator) outgoing(first ...member) string {
	return g.object(append(first,
		member{"MessageBody", 9, func() string { return quoted("m" + g.text()) }},
		member{"DelaySeconds", 2, g.number(0, 1, 900, 901, -1)},
		member{"MessageAttributes", 3, g.attributes},
		member{"MessageSystemAttributes", 1, g.attributes},
		member{"MessageGroupId", 4, func() string { return pick(g, `"g"`, `"h"`, quoted(g.text())) }},
		member{"MessageDeduplicationId", 4, func() string { return quoted(fmt.Sprint("d", g.IntN(50))) }},
	)...)
}

// entries are those of a batch, sometimes too many, or with ids that are bad.
func (g *generator) entries(entry func(id member) string) func() string {
	return g.list(0, pick(g, 3, 4, 11), func(i int) string {
		return entry(member{"Id", 10, g.one(fmt.Sprint("e", i), fmt.Sprint("f", i), fmt.Sprint("g", i), fmt.Sprint("h", i/2+g.IntN(20)))})
	})
}

const arn = "arn:aws:sqs:us-east-1:000000000000:"

// request returns a random request.
func (g *generator) request() (action, body string) {
	queue := member{"QueueUrl", 10, g.queue}
	handle := member{"ReceiptHandle", 9, g.handle}
	timeout := member{"VisibilityTimeout", 8, g.number(0, 1, 5, 43200, 43201, -1)}
	names := []string{"VisibilityTimeout", "DelaySeconds", "Policy", "FifoQueue", "RedrivePolicy", "MaximumMessageSize", "Nonsense"}
	values := []string{"0", "2", "true", "", "2048", "<x>", `{"deadLetterTargetArn":"` + arn + `dead","maxReceiveCount":"2"}`}
	keys, words := []string{"team", "env", "aws:x", "ö", ""}, []string{"", "a b", "1+1", "ü", "<x>"}
	attributes := g.texts("All", "QueueArn", "SenderId", "ApproximateReceiveCount", "SentTimestamp", "VisibilityTimeout", "Nonsense")
	system := g.texts("All", "SenderId", "ApproximateReceiveCount", "SentTimestamp", "MessageGroupId", "Nonsense")
	source := member{"SourceArn", 10, g.one(arn+"dead", arn+"dead", arn+"q", arn+"nowhere", "nonsense")}
	switch g.IntN(30) {
	case 0, 1:
		return "CreateQueue", pick(g, `{"QueueName":"q"}`, `{"QueueName":"dead"}`, `{"QueueName":"jobs.fifo","Attributes":{"FifoQueue":"true"}}`)
	case 2:
		return "CreateQueue", g.object(member{"QueueName", 9, g.one("q", "dead", "jobs.fifo", "or ders", "")},
			member{"Attributes", 6, g.values(names, values)}, member{"tags", 4, g.values(keys, words)})
	case 3:
		return pick(g, "ListQueueTags", "ListQueueTags", "PurgeQueue"), g.object(queue)
	case 4:
		return pick(g, "ListQueueTags", "ListQueueTags", "ListQueueTags", "DeleteQueue"), g.object(queue)
	case 5:
		return "GetQueueUrl", g.object(member{"QueueName", 9, g.one("q", "nowhere", "", "a<b")},
			member{"QueueOwnerAWSAccountId", 3, g.one("000000000000", "000000000001", "x")})
	case 6:
		return "GetQueueAttributes", g.object(queue, member{"AttributeNames", 8, attributes})
	case 7:
		return "SetQueueAttributes", g.object(queue, member{"Attributes", 9, g.values(names, values)})
	case 8:
		return "ListQueues", g.object(member{"QueueNamePrefix", 4, g.one("", "q", "d", "x")}, member{"MaxResults", 5, g.number(0, 1, 2, 1000, 1001)},
			member{"NextToken", 1, g.one("", "nonsense")})
	case 9:
		return "ListDeadLetterSourceQueues", g.object(queue, member{"MaxResults", 5, g.number(0, 1, 1000)}, member{"NextToken", 1, g.one("nonsense")})
	case 10:
		return "TagQueue", g.object(queue, member{"Tags", 9, g.values(keys, words)})
	case 11:
		return "UntagQueue", g.object(queue, member{"TagKeys", 9, g.texts("team", "env", "")})
	case 12:
		return "AddPermission", g.object(queue, member{"Label", 9, g.one("l", "")}, member{"AWSAccountIds", 9, g.texts("111122223333")},
			member{"Actions", 9, g.texts("SendMessage", "*")})
	case 13:
		return "RemovePermission", g.object(queue, member{"Label", 9, g.one("l", "")})
	case 14:
		return "StartMessageMoveTask", g.object(source, member{"DestinationArn", 3, g.one(arn+"q", arn+"nowhere")},
			member{"MaxNumberOfMessagesPerSecond", 5, g.number(0, 1, 500, 501)})
	case 15:
		return "ListMessageMoveTasks", g.object(source, member{"MaxResults", 5, g.number(0, 1, 10, 11)})
	case 16:
		return "CancelMessageMoveTask", g.object(member{"TaskHandle", 9, g.one("nonsense", "t1", "t2", "t3", "")})
	case 17, 18, 19:
		return "SendMessage", g.outgoing(queue)
	case 20, 21:
		return "SendMessageBatch", g.object(queue, member{"Entries", 10, g.entries(func(id member) string { return g.outgoing(id) })})
	case 22:
		return "DeleteMessage", g.object(queue, handle)
	case 23:
		return "DeleteMessageBatch", g.object(queue, member{"Entries", 10, g.entries(func(id member) string { return g.object(id, handle) })})
	case 24:
		return "ChangeMessageVisibility", g.object(queue, handle, timeout)
	case 25:
		return "ChangeMessageVisibilityBatch", g.object(queue,
			member{"Entries", 10, g.entries(func(id member) string { return g.object(id, handle, timeout) })})
	}
	return "ReceiveMessage", g.object(queue, member{"MaxNumberOfMessages", 7, g.number(1, 2, 10, 10, 0, 11)},
		member{"VisibilityTimeout", 4, g.number(0, 1, 5, 43201)}, member{"WaitTimeSeconds", 2, g.number(0, 1, 20, 21)},
		member{"AttributeNames", 4, system}, member{"MessageSystemAttributeNames", 4, system},
		member{"MessageAttributeNames", 5, g.texts("All", "k", "ö.*", "..foo")}, member{"ReceiveRequestAttemptId", 1, g.one("a1", "a2", "")})
}
