// Package alarm decides the state of an alarm by the rules of CloudWatch: periods, datapoints to
// alarm, missing data, metric math. It is pure: data comes from a Data, time is an argument, and
// evaluating changes nothing. It leaves storing states and sending notices to its caller.
// docs/semantics/alarms.md has the rules.
package alarm

import "tenaq/internal/observe/series"

// A State of an alarm. The names are CloudWatch's.
type State string

// The states.
const (
	OK           State = "OK"
	Alarm        State = "ALARM"
	Insufficient State = "INSUFFICIENT_DATA"
)

// An Operator compares a value with the threshold.
type Operator string

// The operators.
const (
	Above   Operator = "GreaterThanThreshold"
	AtLeast Operator = "GreaterThanOrEqualToThreshold"
	Below   Operator = "LessThanThreshold"
	AtMost  Operator = "LessThanOrEqualToThreshold"
)

// Missing says how a period without data counts.
type Missing string

// The treatments of missing data.
const (
	TreatMissing      Missing = "missing" // also when empty
	TreatIgnore       Missing = "ignore"
	TreatBreaching    Missing = "breaching"
	TreatNotBreaching Missing = "notBreaching"
)

// A Query is a series for metric math: either a metric or an expression on other queries.
type Query struct {
	ID         string // a letter in lower case, then letters, digits and underscores
	Expression string

	Metric series.Metric // if there is no expression
	Stat   series.Stat
	Period int64  // seconds; of an expression zero
	Unit   string // must be empty or fit what was recorded; nothing is converted

	Label  string
	Return bool // what the alarm watches; one of its queries has it
}

// A Rule is what an alarm watches, and when it is in alarm. Check says whether it can be evaluated.
type Rule struct {
	Queries    []Query // one without an expression, for an alarm on a single metric
	Periods    int     // that are evaluated
	Datapoints int     // of these, those that have to breach; zero for all
	Operator   Operator
	Threshold  float64
	Missing    Missing
}

// Data has the values of metrics. Points returns those of the periods (seconds) between from and to
// (milliseconds), in order. The two lie a whole number of periods apart, and periods without data
// have no value.
type Data interface {
	Points(m series.Metric, stat series.Stat, period, from, to int64) []series.Point
}

// A Verdict is the state of an alarm, and why.
type Verdict struct {
	State  State
	Reason string         // a sentence, as CloudWatch words it
	Recent []series.Point // the values that were looked at, oldest first
}
