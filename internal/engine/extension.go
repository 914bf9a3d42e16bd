package engine

import (
	"strconv"
	"strings"

	"tenaq/internal/engine/row"
)

// Extensions are what SQS does not have. A tag of the queue switches one on. [TAG-10]

// extensionPrefix begins the keys of these tags.
const extensionPrefix = "tenaq:"

// extensions are the tags that there are. Each has a function that refuses wrong values.
var extensions = map[string]func(value string) *Error{
	row.HistoryTag: checkHistoryTag,
}

// checkExtension refuses a tag whose extension there is not, or whose value it does not take.
func checkExtension(t Tag) *Error {
	check, ok := extensions[t.Key]
	if !ok {
		return invalid("This server has no extension named by the tag " + t.Key +
			"; leave the tag out.")
	}
	return check(t.Value)
}

// applyExtensions follows the tags of a queue after a change.
func (e *Engine) applyExtensions(q *queue) {
	on := q.past != nil
	if q.readExtensions(); on && q.past == nil {
		e.rows.deleteRange(row.WholeHistory(q.row.Incarnation)) // [HIST-4]
	}
}

// readExtensions reads the tags of a queue.
func (q *queue) readExtensions() {
	i, found := searchTag(q.row.Tags, row.HistoryTag)
	if !found {
		q.past = nil
		return
	}
	if q.past == nil {
		q.past = &past{}
	}
	q.past.bounds, _ = parseHistoryBounds(q.row.Tags[i].Value)
}

// historyBounds are for how long a history is kept, in milliseconds, and how large it may be, in
// bytes; zero for no bound.
type historyBounds struct{ age, size int64 }

// The bounds that a tag may set.
const (
	historyAgeMin  = 60 * 1000
	historyAgeMax  = 3650 * 24 * 3600 * 1000
	historySizeMin = 1 << 20
	historySizeMax = 1 << 50
)

// Units of the value of the tag.
var (
	historyAges = map[string]int64{"m": 60 * 1000, "h": 3600 * 1000, "d": 24 * 3600 * 1000}

	historySizes = map[string]int64{"MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
)

// parseHistoryBounds reads an age such as 7d, a size such as 1GiB, or both: 7d/1GiB.
func parseHistoryBounds(value string) (b historyBounds, ok bool) {
	age, size, both := strings.Cut(value, "/")
	if !both {
		if b.age, ok = measure(age, historyAges, historyAgeMin, historyAgeMax); !ok {
			b.size, ok = measure(age, historySizes, historySizeMin, historySizeMax)
		}
		return b, ok
	}
	if b.age, ok = measure(age, historyAges, historyAgeMin, historyAgeMax); ok {
		b.size, ok = measure(size, historySizes, historySizeMin, historySizeMax)
	}
	return b, ok
}

// measure reads a whole number with a unit; zero and false if it is none, or not within its bounds.
func measure(text string, units map[string]int64, least, most int64) (int64, bool) {
	digits := strings.TrimRight(text, "dhmMGTiB")
	unit, known := units[text[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !known || err != nil || n < 0 || n > most/unit || n*unit < least {
		return 0, false
	}
	return n * unit, true
}

// checkHistoryTag refuses a value that says neither for how long nor how much. [HIST-3]
func checkHistoryTag(value string) *Error {
	if _, ok := parseHistoryBounds(value); !ok {
		return errValue(value, row.HistoryTag, "Must be an age from 1m to 3650d, such as 7d, "+
			"a size from 1MiB to 1024TiB, such as 1GiB, or both, such as 7d/1GiB.")
	}
	return nil
}
