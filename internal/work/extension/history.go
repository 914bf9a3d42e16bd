package extension

import "strings"

// Bounds are for how long a history is kept, in milliseconds, and how large it may be, in bytes;
// zero for no bound.
type Bounds struct{ Age, Size int64 }

// The bounds that a tag may set. [HIST-3]
const (
	ageMin  = 60 * 1000
	ageMax  = 3650 * 24 * 3600 * 1000
	sizeMin = 1 << 20
	sizeMax = 1 << 50
)

var (
	ages = []unit{{"d", 24 * 3600 * 1000}, {"h", 3600 * 1000}, {"m", 60 * 1000}}

	sizes = []unit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}}
)

// readHistory reads an age such as 7d, a size such as 1GiB, or both: 7d/1GiB.
func readHistory(value string, s *Set) (ok bool) {
	b := &s.History
	age, size, both := strings.Cut(value, "/")
	if b.Age, ok = measure(age, ages, ageMin, ageMax); both && ok {
		b.Size, ok = measure(size, sizes, sizeMin, sizeMax)
	} else if !both && !ok {
		b.Size, ok = measure(age, sizes, sizeMin, sizeMax)
	}
	return ok
}

func sayHistory(s *Set) string {
	text := "messages that have ended are kept"
	if s.History.Age > 0 {
		text += " for " + inUnits(s.History.Age, ages)
	}
	if s.History.Age > 0 && s.History.Size > 0 {
		text += ","
	}
	if s.History.Size > 0 {
		text += " up to " + inUnits(s.History.Size, sizes)
	}
	return text
}
