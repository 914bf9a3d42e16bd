package doctor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/smithy-go"

	"tenaq/internal/cli"
	"tenaq/internal/door/policy"
	"tenaq/internal/work/extension"
)

// queueChecks are the checks of each queue. They use only its attributes, so they work on every SQS
// endpoint. A check is skipped if the endpoint does not report what it needs.
var queueChecks = []struct {
	name  string
	check func(*Examined) Finding
}{
	{"visibility", checkVisibility},
	{"handling time", checkHandling},
	{"late deletes", checkLateDeletes},
	{"delay", checkDelay},
	{"retention", checkRetention},
	{"age", checkAge},
	{"dead letters", checkDeadLetters},
	{"receives", checkMaxReceives},
	{"DLQ retention", checkDeadRetention},
	{"chain", checkChain},
	{"duplicates", checkDedup},
	{"throughput", checkThroughput},
	{"long polls", checkLongPolls},
	{"encryption", checkKMS},
	{"policy", checkPolicy},
	{"held groups", checkHeld},
}

func (q *Examined) setTo(attribute, value string) string {
	return fmt.Sprintf("tenaq queue set %s --attribute %s=%s", q.Name, attribute, value)
}

// visibilityWarns is the longest visibility timeout without a warning.
const visibilityWarns = time.Hour

func checkVisibility(q *Examined) Finding {
	visibility, ok := q.seconds("VisibilityTimeout")
	retention, kept := q.seconds("MessageRetentionPeriod")
	switch {
	case !ok:
		return unchecked("", "the endpoint does not report VisibilityTimeout")
	case kept && visibility >= retention:
		return problem("make the retention longer: "+q.setTo("MessageRetentionPeriod", "345600"),
			"visibility timeout %s, and messages are kept for %s: a received message expires before it becomes visible again", cli.HumanDuration(visibility), cli.HumanDuration(retention))
	case visibility == 0:
		return problem(q.setTo("VisibilityTimeout", "30"),
			"visibility timeout 0: a message stays visible while a consumer works on it, so all consumers receive it")
	case visibility > visibilityWarns:
		return warning("shorten it, and let consumers renew it while they work, as tenaq pipe and package worker do",
			"visibility timeout %s: the message of a consumer that dies stays hidden for so long",
			cli.HumanDuration(visibility))
	}
	return fine("visibility timeout %s", cli.HumanDuration(visibility))
}

// checkHandling compares the visibility timeout with the time that work takes. Twice the median is
// not enough: the longest work is done twice.
func checkHandling(q *Examined) Finding {
	visibility, ok := q.seconds("VisibilityTimeout")
	if !ok || !q.times.asked {
		return Finding{}
	}
	h, what := q.times.server, "from receive to delete"
	if h.count() == 0 {
		h, what = q.times.worker, "in handlers"
	}
	if h.count() == 0 {
		return unchecked("check again when work has been done",
			"no work on its messages has been measured")
	}
	low, high := h.between(0.99)
	low999, high999 := h.between(0.999)
	figures := map[string]float64{"visibilitySeconds": visibility.Seconds(), "p99Above": low,
		"p999Above": low999, "measured": h.count()}
	says := fmt.Sprintf("visibility timeout %s; %s p99 is %s, p99.9 %s, of %.0f",
		cli.HumanDuration(visibility), what, h.text(0.99), h.text(0.999), h.count())
	const renew = "let consumers renew the timeout while they work, as tenaq pipe and package worker do"
	raise := renew
	if high999 <= 12*3600 {
		raise = "make it longer than p99.9: " + q.setTo("VisibilityTimeout",
			fmt.Sprintf("%.0f", max(1, high999))) + "; or " + renew
	}
	v := visibility.Seconds()
	late := low > 0 && v <= low // values in a bucket are above its lower bound
	switch {
	case v >= high999:
		return fine("%s", says).with(figures)
	case q.times.renewed:
		return fine("%s; the workers renew it", says).with(figures)
	case late && q.times.changes:
		return warning("check that all consumers of this queue do so, or "+raise,
			"%s; some consumers at this endpoint renew timeouts", says).with(figures)
	case late:
		return problem(raise, "%s: one message in a hundred is delivered again while a consumer works on it", says).with(figures)
	case v < low999 || v < high:
		return warning(raise, "%s", says).with(figures)
	}
	return fine("%s", says).with(figures)
}

// checkLateDeletes looks for work that was done after the message was delivered again.
func checkLateDeletes(q *Examined) Finding {
	t := q.times
	if !t.asked || t.deleted+t.stale == 0 {
		return Finding{}
	}
	says := fmt.Sprintf("%.0f of %.0f deletes came after the message had been delivered again",
		t.stale, t.deleted+t.stale)
	figures := map[string]float64{"stale": t.stale, "removed": t.deleted}
	const do = "work was done twice: renew or lengthen the visibility timeout, and guard the work with a claim (tenaq pipe --records)"
	switch {
	case t.stale == 0:
		return fine("0 of %.0f deletes came late", t.deleted).with(figures)
	case t.stale*100 < t.deleted:
		return warning(do, "%s", says).with(figures)
	}
	return problem(do, "%s", says).with(figures)
}

func checkDelay(q *Examined) Finding {
	delay, ok := q.seconds("DelaySeconds")
	retention, kept := q.seconds("MessageRetentionPeriod")
	switch {
	case !ok || !kept || delay == 0:
		return Finding{}
	case delay >= retention:
		return problem("shorten the delay: "+q.setTo("DelaySeconds", "0"),
			"delay %s, and messages are kept for %s: they expire before they can be received",
			cli.HumanDuration(delay), cli.HumanDuration(retention))
	case q.IsDead:
		return warning(q.setTo("DelaySeconds", "0"),
			"delay %s in a dead-letter queue: messages that a redriver or a worker sends there are hidden for so long", cli.HumanDuration(delay))
	}
	return fine("delay %s", cli.HumanDuration(delay))
}

// checkRetention compares the retention with the time until a message has used up its receives.
func checkRetention(q *Examined) Finding {
	visibility, ok := q.seconds("VisibilityTimeout")
	retention, kept := q.seconds("MessageRetentionPeriod")
	if !ok || !kept {
		return Finding{}
	}
	longer := q.setTo("MessageRetentionPeriod", "1209600")
	if q.target != "" {
		if under, says := q.underWay(visibility); under >= retention {
			lower := "maxReceiveCount or the visibility timeout"
			if q.extensions().Retry.Base > 0 {
				lower = "maxReceiveCount, the visibility timeout or " + extension.RetryTag
			}
			return problem("lower "+lower+", or keep messages for longer: "+longer,
				"messages are kept for %s, and %s: they expire before they become dead letters",
				cli.HumanDuration(retention), says)
		}
	}
	if retention < time.Hour && !q.IsDead {
		return warning(longer, "messages are kept for %s: a longer outage of the consumers loses them without a trace", cli.HumanDuration(retention))
	}
	return fine("messages are kept for %s", cli.HumanDuration(retention))
}

// Shares of the retention that the oldest message may have used.
const (
	ageWarns = 0.75
	ageHurts = 0.90
)

// checkAge looks how soon the oldest message expires. SQS expires messages silently.
func checkAge(q *Examined) Finding {
	retention, kept := q.seconds("MessageRetentionPeriod")
	if !kept || q.age == nil {
		return Finding{}
	}
	share := q.age.Seconds() / retention.Seconds()
	figures := map[string]float64{"ageSeconds": q.age.Seconds(),
		"retentionSeconds": retention.Seconds()}
	says := fmt.Sprintf("the oldest message is %s old, and messages are kept for %s",
		cli.AgeText(*q.age), cli.HumanDuration(retention))
	do := fmt.Sprintf("look at it: tenaq peek %s; keep messages for longer: %s", q.Name,
		q.setTo("MessageRetentionPeriod", "1209600"))
	if retention >= 14*24*time.Hour {
		do = fmt.Sprintf("look at it: tenaq peek %s; 14 days are the maximum: move the messages with tenaq move start %s, or receive them", q.Name, q.Name)
	}
	switch {
	case share >= ageHurts:
		return problem(do, "%s: it expires in %s", says,
			cli.AgeText(max(0, retention-*q.age))).with(figures)
	case share >= ageWarns:
		return warning(do, "%s: it expires in %s", says,
			cli.AgeText(retention-*q.age)).with(figures)
	}
	return fine("%s", says).with(figures)
}

// endNames are parts of the names of queues where messages await a decision. Such queues need no
// dead-letter queue.
var endNames = []string{"dlq", "dead", "parking", "parked", "failed", "quarantine"}

func (q *Examined) isEnd() bool {
	if q.IsDead {
		return true
	}
	for _, part := range endNames {
		if strings.Contains(strings.ToLower(q.Name), part) {
			return true
		}
	}
	return false
}

// checkDeadLetters checks that there is a usable dead-letter queue.
func checkDeadLetters(q *Examined) Finding {
	var refusal smithy.APIError
	create := "tenaq queue create " + cli.QueueNameOf(q.target)
	switch {
	case q.target == "" && q.isEnd():
		return fine("none needed: failed messages come here")
	case q.target == "" && q.isFIFO():
		return warning("name one in RedrivePolicy; for the order of messages see docs/semantics/deadletter.md",
			"none: a message that always fails blocks its group until it expires")
	case q.target == "":
		return warning("name one in RedrivePolicy",
			"none: a message that always fails is delivered again and again until it expires, and is then lost")
	case isNotFound(q.denied):
		return problem(create+", or change RedrivePolicy",
			"%s does not exist: a message that always fails is delivered again and again until it expires",
			cli.QueueNameOf(q.target))
	case errors.Is(q.denied, errElsewhere):
		return problem("name a queue of the same region in RedrivePolicy",
			"%s is in another region: messages cannot go there", q.target)
	case errors.As(q.denied, &refusal):
		return unchecked("allow sqs:GetQueueUrl and sqs:GetQueueAttributes on it",
			"%s cannot be read: %s", cli.QueueNameOf(q.target), cli.ErrorKind(refusal))
	case q.denied != nil:
		return unchecked("", "%s cannot be read: %v", cli.QueueNameOf(q.target), q.denied)
	case q.Dead.isFIFO() != q.isFIFO():
		return problem("name a queue of the same kind in RedrivePolicy",
			"%s is %s and this one is %s: messages cannot go there", q.Dead.Name, q.Dead.kindText(),
			q.kindText())
	}
	if loop := q.loop(); loop != nil {
		return problem("end the chain with a queue that has no RedrivePolicy",
			"dead letters circulate: %s; a message that always fails never leaves the circle",
			strings.Join(loop,
				" -> "))
	}
	return fine("go to %s after %s", q.Dead.Name,
		cli.Counted(q.maxReceives, "receive", "receives"))
}

func (q *Examined) kindText() string {
	if q.isFIFO() {
		return "FIFO"
	}
	return "standard"
}

// receivesWell is how many receives a message should have: throttled consumers give back good
// messages.
const receivesWell = 5

// checkMaxReceives looks for a limit at which good messages become dead letters.
func checkMaxReceives(q *Examined) Finding {
	if q.target == "" {
		return Finding{}
	}
	most := q.maxReceives
	do := fmt.Sprintf("raise maxReceiveCount in RedrivePolicy to %d or more, and let consumers count their attempts", receivesWell)
	switch {
	case most == 1:
		return problem(do, "maxReceiveCount 1: one deploy, crash or lost response makes a good message a dead letter")
	case most < receivesWell:
		return warning(do, "maxReceiveCount %d: receives by throttled or stopped consumers count, too", most)
	}
	return fine("maxReceiveCount %d", most)
}

const retentionMostTime = 14 * 24 * time.Hour

// checkDeadRetention compares the retention of the dead-letter queue with that of the queue. On
// standard queues, retention counts from the first send.
func checkDeadRetention(q *Examined) Finding {
	if q.Dead == nil || q.Dead == q {
		return Finding{}
	}
	own, ok := q.seconds("MessageRetentionPeriod")
	dead, told := q.Dead.seconds("MessageRetentionPeriod")
	if !ok || !told {
		return Finding{}
	}
	figures := map[string]float64{"retentionSeconds": own.Seconds(),
		"deadRetentionSeconds": dead.Seconds()}
	says := fmt.Sprintf("%s keeps messages for %s, this queue for %s", q.Dead.Name,
		cli.HumanDuration(dead), cli.HumanDuration(own))
	longer := q.Dead.setTo("MessageRetentionPeriod", "1209600")
	if own >= retentionMostTime {
		longer = "14 days are the maximum: keep messages here for a shorter time, " +
			q.setTo("MessageRetentionPeriod", "604800")
	}
	switch {
	case q.isFIFO() && dead < own:
		return warning(q.Dead.setTo("MessageRetentionPeriod", "1209600"),
			"%s: people have less time than consumers", says).with(figures)
	case q.isFIFO():
		return fine("%s, counted from the move", says).with(figures)
	case dead <= own:
		return problem(longer, "%s, both counted from the first send: a message that waited long here expires there soon, or at once", says).with(figures)
	}
	return fine("%s", says).with(figures)
}

// checkChain looks for a dead-letter queue that moves its messages on.
func checkChain(q *Examined) Finding {
	if !q.IsDead || q.target == "" || q.loop() != nil {
		return Finding{}
	}
	return warning("remove its RedrivePolicy: "+q.setTo("RedrivePolicy", ""),
		"dead letters come here, and it has its own redrive policy: receiving dead letters to look at them moves them to %s", cli.QueueNameOf(q.target))
}

// DedupWindow is for how long SQS knows a deduplication id.
const DedupWindow = 5 * time.Minute

// checkDedup compares the deduplication window of a FIFO queue with the time until a message has
// used up its receives.
func checkDedup(q *Examined) Finding {
	visibility, ok := q.seconds("VisibilityTimeout")
	if !q.isFIFO() || !ok {
		return Finding{}
	}
	window := DedupWindow
	if set := q.extensions().DedupWindow; set > 0 {
		window = time.Duration(set) * time.Millisecond
	}
	known := "a deduplication id is known for " + cli.HumanDuration(window)
	if q.target == "" {
		return fine("%s; a later repeated send is a second message", known)
	}
	under, says := q.underWay(visibility)
	figures := map[string]float64{"underWaySeconds": under.Seconds(),
		"windowSeconds": window.Seconds()}
	says += ", and " + known
	if under > window {
		return warning("let consumers recognize completed work by its key, as claims do: tenaq pipe --records; let producers that replay use the same key, as tenaq outbox does",
			"%s: a later redrive or replay is a second message", says).with(figures)
	}
	return fine("%s", says).with(figures)
}

// checkThroughput checks two settings of FIFO queues that only work together.
func checkThroughput(q *Examined) Finding {
	scope, limit := q.Attributes["DeduplicationScope"], q.Attributes["FifoThroughputLimit"]
	if !q.isFIFO() || scope == "" && limit == "" {
		return Finding{}
	}
	says := fmt.Sprintf("DeduplicationScope %s with FifoThroughputLimit %s", cli.OrDash(scope),
		cli.OrDash(limit))
	switch {
	case limit == "perMessageGroupId" && scope != "messageGroup":
		return problem(q.setTo("DeduplicationScope", "messageGroup"),
			"%s: high throughput requires the scope messageGroup", says)
	case scope == "messageGroup" && limit != "perMessageGroupId":
		return warning(q.setTo("FifoThroughputLimit", "perMessageGroupId")+
			", or back to the scope queue",
			"%s: the same deduplication id in two groups is two messages, and throughput does not increase", says)
	}
	return fine("%s", says)
}

// checkLongPolls reports how long receives without WaitTimeSeconds wait.
func checkLongPolls(q *Examined) Finding {
	wait, ok := q.seconds("ReceiveMessageWaitTimeSeconds")
	switch {
	case !ok:
		return Finding{}
	case wait == 0:
		return fine("off: a receive without WaitTimeSeconds returns at once, which costs requests and, on Amazon, does not query all servers; ReceiveMessageWaitTimeSeconds=20 changes that")
	}
	return fine("receives wait for %s", cli.HumanDuration(wait))
}

// checkKMS looks for a key that encrypts nothing.
func checkKMS(q *Examined) Finding {
	key := q.Attributes["KmsMasterKeyId"]
	switch {
	case key == "" || q.kind == kindAmazon:
		return Finding{}
	case q.kind == KindTenaq:
		return warning("keep --data-dir on an encrypted disk; do not rely on the key",
			"KmsMasterKeyId %s is stored and shown, but nothing is encrypted with it", key)
	}
	return unchecked("ask its operator",
		"KmsMasterKeyId is set, but it is not known whether %s encrypts anything", q.kind)
}

// checkPolicy looks for statements that have another effect on a tenaq server than on Amazon SQS,
// because their condition key or resource never occurs there.
func checkPolicy(q *Examined) Finding {
	text := q.Attributes["Policy"]
	if text == "" || q.kind != KindTenaq {
		return Finding{}
	}
	const do = "read the conditions in docs/access.md, and remove or rewrite the statement if you rely on it"
	p, err := policy.Parse(text)
	if err != nil {
		return unchecked("use the same version of tenaq as the server",
			"the policy cannot be read: %v", err)
	}
	if notes := p.Notes(); len(notes) > 0 {
		return warning(do, "%s", strings.Join(notes, "; "))
	}
	return fine("every condition of the policy can be met")
}

// underWay returns how long a message is under way until it has used up its receives, and says so:
// each takes the visibility timeout, and there is a pause between two.
func (q *Examined) underWay(visibility time.Duration) (all time.Duration, says string) {
	n := q.maxReceives
	all = visibility * time.Duration(n)
	says = "1 receive takes " + cli.HumanDuration(visibility)
	if n > 1 {
		says = fmt.Sprintf("%d receives of %s each take %s", n, cli.HumanDuration(visibility),
			cli.HumanDuration(all))
	}
	on := q.extensions()
	if pauses := time.Duration(on.Pauses(n)) * time.Millisecond; pauses > 0 {
		all += pauses
		says += fmt.Sprintf(", with the pauses of %s=%s %s", extension.RetryTag, on.Retry,
			cli.HumanDuration(all))
	}
	return all, says
}
