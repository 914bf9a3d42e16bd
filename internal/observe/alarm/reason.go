package alarm

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The names of operators and treatments in a reason.
var (
	compared = map[Operator]string{
		Above: "greater than", AtLeast: "greater than or equal to", Below: "less than",
		AtMost: "less than or equal to",
	}
	treated = map[Missing]string{
		TreatBreaching: "Breaching", TreatNotBreaching: "NonBreaching", TreatMissing: "Missing",
		"": "Missing",
	}
)

// reason says why a state was decided on, as CloudWatch words it. [ALARM-16 to ALARM-19]
func (e evidence) reason(state State, kept bool) string {
	r := e.rule
	switch {
	case kept:
		return fmt.Sprintf("Unchanged: %s unknown and missing data is ignored.",
			count(e.missing(), "datapoint", "was", "were"))
	case state == Insufficient:
		return fmt.Sprintf("Insufficient Data: %s unknown.",
			count(r.Periods, "datapoint", "was", "were"))
	}

	// The values that speak for the state, newest first.
	var values []string
	for _, p := range slices.Backward(e.points) {
		if r.breaches(p.Value) == (state == Alarm) {
			values = append(values, number(p.Value)+
				time.UnixMilli(p.At).UTC().Format(" (02/01/06 15:04:05)"))
		}
	}
	filled := ""
	if e.missing() > 0 {
		filled = fmt.Sprintf(" and %s treated as [%s]",
			count(e.missing(), "missing datapoint", "was", "were"), treated[r.Missing])
	}
	if len(values) == 0 {
		received := "no datapoints were"
		if n := len(e.points); n > 0 {
			received = count(n, "datapoint", "was", "were")
		}
		return fmt.Sprintf("Threshold Crossed: %s received for %s%s.", received,
			count(r.Periods, "period", "", ""), filled)
	}
	if treated[r.Missing] == "Missing" || r.Missing == TreatIgnore {
		filled = "" // nothing stands in for it
	}

	verb, not := "was", ""
	if len(values) > 1 {
		verb = "were"
	}
	least, change := r.datapoints(), "OK -> ALARM"
	if state == OK {
		not, least, change = "not ", r.Periods-r.datapoints()+1, "ALARM -> OK"
	}
	those, minimum := count(len(values), "datapoint", "", ""), ""
	if r.Datapoints > 0 { // M out of N was asked for
		those = fmt.Sprintf("%d out of the last %d datapoints", len(values), r.Periods)
		minimum = fmt.Sprintf(" (minimum %s for %s transition)", count(least, "datapoint", "", ""),
			change)
	}
	return fmt.Sprintf("Threshold Crossed: %s [%s] %s %s%s the threshold (%s)%s%s.",
		those, strings.Join(values,
			", "), verb, not, compared[r.Operator], number(r.Threshold), filled, minimum)
}

// count returns a number of things, and the verb that goes with it.
func count(n int, thing, one, many string) string {
	verb := one
	if n != 1 {
		thing, verb = thing+"s", many
	}
	return strings.TrimSuffix(fmt.Sprintf("%d %s %s", n, thing, verb), " ")
}

// number formats a number as Java does, and so CloudWatch: 3.0, 0.005, 1.0E9.
func number(v float64) string {
	if a := math.Abs(v); v == 0 || a >= 1e-3 && a < 1e7 {
		s := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	mantissa, exponent, ok := strings.Cut(strconv.FormatFloat(v, 'E', -1, 64), "E")
	if !ok {
		return mantissa // not a number, or no end to it
	}
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent) // it is one
	return mantissa + "E" + strconv.Itoa(n)
}
