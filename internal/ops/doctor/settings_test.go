package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/cli"
)

// testQueue returns a queue with which all is well, changed by pairs of attributes.
func testQueue(name string, pairs ...string) *Examined {
	attributes := map[string]string{
		"VisibilityTimeout": "30", "MessageRetentionPeriod": "345600", "DelaySeconds": "0", "ReceiveMessageWaitTimeSeconds": "20",
		"QueueArn": "arn:aws:sqs:us-east-1:000000000000:" + name,
	}
	if strings.HasSuffix(name, ".fifo") {
		attributes["FifoQueue"], attributes["DeduplicationScope"], attributes["FifoThroughputLimit"] = "true", "queue", "perQueue"
	}
	for i := 0; i < len(pairs); i += 2 {
		attributes[pairs[i]] = pairs[i+1]
	}
	return newExamined(cli.QueueRef{Name: name, URL: "http://127.0.0.1:9324/000000000000/" + name}, attributes)
}

// letters sends the dead letters of q to dead.
func (q *Examined) letters(dead *Examined, most int) *Examined {
	q.Attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":"%s","maxReceiveCount":"%d"}`, dead.arn(), most)
	e := newExamined(q.QueueRef, q.Attributes)
	q.target, q.maxReceives, q.Dead, dead.IsDead = e.target, e.maxReceives, dead, true
	return q
}

const twoWeeks = "1209600"

func dlq(pairs ...string) *Examined {
	return testQueue("orders-dlq", append([]string{"MessageRetentionPeriod", twoWeeks}, pairs...)...)
}

// measuredAt returns measurements: the number of messages at or below each bound.
func measuredAt(name string, counts map[string]int, more ...sample) handlingTimes {
	var t handlingTimes
	samples := more
	for le, n := range counts {
		samples = append(samples, sample{name + "_bucket", map[string]string{"queue": "orders", "le": le}, float64(n)})
	}
	t.add(samples, "orders")
	return t
}

func counter(name string, n float64, labels ...string) sample {
	s := sample{name, map[string]string{"queue": "orders"}, n}
	for i := 0; i < len(labels); i += 2 {
		s.labels[labels[i]] = labels[i+1]
	}
	return s
}

const (
	serverTimes = "tenaq_queue_handling_seconds"
	workerTimes = "tenaq_worker_handling_seconds"
)

var notFound = error(&types.QueueDoesNotExist{})

// Each check of a queue finds its problem, and accepts queues without it.
func TestQueueChecks(t *testing.T) {
	age := func(d time.Duration) *time.Duration { return &d }
	with := func(q *Examined, change func(q *Examined)) *Examined { change(q); return q }
	tagged := func(pairs ...string) *Examined {
		q := testQueue("orders")
		q.tags = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			q.tags[pairs[i]] = pairs[i+1]
		}
		return q
	}
	self := testQueue("orders")
	ours := func(q *Examined) { q.kind = KindTenaq }
	const vpce = `,"Condition":{"StringEquals":{"aws:SourceVpce":"vpce-1"}}`
	policyOf := func(more string) string {
		return `{"Statement":{"Effect":"Allow","Principal":{"AWS":"222222222222"},"Action":"sqs:SendMessage"` + more + `}}`
	}
	there, back := testQueue("there"), testQueue("back")
	back.letters(there, 5)
	slow := map[string]int{"15": 0, "60": 1000, "+Inf": 1000}

	for _, test := range []struct {
		check string
		q     *Examined
		want  Verdict // empty when the check does not apply
		says  string
	}{
		{"visibility", testQueue("orders"), OK, "visibility timeout 30 s"},
		{"visibility", testQueue("orders", "VisibilityTimeout", "0"), Problem, "all consumers receive it"},
		{"visibility", testQueue("orders", "VisibilityTimeout", "7200"), Warning, "2 h"},
		{"visibility", testQueue("orders", "VisibilityTimeout", "60", "MessageRetentionPeriod", "60"), Problem, "kept for 1 min"},
		{"visibility", testQueue("orders", "VisibilityTimeout", ""), NotChecked, "does not report"},

		{"handling time", testQueue("orders"), "", ""},
		{"handling time", with(testQueue("orders"), func(q *Examined) { q.times = measuredAt(serverTimes, nil) }), NotChecked, "no work"},
		{"handling time", with(testQueue("orders", "VisibilityTimeout", "10"), func(q *Examined) { q.times = measuredAt(serverTimes, slow) }), Problem, "p99 is 15 s to 1 min"},
		// A time in a bucket exceeds the lower bound of the bucket.
		{"handling time", with(testQueue("orders", "VisibilityTimeout", "15"), func(q *Examined) { q.times = measuredAt(serverTimes, slow) }), Problem, "p99"},
		{"handling time", with(testQueue("orders", "VisibilityTimeout", "10"), func(q *Examined) {
			q.times = measuredAt(serverTimes, slow, counter("tenaq_requests_total", 1, "action", "ChangeMessageVisibilityBatch", "code", ""))
		}), Warning, "renew timeouts"},
		{"handling time", with(testQueue("orders", "VisibilityTimeout", "10"), func(q *Examined) {
			q.times = measuredAt(workerTimes, slow, counter("tenaq_worker_lease_renewals_total", 3, "result", "renewed"))
		}), OK, "the workers renew it"},
		{"handling time", with(testQueue("orders"), func(q *Examined) { q.times = measuredAt(serverTimes, slow) }), Warning, "p99"},
		{"handling time", with(testQueue("orders", "VisibilityTimeout", "60"), func(q *Examined) { q.times = measuredAt(serverTimes, slow) }), OK, "of 1000"},
		// p99 is well below it and p99.9 is not.
		{"handling time", with(testQueue("orders"), func(q *Examined) {
			q.times = measuredAt(serverTimes, map[string]int{"1": 995, "60": 995, "300": 1000, "+Inf": 1000})
		}), Warning, "p99.9 1 min to 5 min"},
		{"handling time", with(testQueue("orders"), func(q *Examined) {
			q.times = measuredAt(serverTimes, map[string]int{"345600": 0, "+Inf": 10})
		}), Problem, "more than 4 days"},

		{"late deletes", testQueue("orders"), "", ""},
		{"late deletes", with(testQueue("orders"), func(q *Examined) {
			q.times = measuredAt(serverTimes, nil, counter("tenaq_queue_deleted_total", 9, "handle", "current"))
		}), OK, "0 of 9"},
		{"late deletes", with(testQueue("orders"), func(q *Examined) {
			q.times = measuredAt(serverTimes, nil, counter("tenaq_queue_deleted_total", 9, "handle", "current"), counter("tenaq_queue_deleted_total", 1, "handle", "stale"))
		}), Problem, "1 of 10 deletes"},
		{"late deletes", with(testQueue("orders"), func(q *Examined) {
			q.times = measuredAt(serverTimes, nil, counter("tenaq_queue_deleted_total", 999, "handle", "current"), counter("tenaq_queue_deleted_total", 1, "handle", "stale"))
		}), Warning, "1 of 1000 deletes"},

		{"delay", testQueue("orders"), "", ""},
		{"delay", testQueue("orders", "DelaySeconds", "60"), OK, "1 min"},
		{"delay", testQueue("orders", "DelaySeconds", "900", "MessageRetentionPeriod", "600"), Problem, "before they can be received"},
		{"delay", with(dlq("DelaySeconds", "60"), func(q *Examined) { q.IsDead = true }), Warning, "dead-letter queue"},

		{"retention", testQueue("orders"), OK, "4 days"},
		{"retention", testQueue("orders", "MessageRetentionPeriod", "600"), Warning, "10 min"},
		{"retention", testQueue("orders", "VisibilityTimeout", "43200").letters(dlq(), 8), Problem, "8 receives of 12 h each take 4 days"},

		{"age", testQueue("orders"), "", ""},
		{"age", with(testQueue("orders"), func(q *Examined) { q.age = age(time.Hour) }), OK, "1 h old"},
		{"age", with(testQueue("orders"), func(q *Examined) { q.age = age(74 * time.Hour) }), Warning, "expires in"},
		{"age", with(testQueue("orders"), func(q *Examined) { q.age = age(90 * time.Hour) }), Problem, "expires in"},
		{"age", with(testQueue("orders"), func(q *Examined) { q.age = age(100 * time.Hour) }), Problem, "expires in 0 s"},

		{"dead letters", testQueue("orders").letters(dlq(), 5), OK, "orders-dlq after 5 receives"},
		{"dead letters", testQueue("orders"), Warning, "again and again"},
		{"dead letters", testQueue("orders.fifo"), Warning, "blocks its group"},
		{"dead letters", testQueue("orders-parking"), OK, "none needed"},
		{"dead letters", testQueue("orders").letters(testQueue("orders-dlq.fifo"), 5), Problem, "is FIFO and this one is standard"},
		{"dead letters", self.letters(self, 5), Problem, "orders -> orders"},
		{"dead letters", there.letters(back, 5), Problem, "there -> back -> there"},
		{"dead letters", with(testQueue("orders").letters(dlq(), 5), func(q *Examined) { q.Dead, q.denied = nil, notFound }), Problem, "orders-dlq does not exist"},
		{"dead letters", with(testQueue("orders").letters(dlq(), 5), func(q *Examined) { q.Dead, q.denied = nil, errElsewhere }), Problem, "another region"},
		{"dead letters", with(testQueue("orders").letters(dlq(), 5), func(q *Examined) { q.Dead, q.denied = nil, cli.ErrNoAnswer }), NotChecked, "no answer"},

		{"receives", testQueue("orders"), "", ""},
		{"receives", testQueue("orders").letters(dlq(), 1), Problem, "maxReceiveCount 1:"},
		{"receives", testQueue("orders").letters(dlq(), 3), Warning, "maxReceiveCount 3:"},
		{"receives", testQueue("orders").letters(dlq(), 5), OK, "maxReceiveCount 5"},

		{"DLQ retention", testQueue("orders"), "", ""},
		{"DLQ retention", testQueue("orders").letters(dlq(), 5), OK, "14 days"},
		{"DLQ retention", testQueue("orders").letters(dlq("MessageRetentionPeriod", "345600"), 5), Problem, "from the first send"},
		{"DLQ retention", testQueue("orders", "MessageRetentionPeriod", twoWeeks).letters(dlq(), 5), Problem, "from the first send"},
		{"DLQ retention", testQueue("orders.fifo").letters(testQueue("dead.fifo"), 5), OK, "from the move"},
		{"DLQ retention", testQueue("orders.fifo").letters(testQueue("dead.fifo", "MessageRetentionPeriod", "600"), 5), Warning, "10 min"},

		{"chain", with(dlq().letters(testQueue("last"), 5), func(q *Examined) { q.IsDead = true }), Warning, "to last"},
		{"chain", testQueue("orders").letters(dlq(), 5), "", ""},

		{"duplicates", testQueue("orders").letters(dlq(), 5), "", ""},
		{"duplicates", testQueue("orders.fifo"), OK, "5 min"},
		{"duplicates", testQueue("orders.fifo").letters(testQueue("dead.fifo"), 10), OK, "take 5 min"},
		{"duplicates", testQueue("orders.fifo").letters(testQueue("dead.fifo"), 11), Warning, "take 5 min 30 s"},

		{"throughput", testQueue("orders"), "", ""},
		{"throughput", testQueue("orders.fifo"), OK, "perQueue"},
		{"throughput", testQueue("orders.fifo", "DeduplicationScope", "messageGroup"), Warning, "two groups"},
		{"throughput", testQueue("orders.fifo", "FifoThroughputLimit", "perMessageGroupId"), Problem, "requires the scope"},
		{"throughput", testQueue("orders.fifo", "FifoThroughputLimit", "perMessageGroupId", "DeduplicationScope", "messageGroup"), OK, ""},

		{"long polls", testQueue("orders"), OK, "wait for 20 s"},
		{"long polls", testQueue("orders", "ReceiveMessageWaitTimeSeconds", "0"), OK, "off"},

		{"encryption", testQueue("orders"), "", ""},
		{"encryption", with(testQueue("orders", "KmsMasterKeyId", "alias/x"), func(q *Examined) { q.kind = KindTenaq }), Warning, "nothing is encrypted"},
		{"encryption", with(testQueue("orders", "KmsMasterKeyId", "alias/x"), func(q *Examined) { q.kind = kindAmazon }), "", ""},
		{"encryption", with(testQueue("orders", "KmsMasterKeyId", "alias/x"), func(q *Examined) { q.kind = kindOther }), NotChecked, "another server"},

		{"policy", with(testQueue("orders"), ours), "", ""},
		{"policy", with(testQueue("orders", "Policy", policyOf("")), ours), OK, "can be met"},
		{"policy", with(testQueue("orders", "Policy", policyOf(vpce)), ours), Warning, "statement 1: it allows nothing: no request to this server has the condition key aws:SourceVpce"},
		{"policy", testQueue("orders", "Policy", policyOf(vpce)), "", ""}, // of another server

		{"extensions", testQueue("orders"), "", ""},
		{"extensions", tagged("team", "payments"), "", ""},
		{"extensions", with(testQueue("orders"), func(q *Examined) { q.untold = notFound }), NotChecked, ""},
		{"extensions", tagged("tenaq:history", "7d", "tenaq:strict-handles", "true"), OK, "kept for 7 d; only the newest receipt handle of a message is valid"},
		{"extensions", tagged("tenaq:paused", "true"), Warning, "paused: no message is delivered"},
		{"extensions", with(tagged("tenaq:paused", "true"), func(q *Examined) { q.IsDead = true }), Warning, "paused, and dead letters come here"},
		{"extensions", tagged("tenaq:dedup-window", "7d"), OK, "a deduplication id is remembered for 7 d"},
		{"extensions", with(tagged("tenaq:dedup-window", "48h"), func(q *Examined) {
			q.Attributes["FifoQueue"], q.Attributes["ContentBasedDeduplication"] = "true", "true"
		}), Warning, "ContentBasedDeduplication with tenaq:dedup-window=2d: a body that was sent in the last 2 d is dropped as a repeat, unless it has a MessageDeduplicationId"},
		{"extensions", tagged("tenaq:rate", "60/h"), OK, "at most 60 deliveries an hour"},
		{"extensions", with(tagged("tenaq:rate", "1/h"), func(q *Examined) { q.Attributes["MessageRetentionPeriod"] = "3600" }), Warning, "tenaq:rate=1/h delivers one message in 1 h, and messages are kept for 1 h: most of them expire first"},
		{"extensions", with(tagged("tenaq:retry", "10s..1h"), func(q *Examined) { q.Attributes["MessageRetentionPeriod"] = "3600" }), Warning, "tenaq:retry=10s..1h waits up to 1 h, and messages are kept for 1 h: they expire before they are tried again"},
		{"extensions", tagged("tenaq:schedule", "0 3 x x x"), OK, "sends a message at each tick of 0 3 x x x"},
		{"extensions", tagged("tenaq:paused", "true", "tenaq:schedule", "@every 90s"), Warning, "its schedules go on, and their messages pile up until the end of the pause"},
		{"extensions", tagged("tenaq:rate", "1/m", "tenaq:schedule.probe", "@every 30s", "tenaq:schedule", "@every 60s", "tenaq:schedule.x", "@hourly"), Warning, "tenaq:rate=1/m delivers at most 1440 messages a day, and 3 schedules send 4344: the queue grows, and messages are late"},
		{"extensions", tagged("tenaq:rate", "1/h", "tenaq:schedule", "x x x x x"), Warning, "tenaq:rate=1/h delivers at most 24 messages a day, and the schedule sends 1440: "},
		{"extensions", tagged("tenaq:rate", "1/m", "tenaq:schedule.a", "@every 1m", "tenaq:schedule.b", "@every 1m"), Warning, "2 schedules send 2880: "},
		{"extensions", tagged("tenaq:rate", "1/h", "tenaq:schedule.a", "@hourly", "tenaq:schedule.b", "@monthly"), Warning, "2 schedules send a little more: "},
		{"extensions", tagged("tenaq:rate", "1/h", "tenaq:schedule", "@hourly"), OK, ""},
		{"extensions", tagged("tenaq:rate", "5/h", "tenaq:schedule", "x/10 8-17 x x MON-FRI"), OK, ""},
		{"extensions", tagged("tenaq:rate", "1/m", "tenaq:schedule.probe", "@every 60s"), OK, ""},
		{"retention", with(tagged("tenaq:retry", "10m..20m").letters(testQueue("dead"), 4), func(q *Examined) { q.Attributes["MessageRetentionPeriod"] = "3120" }), Problem, "4 receives of 30 s each take 2 min, with the pauses of tenaq:retry=10m..20m 52 min: they expire before they become dead letters"},
		{"retention", with(tagged("tenaq:retry", "10m..20m").letters(testQueue("dead"), 4), func(q *Examined) { q.Attributes["MessageRetentionPeriod"] = "3660" }), OK, ""},
		{"retention", with(tagged("tenaq:retry", "10m").letters(testQueue("dead"), 5), func(q *Examined) {
			q.Attributes["VisibilityTimeout"], q.Attributes["MessageRetentionPeriod"] = "600", "3600"
		}), Problem, "messages are kept for 1 h, and 5 receives of 10 min each take 50 min, with the pauses of tenaq:retry=10m 1 h 30 min: "},
		{"duplicates", with(testQueue("orders.fifo").letters(testQueue("dead.fifo"), 5), func(q *Examined) {
			q.tags = map[string]string{"tenaq:retry": "1h"}
		}), Warning, "5 receives of 30 s each take 2 min 30 s, with the pauses of tenaq:retry=1h 4 h 2 min 30 s, and a deduplication id is known for 5 min: a later redrive"},
		{"extensions", tagged("tenaq:retry", "10m").letters(testQueue("dead"), 1), Warning, "tenaq:retry never pauses, because maxReceiveCount is 1"},
		{"extensions", tagged("tenaq:strict-handles", "true"), OK, "only the newest receipt handle of a message is valid"},
		{"extensions", with(tagged("tenaq:strict-handles", "true"), func(q *Examined) { q.Attributes["FifoQueue"] = "true" }), Warning, "tenaq:strict-handles has no effect"},
		{"extensions", tagged("tenaq:delay-max", "90d", "tenaq:dedup-window", "5m"), Warning, "tenaq:dedup-window=5m forgets an id while its message may wait for up to 90 d"},
		{"extensions", tagged("tenaq:delay-max", "90d", "tenaq:dedup-window", "90d"), OK, ""},
		{"extensions", tagged("Tenaq:paused", "true"), Warning, "the tag \"Tenaq:paused\" has no effect: the extension is tenaq:paused"},
		{"extensions", tagged(" tenaq:paused", "true"), Warning, "the tag \" tenaq:paused\" has no effect: the extension is tenaq:paused"},
		{"extensions", tagged("tenaq.paused", "true"), Warning, "the extension is tenaq:paused"},
		{"extensions", tagged("Tenaq:schedule.nightly", "@daily"), Warning, "the extension is tenaq:schedule.nightly"},
		{"extensions", tagged("tenaq", "yes", "priority", "1", "rate", "2", "team.paused", "x", "tenaq.x", "y"), "", ""},
		{"held groups", testQueue("orders.fifo"), "", ""},
		{"held groups", with(testQueue("orders.fifo"), func(q *Examined) { q.held = 1 }), Warning, "1 message group waits for dead letters"},
		{"held groups", with(testQueue("orders.fifo"), func(q *Examined) { q.held = 100 }), Warning, "100 message groups or more wait"},
		{"extensions", with(tagged("tenaq:retry", "10m..20m").letters(testQueue("dead"), 4), func(q *Examined) { q.Attributes["MessageRetentionPeriod"] = "3060" }), OK, ""},
		{"extensions", tagged("tenaq:priority", "1m"), OK, "urgent messages come first, and 1 m of waiting is worth one level"},
		{"extensions", with(tagged("tenaq:priority", "1h"), func(q *Examined) { q.Attributes["MessageRetentionPeriod"] = "3600" }), Warning, "1 h of waiting is worth one level, and messages are kept for 1 h: less urgent ones can expire before their turn"},
		{"extensions", tagged("tenaq:fifo-on-dead-letter", "hold-group"), Warning, "tenaq:fifo-on-dead-letter has no effect, because the queue has no redrive policy"},
		{"extensions", tagged("tenaq:fifo-on-dead-letter", "hold-group").letters(testQueue("dead"), 5), OK, "a dead letter holds its message group"},
		{"extensions", tagged("tenaq:fifo-on-dead-letter", "hold-group").letters(testQueue("orders"), 5), Warning, "tenaq:fifo-on-dead-letter has no effect, because the queue is its own dead-letter queue"},
		{"extensions", tagged("tenaq:max-in-flight", "2", "tenaq:max-in-flight-per-group", "2"), OK, "at most 2 messages are in flight; at most 2 messages of a group are in flight"},
		{"extensions", tagged("tenaq:max-in-flight", "2", "tenaq:max-in-flight-per-group", "3"), Warning, "tenaq:max-in-flight-per-group=3 has no effect, because tenaq:max-in-flight=2 allows fewer"},
		{"policy", with(testQueue("orders", "Policy", "{}"), ours), NotChecked, "cannot be read"},
	} {
		var got []Finding
		for _, c := range queueChecks {
			if c.name == test.check {
				got = append(got, c.check(test.q))
			}
		}
		if test.check == "extensions" {
			if got = checkExtensions(test.q); len(got) == 0 {
				got = append(got, Finding{})
			}
		}
		if len(got) != 1 || got[0].State != test.want || !strings.Contains(got[0].Says, test.says) {
			t.Errorf("%s of %s %v %v: got %+v, want %q with %q", test.check, test.q.Name, test.q.Attributes, test.q.tags, got, test.want, test.says)
		}
		for _, f := range got {
			if (f.State == Warning || f.State == Problem) && f.Do == "" {
				t.Errorf("%s: got %q without what to do", test.check, f.Says)
			}
		}
	}
}

// Each contradiction is a finding of its own, with its own remedy.
func TestExtensionFindings(t *testing.T) {
	q := testQueue("orders.fifo").letters(testQueue("dead.fifo"), 1)
	q.tags = map[string]string{"tenaq:paused": "true", "tenaq:retry": "10s", "tenaq:strict-handles": "true", "TENAQ:rate": "5"}
	var got []string
	for _, f := range checkExtensions(q) {
		got = append(got, fmt.Sprintf("%s: %s -> %s", f.State, f.Says, f.Do))
	}
	want := []string{
		`warning: the tag "TENAQ:rate" has no effect: the extension is tenaq:rate -> if it is meant: tenaq queue tag orders.fifo tenaq:rate=VALUE; tenaq queue untag orders.fifo "TENAQ:rate"`,
		`warning: paused: no message is delivered, and messages expire meanwhile -> tenaq queue resume orders.fifo`,
		`warning: tenaq:strict-handles has no effect, because on a FIFO queue only the newest receipt handle is valid anyway -> tenaq queue untag orders.fifo tenaq:strict-handles`,
		`warning: tenaq:retry never pauses, because maxReceiveCount is 1: the last attempt before the dead-letter queue has no pause -> raise maxReceiveCount in RedrivePolicy, or: tenaq queue untag orders.fifo tenaq:retry`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Every check of a queue is in the table above with something that it finds.
func TestQueueWithoutAttributes(t *testing.T) {
	q := newExamined(cli.QueueRef{Name: "bare"}, map[string]string{})
	for _, c := range queueChecks {
		if got := c.check(q); got.State == Problem {
			t.Errorf("%s: got a problem, %q, of a queue that tells nothing", c.name, got.Says)
		}
	}
}
