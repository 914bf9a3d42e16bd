// Package alarm decides what state an alarm is in, by the rules of CloudWatch: periods, datapoints
// to alarm, missing data, metric math. It is pure: the data is asked of a Data, time comes in as an
// argument, and nothing happens but that an answer is given. Whoever uses it keeps the states and
// tells people. docs/semantics/alarms.md has the rules.
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

// Missing says what a period without data counts as.
type Missing string

// The treatments of missing data.
const (
	TreatMissing      Missing = "missing" // also when empty
	TreatIgnore       Missing = "ignore"
	TreatBreaching    Missing = "breaching"
	TreatNotBreaching Missing = "notBreaching"
)

// A Query is one of the series that metric math works with: either a metric or an expression on the
// others.
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

// A Rule is what an alarm watches, and when it is in alarm. Check says whether it is one that can
// be evaluated.
type Rule struct {
	Queries    []Query // one without an expression, for an alarm on a single metric
	Periods    int     // that are evaluated
	Datapoints int     // of these, those that have to breach; zero for all
	Operator   Operator
	Threshold  float64
	Missing    Missing
}

// Data is where the metrics are. Points returns the values of the periods (seconds) between from
// and to, which lie a whole number of periods apart, in order; periods without data have none.
type Data interface {
	Points(m series.Metric, stat series.Stat, period, from, to int64) []series.Point
}

// A Verdict is the state of an alarm, and why.
type Verdict struct {
	State  State
	Reason string         // a sentence, as CloudWatch words it
	Recent []series.Point // the values that were looked at, oldest first
}
