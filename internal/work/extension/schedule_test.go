package extension

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// matches says whether a field that was drawn has a value. It expands the text, and shares nothing
// with the parser.
func matches(field string, value, least, most int) bool {
	for part := range strings.SplitSeq(field, "+") {
		span, step, _ := strings.Cut(part, "/")
		from, to, ranged := strings.Cut(span, "-")
		low, _ := strconv.Atoi(from)
		high, _ := strconv.Atoi(to)
		by, _ := strconv.Atoi(step)
		switch {
		case span == "x":
			low, high = least, most
		case !ranged && by > 0:
			high = most
		case !ranged:
			high = low
		}
		for v := low; v <= high; v += max(by, 1) {
			if v == value {
				return true
			}
		}
	}
	return false
}

// hasTick says whether five fields have a tick in a minute.
func hasTick(fields []string, t time.Time) bool {
	weekday := matches(fields[4], int(t.Weekday()), 0, 7) ||
		t.Weekday() == time.Sunday && matches(fields[4], 7, 0, 7)
	day := matches(fields[2], t.Day(), 1, 31)
	both := day && weekday
	if fields[2] != "x" && fields[4] != "x" {
		both = day || weekday
	}
	return matches(fields[0], t.Minute(), 0, 59) && matches(fields[1], t.Hour(), 0, 23) &&
		matches(fields[3], int(t.Month()), 1, 12) && both
}

// Next and Last find what a search minute by minute finds. [SCHED-2]
func TestScheduleMinuteByMinute(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	field := func(least, most int) string {
		n := func() int { return least + r.IntN(most-least+1) }
		switch r.IntN(8) {
		case 0:
			return strconv.Itoa(n())
		case 1:
			return fmt.Sprintf("%d+%d", n(), n())
		case 2:
			a, b := n(), n()
			return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
		case 3:
			return fmt.Sprintf("x/%d", 1+r.IntN(most))
		case 4:
			a, b := n(), n()
			return fmt.Sprintf("%d-%d/%d+%d", min(a, b), max(a, b), 1+r.IntN(most), n())
		case 5:
			return fmt.Sprintf("%d/%d", n(), 1+r.IntN(most))
		}
		return "x"
	}
	begin := time.Date(2027, 12, 20, 0, 0, 0, 0, time.UTC)
	const minutes = 100 * 24 * 60 // over the end of a year and 29 February
	for range 40 {
		fields := []string{field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7)}
		text := strings.Join(fields, " ")
		s, ok := ReadSchedule(text)
		if !ok {
			if fields[4] == "x" && fields[3] != "x" {
				continue // perhaps 31 June
			}
			t.Fatalf("%q is refused", text)
		}
		var ticks []int64
		for i := range minutes {
			if at := begin.Add(time.Duration(i) * time.Minute); hasTick(fields, at) {
				ticks = append(ticks, at.UnixMilli())
			}
		}
		for range 30 {
			now := begin.UnixMilli() + r.Int64N(minutes*minuteMs)
			if r.IntN(2) == 0 && len(ticks) > 0 {
				now = ticks[r.IntN(len(ticks))] + int64(r.IntN(3)) - 1
			}
			i, _ := slices.BinarySearch(ticks, now+1)
			if i < len(ticks) {
				if got, _ := s.Next(now); got != ticks[i] {
					t.Fatalf("%q after %d: %d, want %d", text, now, got, ticks[i])
				}
			}
			if i > 0 {
				if got, _ := s.Last(now); got != ticks[i-1] {
					t.Fatalf("%q until %d: %d, want %d", text, now, got, ticks[i-1])
				}
			}
		}
	}
}

// The meaning of the words, and rare schedules. [SCHED-2]
func TestScheduleTicks(t *testing.T) {
	for _, tt := range []struct{ value, after, want, body string }{
		{"@hourly", "2027-01-31T23:00:00Z", "2027-02-01T00:00:00Z", ""},
		{"@daily", "2027-01-31T22:59:59Z", "2027-02-01T00:00:00Z", ""},
		{"@weekly", "2027-01-31T00:00:00Z", "2027-02-07T00:00:00Z", ""},
		{"@monthly", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z", ""},
		{"@every 90s", "2027-01-01T00:00:00Z", "2027-01-01T00:01:30Z", ""},
		{"@every 6h body=a b=c", "2027-01-01T05:59:59Z", "2027-01-01T06:00:00Z", "a b=c"},
		{"30 2 29 2 x", "2096-02-29T02:30:00Z", "2104-02-29T02:30:00Z", ""},
		{"0 9 x x mon-FRI", "2027-01-01T09:00:00Z", "2027-01-04T09:00:00Z", ""},
		{"0 0 13 x FRI", "2027-01-01T00:00:00Z", "2027-01-08T00:00:00Z", ""},
		{"0 0 x jan 7", "2027-01-31T00:00:00Z", "2028-01-02T00:00:00Z", ""},
	} {
		s, ok := ReadSchedule(tt.value)
		after, _ := time.Parse(time.RFC3339, tt.after)
		next, _ := s.Next(after.UnixMilli())
		if got := time.UnixMilli(next).UTC().Format(time.RFC3339); !ok || got != tt.want ||
			s.Body != tt.body {
			t.Errorf("%s after %s: %s with body %q, %v; want %s", tt.value, tt.after, got, s.Body, ok,
				tt.want)
		}
		if last, _ := s.Last(next); last != next {
			t.Errorf("%s: the last tick at a tick is %d, want %d", tt.value, last, next)
		}
	}
	for _, value := range []string{"* * * * *", "x x x x", "x x x x x x", "60 x x x x", "x 24 x x x",
		"x x 0 x x", "x x x 13 x", "x x x x 8", "x/0 x x x x", "5-3 x x x x", "1+ x x x x",
		"+1 x x x x", "0 0 30 2 x", "0  0 x x x", " 0 0 x x x", "@every 500s1", "@every 0s", "@every 366d",
		"@every", "@yearly", "x x x x x body=", "x x x x x body=a\vb", "x x x x xbody=a",
		"001 x x x x", "MON x x x x"} {
		if s, ok := ReadSchedule(value); ok {
			t.Errorf("%q is read as %+v", value, s)
		}
	}
}

// A schedule that cannot be says which part of it is wrong.
func TestWhyNoSchedule(t *testing.T) {
	for value, want := range map[string]string{
		"0 3 x x":             "has 4. Times are in UTC.",
		"0  3 x x x":          "has 6.",
		"0 3 x x x body=":     "A text must follow body=",
		"0 3 x x x body=a\tb": "The body must be one line.",
		"@every 1w":           "After @every must come a whole number and a unit",
		"@yearly":             "anything else is written as five fields of cron",
		"0 24 x x x":          "The hour 24 must be x, a value from 0 to 23",
		"0 3 x x FRI-SUN":     "The weekday FRI-SUN must be x, a value from 0 to 7, a rising range",
		"0 0 30 2 x":          "No date matches",
	} {
		if reason, ofValue := Check(ScheduleTag, value, false); !ofValue || !strings.Contains(reason, want) {
			t.Errorf("%q: got %q, want %q", value, reason, want)
		}
	}
}
