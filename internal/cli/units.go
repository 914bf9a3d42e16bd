package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

func ParseCount(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a whole number above zero", v)
	}
	return n, nil
}

// ParseDuration reads a Go duration that is not negative and may begin with days: 4d, 1d12h. A bare
// number is refused, because it could mean seconds or milliseconds. Only zero needs no unit.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if days, rest, ok := strings.Cut(s, "d"); ok {
		d, err = daysAnd(days, rest)
	}
	switch {
	case err != nil:
		if _, bare := strconv.ParseUint(s, 10, 64); bare == nil {
			return 0, fmt.Errorf("%q has no unit; write %ss for seconds", s, s)
		}
		return 0, fmt.Errorf("%q is not a duration such as 90s or 5m", s)
	case d < 0:
		return 0, fmt.Errorf("%q is negative", s)
	}
	return d, nil
}

// daysAnd reads a number of days and the rest of a duration, which may be empty.
func daysAnd(days, rest string) (time.Duration, error) {
	const daysMax = 100_000 // what fits into a Duration
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || n > daysMax {
		return 0, fmt.Errorf("%q is not a number of days", days)
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 || more >= 24*time.Hour {
		return 0, fmt.Errorf("%q is not less than a day", rest)
	}
	return d + more, nil
}

func SomeDuration(v string) (time.Duration, error) {
	d, err := ParseDuration(v)
	if err == nil && d == 0 {
		err = fmt.Errorf("%q is not more than zero", v)
	}
	return d, err
}

// ParseSeconds reads a duration that SQS takes: whole seconds, at most limit.
func ParseSeconds(s string, limit time.Duration) (int32, error) {
	d, err := ParseDuration(s)
	switch {
	case err != nil:
		return 0, err
	case d%time.Second != 0:
		return 0, fmt.Errorf("%q is not a whole number of seconds", s)
	case d > limit:
		return 0, fmt.Errorf("%q is more than SQS allows, %s", s, HumanDuration(limit))
	}
	return int32(d / time.Second), nil
}

// SecondsUpTo reads seconds like ParseSeconds, for a flag that may be unset.
func SecondsUpTo(limit time.Duration) func(string) (*int32, error) {
	return func(s string) (*int32, error) {
		n, err := ParseSeconds(s, limit)
		return &n, err
	}
}

func OneOf(words ...string) func(string) (string, error) {
	return func(v string) (string, error) {
		switch {
		case slices.Contains(words, v):
			return v, nil
		case len(words) == 2:
			return "", fmt.Errorf("%q is neither %s nor %s", v, words[0], words[1])
		}
		return "", fmt.Errorf("%q is not one of %s", v, strings.Join(words, ", "))
	}
}

// The units of a size, largest first. A single letter is no unit: 512M is ambiguous.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1},
}

// ParseSize reads a number of bytes such as 512MiB, 1GB or 4096.
func ParseSize(s string) (int64, error) {
	digits, unit := s, int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			digits, unit = strings.TrimRight(rest, " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && n > math.MaxInt64/unit:
		return 0, fmt.Errorf("%q is too large", s)
	case err != nil:
		return 0, fmt.Errorf("%q is not a size such as 512MiB or 1GB", s)
	case n < 0:
		return 0, fmt.Errorf("%q is negative", s)
	}
	return n * unit, nil
}

// HumanSize formats a number of bytes in the largest binary unit without loss, or with one decimal.
func HumanSize(n int64) string {
	for _, u := range sizeUnits[:4] {
		switch {
		case n >= u.bytes && n%u.bytes == 0:
			return fmt.Sprintf("%d %s", n/u.bytes, u.name)
		case n >= 10*u.bytes:
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.bytes), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// HumanDuration formats a duration in whole seconds: 1 day 2 h 3 min.
func HumanDuration(d time.Duration) string {
	if d < time.Second {
		return "0 s"
	}
	var parts []string
	for _, u := range []struct {
		unit     time.Duration
		one, all string
	}{
		{24 * time.Hour, "day", "days"}, {time.Hour, "h", "h"}, {time.Minute, "min", "min"},
		{time.Second, "s", "s"},
	} {
		n := d / u.unit
		d -= n * u.unit
		switch n {
		case 0:
		case 1:
			parts = append(parts, "1 "+u.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, u.all))
		}
	}
	return strings.Join(parts, " ")
}

// ShortDuration formats a duration with up to three figures, such as 1.25 ms.
func ShortDuration(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "us"}} {
		if n := float64(d) / float64(u.unit); n >= 1 {
			return fmt.Sprintf("%.3g %s", n, u.name)
		}
	}
	return fmt.Sprintf("%d ns", d)
}

// HumanTime formats a moment and how long ago it was, in the largest unit.
func HumanTime(t, now time.Time) string {
	s := t.UTC().Format(time.RFC3339)
	if ago := now.Sub(t); ago >= time.Second {
		s += ", " + RoughDuration(ago) + " ago"
	}
	return s
}

func RoughDuration(d time.Duration) string {
	for _, u := range []time.Duration{24 * time.Hour, time.Hour, time.Minute} {
		if d >= u {
			return HumanDuration(d.Truncate(u))
		}
	}
	return HumanDuration(d)
}
