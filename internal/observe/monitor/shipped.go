package monitor

import (
	"fmt"
	"regexp"
	"strings"

	"tenaq/internal/engine"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/series"
)

// The built-in alarms. They are templates: each queue in use has one alarm of each kind that
// applies to it, with the name QUEUE/KIND. [ALARM-51]
//
// They use counts of the event itself, and not the difference of two counts whose times do not line
// up. A delete that removes nothing is work that another worker has done or is doing, whenever the
// message was sent.

// A Kind is one of the templates.
type Kind string

// The kinds.
const (
	KindDeadLetters   Kind = "dead-letters"
	KindDeadLetterAge Kind = "dead-letter-age"
	KindOldestAge     Kind = "oldest-age"
	KindDoubleDeletes Kind = "double-deletes"
	KindTimedOut      Kind = "timed-out"
	KindExpired       Kind = "expired"
	KindInFlight      Kind = "in-flight-limit"
	KindNearExpiry    Kind = "near-expiry"
	KindStuck         Kind = "in-flight-stuck"

	// On what redrivers and relays report.
	KindRedriverSilent Kind = "redriver-silent"
	KindRedriverFails  Kind = "redriver-fails"
	KindBreakerOpen    Kind = "breaker-open"
	KindRelaySilent    Kind = "relay-silent"
	KindRelayLate      Kind = "relay-late"
	KindRowsParked     Kind = "rows-parked"

	// Of a cluster: cluster/KIND, see Config.Troubles.
	KindFollowerBehind   Kind = "follower-behind"
	KindVoterUnreachable Kind = "voter-unreachable"
	KindReplicaStopped   Kind = "replica-stopped"
	KindClockDifference  Kind = "clock-difference"
)

// A Teller is a namespace in which the programs of tenaq report: a few metrics a minute, with one
// dimension, their queue or their outbox.
type Teller string

// The namespaces of redrivers and of relays of an outbox. A cluster reports without metrics.
const (
	Redrivers Teller = "Tenaq/Redrive"
	Relays    Teller = "Tenaq/Outbox"
	cluster   Teller = "cluster"
)

// The metrics that they report.
const (
	BreakerState = "BreakerState" // of a redriver: 0 closed, 1 open, 2 half open
	StepFailed   = "StepFailed"   // of a redriver: 1 when its latest step failed
	ParkingLot   = "ParkingLot"   // of a queue in which a redriver parks: 1
	DueAge       = "OldestDueAge" // of a relay, in seconds
	ParkedRows   = "ParkedRows"   // of a relay, like the next two
	PendingRows  = "PendingRows"
	DueRows      = "DueRows"

	boxDimension = "Outbox" // the dimension of relays
)

// A template makes the alarms of a kind.
type template struct {
	kind    Kind
	says    string // what is the matter, in a few words
	advice  string
	applies func(v *view) bool
	rule    func(v *view) alarm.Rule

	// may reports whether the last minute could have caused the alarm. Otherwise the rule is not
	// evaluated, so ten thousand healthy queues cost little.
	may func(v *view) bool

	// news reports whether the last minute brought more of what the alarm is about, which sends a
	// notice although the state is the same. Nil means never.
	news func(v *view) bool

	// told is set if the alarm is on the reports of a program, and sign is the metric that every
	// report has. The alarm is evaluated while the program is known, because its silence matters.
	told Teller
	sign string

	// commands show more. QUEUE stands for the name of the queue, here and in advice.
	commands []string
}

// A view is a queue as a template sees it.
type view struct {
	queue       string
	gauge       *engine.Gauge
	minute      *counts
	dead        bool // it is a dead-letter queue or a parking lot
	inFlightMax int
}

// deadName matches names that end like that of a dead-letter queue or a parking lot: in a word of
// its own, in any case, or in the last hump of a name such as OrdersParkingLotQueue.
var deadName = regexp.MustCompile(`(^|[-_])(?i:dlq|dead([-_]?letters?)?|parked|parking([-_]?lots?)?)([-_]?(?i:queue))?([.]fifo)?$` +
	`|[a-z0-9](DLQ|Dlq|Dead(Letters?)?|Parked|Parking(Lots?)?)(Queue)?([.]fifo)?$`)

// parkingName matches names that end like that of a parking lot.
var parkingName = regexp.MustCompile(`(?i:parked|parking([-_]?lots?)?)([-_]?(?i:queue))?([.]fifo)?$`)

// ParkingName reports whether a queue of that name counts as a parking lot, whose messages no
// redriver brings back.
func ParkingName(queue string) bool { return DeadName(queue) && parkingName.MatchString(queue) }

// DeadName reports whether a queue of that name counts as a dead-letter queue, whatever policies
// say.
func DeadName(queue string) bool { return deadName.MatchString(queue) }

// counted returns the value of a counter in the last minute.
func (v *view) counted(name string) int64 {
	for i := range countTable {
		if countTable[i].name == name {
			return v.minute[i]
		}
	}
	panic("no metric " + name)
}

func (v *view) metric(namespace, name string, stat series.Stat) alarm.Query {
	return alarm.Query{Metric: ofQueue(namespace, name, v.queue), Stat: stat, Period: 60}
}

// above returns a rule on one metric: in alarm if at least datapoints of the last periods
// minutes are above the threshold.
func above(q alarm.Query, threshold float64, datapoints, periods int) alarm.Rule {
	q.ID, q.Return = "m", true
	return alarm.Rule{
		Queries: []alarm.Query{q}, Periods: periods, Datapoints: datapoints,
		Operator: alarm.Above, Threshold: threshold, Missing: alarm.TreatNotBreaching,
	}
}

// math returns a rule on an expression.
func math(
	expression string, threshold float64, datapoints, periods int, queries ...alarm.Query,
) alarm.Rule {
	r := above(alarm.Query{Expression: expression}, threshold, datapoints, periods)
	r.Queries[0].ID = "e"
	r.Queries = append(r.Queries, queries...)
	return r
}

func named(id string, q alarm.Query) alarm.Query {
	q.ID = id
	return q
}

var templates = []template{
	{
		kind: KindDeadLetters, says: "there are dead letters",
		advice:  "Their work is not done. Run tenaq peek QUEUE --body: each message that a tenaq worker gave up has the reason. Fix the cause, then redrive them.",
		applies: func(v *view) bool { return v.dead },
		may:     func(v *view) bool { return v.gauge.Visible+v.gauge.InFlight+v.gauge.Delayed > 0 },
		news:    func(v *view) bool { return v.counted(nameArrived)+v.counted(nameSent) > 0 },
		rule: func(v *view) alarm.Rule {
			return math("visible + hidden + delayed", 0, 1, 1,
				named("visible", v.metric(awsSQS, nameVisible, series.Average)),
				named("hidden", v.metric(awsSQS, nameInFlight, series.Average)),
				named("delayed", v.metric(awsSQS, nameDelayed, series.Average)))
		},
		commands: []string{"tenaq peek QUEUE --body", redrivePlan},
	},
	{
		kind: KindDeadLetterAge, says: "a dead letter was first sent more than an hour ago",
		advice:   "Its work is still not done, and the message is lost when its retention ends. Run tenaq peek QUEUE --body to see why it failed.",
		applies:  func(v *view) bool { return v.dead },
		may:      func(v *view) bool { return v.gauge.Age > 3600_000 },
		rule:     highest(tenaqSQS, nameAge, 3600, 1, 1),
		commands: []string{"tenaq peek QUEUE --body", redrivePlan},
	},
	{
		kind: KindOldestAge, says: "the oldest message was sent more than an hour ago",
		advice:   "Consumers do not keep up, or the oldest message fails again and again, or an earlier message of its group blocks it. Run tenaq peek QUEUE --limit 10, and check that the workers run.",
		applies:  func(v *view) bool { return !v.dead },
		may:      func(v *view) bool { return v.gauge.Age > 3600_000 },
		rule:     highest(tenaqSQS, nameAge, 3600, 5, 5),
		commands: []string{"tenaq peek QUEUE --limit 10", "tenaq queue show QUEUE"},
	},
	{
		kind: KindDoubleDeletes, says: "work is done twice",
		advice: "Workers deleted messages that other workers had received or deleted in the meantime: the work takes longer than the visibility timeout. " +
			"Run tenaq doctor QUEUE. Then make the timeout longer, or extend it while the work is in progress, as tenaq pipe does.",
		applies: func(v *view) bool { return true },
		may:     func(v *view) bool { return v.counted(nameDeleted) > v.counted(nameRemoved) },
		rule: func(v *view) alarm.Rule {
			// Both count deletes, so that it does not matter when the messages were sent.
			return math("IF(deleted - removed >= 2, deleted / IF(removed > 0, removed, 1), 1)",
				1.05, 1, 2,
				named("deleted", v.metric(awsSQS, nameDeleted, series.Sum)), named("removed",
					v.metric(tenaqSQS, nameRemoved, series.Sum)))
		},
		commands: []string{"tenaq doctor QUEUE", "tenaq peek QUEUE --state in_flight"},
	},
	{
		kind: KindTimedOut, says: "visibility timeouts expire before the work is done",
		advice: "More than a fifth of the received messages became visible again without a delete, and their work is repeated. " +
			"Workers crash, or are slower than the visibility timeout. Retry pauses that a worker sets do not count. Run tenaq doctor QUEUE.",
		applies: func(v *view) bool { return !v.dead },
		may:     func(v *view) bool { return v.counted(nameTimedOutKept) > 2 },
		rule: func(v *view) alarm.Rule {
			return math("IF(lost > 2, lost / IF(received > 0, received, 1), 0)", 0.2, 1, 2,
				named("lost", v.metric(tenaqSQS, nameTimedOutKept, series.Sum)), named("received",
					v.metric(awsSQS, nameReceived, series.Sum)))
		},
		commands: []string{"tenaq peek QUEUE --state in_flight", "tenaq doctor QUEUE"},
	},
	{
		kind: KindStuck, says: "messages have been in flight for half an hour and none was deleted",
		advice:  "Their workers hang, or extend the visibility timeout of work that never ends. Run tenaq peek QUEUE --state in_flight, and restart the workers that hold these messages.",
		applies: func(v *view) bool { return true },
		may:     func(v *view) bool { return v.gauge.InFlight > 0 && v.counted(nameRemoved) == 0 },
		rule: func(v *view) alarm.Rule {
			return math("IF(removed == 0, hidden, 0)", 0, 30, 30,
				named("removed", v.metric(tenaqSQS, nameRemoved, series.Sum)), named("hidden",
					v.metric(awsSQS, nameInFlight, series.Minimum)))
		},
		commands: []string{"tenaq peek QUEUE --state in_flight", "tenaq doctor QUEUE"},
	},
	{
		kind: KindExpired, says: "messages have expired and are lost",
		advice:  "Their work was never done, and they cannot be recovered. Run tenaq queue show QUEUE, make the retention longer, and find out why no worker finished them.",
		applies: func(v *view) bool { return true },
		may:     func(v *view) bool { return v.counted(nameExpired) > 0 },
		rule: func(v *view) alarm.Rule {
			return above(v.metric(tenaqSQS, nameExpired, series.Sum), 0, 1, 5)
		},
		commands: []string{"tenaq queue show QUEUE", "tenaq peek QUEUE --limit 10"},
	},
	{
		kind: KindNearExpiry, says: "messages will expire soon",
		advice:   "The oldest message has used nine tenths of its retention, and is lost when it ends. Run tenaq peek QUEUE --limit 10. Then make the retention longer, start workers, or redrive the messages.",
		applies:  func(v *view) bool { return v.gauge.Retention >= nearExpiryMin },
		may:      func(v *view) bool { return v.gauge.Kept*10 > v.gauge.Retention*9 },
		rule:     highest(tenaqSQS, nameRetentionUsed, 90, 1, 1),
		commands: []string{"tenaq peek QUEUE --limit 10", "tenaq queue show QUEUE"},
	},
	{
		kind: KindInFlight, says: "the number of messages in flight is close to its limit",
		advice:  "At the limit, receives are refused. Workers receive messages and do not delete them. Run tenaq peek QUEUE --state in_flight.",
		applies: func(v *view) bool { return true },
		may:     func(v *view) bool { return v.gauge.InFlight*10 > int64(v.inFlightMax)*9 },
		rule: func(v *view) alarm.Rule {
			return above(v.metric(awsSQS, nameInFlight, series.Maximum), float64(v.inFlightMax)*0.9,
				1, 1)
		},
		commands: []string{"tenaq peek QUEUE --state in_flight", "tenaq queue show QUEUE"},
	},
	{
		kind: KindRedriverSilent, says: "its redriver has not reported for ten minutes",
		told: Redrivers, sign: StepFailed,
		advice:   "It is not running, or cannot reach this server. Dead letters are not redriven. Run tenaq redrive status QUEUE, then restart the redriver.",
		rule:     silent(Redrivers, StepFailed),
		commands: []string{"tenaq redrive status QUEUE"},
	},
	{
		kind: KindRedriverFails, says: "every step of its redriver fails", told: Redrivers,
		sign:     StepFailed,
		advice:   "Dead letters are not redriven until a step succeeds. Run tenaq redrive status QUEUE, and read the error in the log of the redriver.",
		rule:     reported(Redrivers, StepFailed, series.Minimum, 0, 5, 5),
		commands: []string{"tenaq redrive status QUEUE"},
	},
	{
		kind: KindBreakerOpen, says: "the breaker of its redriver has been open or half-open for half an hour", told: Redrivers, sign: BreakerState,
		advice:   "Redriven messages fail again, so the redriver sends only a few at a time. Run tenaq redrive status QUEUE, then fix the consumer.",
		rule:     reported(Redrivers, BreakerState, series.Minimum, 0, 30, 30),
		commands: []string{"tenaq redrive status QUEUE", "tenaq peek QUEUE --body"},
	},
	{
		kind: KindRelaySilent, says: "no relay of this outbox has reported for ten minutes",
		told: Relays, sign: DueAge,
		advice:   "No relay is running, or none can reach this server. Messages in the outbox are not sent. Run tenaq outbox status, then start a relay.",
		rule:     silent(Relays, DueAge),
		commands: []string{"tenaq outbox status"},
	},
	{
		kind: KindRelayLate, says: "rows of this outbox have been due for more than five minutes",
		told: Relays, sign: DueAge,
		advice:   "Their messages are late. The relay does not keep up, or the queue refuses the messages. Run tenaq outbox status.",
		rule:     reported(Relays, DueAge, series.Minimum, 300, 5, 5),
		commands: []string{"tenaq outbox status"},
	},
	{
		kind: KindRowsParked, says: "rows of this outbox were set aside", told: Relays,
		sign:     ParkedRows,
		advice:   "Their queue refused the messages, and the relay does not retry them. Run tenaq outbox parked list to see the reason, then release the rows.",
		rule:     reported(Relays, ParkedRows, series.Maximum, 0, 1, 1),
		commands: []string{"tenaq outbox parked list"},
	},
	{
		kind: KindFollowerBehind, says: "a node does not catch up", told: cluster, rule: noRule,
		advice:   "While it is behind, the loss of another node may stop the cluster. Check the disk and the network of the node, then restart it.",
		commands: clusterStatus,
	},
	{
		kind: KindVoterUnreachable, says: "a voter cannot be reached", told: cluster, rule: noRule,
		advice:   "The loss of another node may stop the cluster. Start the node, or replace it if its disk is lost.",
		commands: clusterStatus,
	},
	{
		kind: KindReplicaStopped, says: "a node left the group because its rows do not match",
		told: cluster, rule: noRule,
		advice:   "It serves nothing and counts for no majority. Keep its data directory, replace the node, and report this.",
		commands: clusterStatus,
	},
	{
		kind: KindClockDifference, says: "the clocks of the nodes differ", told: cluster,
		rule:     noRule,
		advice:   "After a failover, visibility timeouts may end early by the difference. Check the time synchronization of the nodes.",
		commands: clusterStatus,
	},
}

var clusterStatus = []string{"tenaq cluster status"}

// noRule is the rule of alarms that have no data. Its one period is how long a new leader waits
// before it ends an alarm of the one before.
func noRule(*view) alarm.Rule { return alarm.Rule{Periods: 1, Datapoints: 1} }

// highest returns a rule on the maximum of a metric of the queue.
func highest(
	namespace, name string, threshold float64, datapoints, periods int,
) func(v *view) alarm.Rule {
	return func(v *view) alarm.Rule {
		return above(v.metric(namespace, name, series.Maximum), threshold, datapoints, periods)
	}
}

// reported returns a rule on a metric that a program reports.
func reported(
	by Teller, name string, stat series.Stat, threshold float64, datapoints, periods int,
) func(v *view) alarm.Rule {
	return func(v *view) alarm.Rule {
		q := alarm.Query{Metric: by.Metric(name, v.queue), Stat: stat, Period: 60}
		return above(q, threshold, datapoints, periods)
	}
}

// silent returns a rule that is in alarm when a program has not reported for ten minutes.
func silent(by Teller, sign string) func(v *view) alarm.Rule {
	return func(v *view) alarm.Rule {
		r := reported(by, sign, series.SampleCount, 0, 10, 10)(v)
		r.Operator, r.Missing = alarm.AtMost, alarm.TreatBreaching
		return r
	}
}

// Metric returns the metric of a program that reports about a queue or an outbox.
func (t Teller) Metric(name, about string) series.Metric {
	return series.Metric{Namespace: string(t), Name: name,
		Dimensions: []series.Dimension{{Name: t.dimension(), Value: about}}}
}

func (t Teller) dimension() string {
	if t == Relays {
		return boxDimension
	}
	return queueDimension
}

// nearExpiryMin is the retention, in milliseconds, below which messages are meant to expire.
const nearExpiryMin = 3600_000

// shippedName returns the name of a built-in alarm. Names of queues have no slash.
func shippedName(queue string, kind Kind) string { return queue + "/" + string(kind) }

// templateOf returns the queue and the template of a built-in alarm, nil for another name.
func templateOf(name string) (queue string, t *template) {
	slash := strings.LastIndexByte(name, '/')
	if slash < 0 {
		return "", nil
	}
	queue = name[:slash]
	for i := range templates {
		if string(templates[i].kind) == name[slash+1:] {
			return queue, &templates[i]
		}
	}
	return "", nil
}

func (t *template) shipped(v *view, actions []string) Definition {
	return Definition{
		Name: shippedName(v.queue, t.kind),
		Description: fmt.Sprintf("%s: %s. %s", v.queue, t.says,
			strings.ReplaceAll(t.advice, "QUEUE", v.queue)),
		Rule: t.rule(v), ActionsEnabled: true, OnAlarm: actions, OnOK: actions,
	}
}
