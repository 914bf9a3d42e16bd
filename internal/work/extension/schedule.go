package extension

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// The tag tenaq:schedule has the schedule named default, and tenaq:schedule.NAME one more.
// [SCHED-3]
const (
	scheduleDefault = "default"
	schedulePrefix  = ScheduleTag + "."
	scheduleNameMax = 64
)

// ScheduleName returns the name of the schedule that a tag has; false if it has none.
func ScheduleName(tag string) (name string, ok bool) {
	if tag == ScheduleTag {
		return scheduleDefault, true
	}
	name, ok = strings.CutPrefix(tag, schedulePrefix)
	return name, ok && name != "" && name != scheduleDefault && len(name) <= scheduleNameMax &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// A Schedule is a list of ticks without end, in UTC. Its zero value is none.
type Schedule struct {
	Body  string // of the messages; empty for the default
	when  string // the expression, as it was written
	every int64  // between two ticks, in milliseconds; zero if the fields say when

	minutes, hours, days, months, weekdays uint64 // a bit for each value
	anyDay, anyWeekday                     bool
}

const (
	minuteMs = 60_000
	dayMs    = 24 * 60 * minuteMs

	// daysMax is how many days there are at most between two ticks, rounded up: 29 February can be
	// eight years away.
	daysMax = 9 * 366
)

// shorthands are what the words mean. [SCHED-2]
var shorthands = map[string]string{
	"@hourly": "0 x x x x", "@daily": "0 0 x x x", "@weekly": "0 0 x x 0", "@monthly": "0 0 1 x x",
}

// The names of months and weekdays stand for the numbers from first on.
var (
	monthNames   = strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")
	weekdayNames = strings.Fields("SUN MON TUE WED THU FRI SAT")
)

// A cronField is what stands in one place of a cron expression.
type cronField struct {
	name        string
	least, most int
	names       []string // of the values from least on
}

var cronFields = []cronField{
	{"minute", 0, 59, nil}, {"hour", 0, 23, nil}, {"day of the month", 1, 31, nil},
	{"month", 1, 12, monthNames}, {"weekday", 0, 7, weekdayNames},
}

// read reads a field: a bit for each value.
func (f *cronField) read(text string) (set uint64, ok bool) {
	for part := range strings.SplitSeq(text, "+") {
		values, ok := readPart(part, f.least, f.most, f.names)
		if !ok {
			return 0, false
		}
		set |= values
	}
	return set, true
}

// whyNoSchedule says what is wrong with a value that ReadSchedule does not take.
func whyNoSchedule(value string) string {
	when, body, given := strings.Cut(value, " body=")
	switch {
	case given && body == "":
		return "A text must follow body=, or leave that out."
	case strings.ContainsFunc(body, unicode.IsControl):
		return "The body must be one line."
	case strings.HasPrefix(when, "@every"):
		return "After @every must come a whole number and a unit (s, m, h or d), from 1s to 365d, " +
			"such as @every 90s."
	case strings.HasPrefix(when, "@"):
		return "Must be @hourly, @daily, @weekly, @monthly or @every and a time; anything else is " +
			"written as five fields of cron, such as 0 3 x x x."
	}
	fields := strings.Split(when, " ")
	if len(fields) != len(cronFields) {
		return fmt.Sprintf("Must be five fields of cron with one space between them, such as "+
			"0 3 x x x, and has %d. Times are in UTC.", len(fields))
	}
	for i := range cronFields {
		if f := &cronFields[i]; !f.takes(fields[i]) {
			return fmt.Sprintf("The %s %s must be x, a value from %d to %d, a rising range such as "+
				"1-5, or several of these joined with +, each with a step such as /2 if needed.",
				f.name, fields[i], f.least, f.most)
		}
	}
	return "No date matches: no month that it names has such a day."
}

func (f *cronField) takes(text string) bool { _, ok := f.read(text); return ok }

// ReadSchedule reads the value of a tag. Tags can have no asterisk and no comma, so x stands for
// the one and + for the other. [SCHED-1, SCHED-2]
func ReadSchedule(value string) (s Schedule, ok bool) {
	when, body, given := strings.Cut(value, " body=")
	if given && body == "" || strings.ContainsFunc(body, unicode.IsControl) {
		return Schedule{}, false
	}
	s = Schedule{Body: body, when: when}
	if text, found := strings.CutPrefix(when, "@every "); found {
		s.every, ok = measure(text, times, 1000, 365*dayMs)
		if !ok {
			return Schedule{}, false
		}
		return s, true
	}
	fields := strings.Split(cmp.Or(shorthands[when], when), " ")
	if len(fields) != 5 {
		return Schedule{}, false
	}
	for i, to := range []*uint64{&s.minutes, &s.hours, &s.days, &s.months, &s.weekdays} {
		if *to, ok = cronFields[i].read(fields[i]); !ok {
			return Schedule{}, false
		}
	}
	s.weekdays |= s.weekdays >> 7 & 1 // 7 is Sunday too
	s.anyDay, s.anyWeekday = fields[2] == "x", fields[4] == "x"
	if _, ok = s.Next(0); !ok { // 30 February
		return Schedule{}, false
	}
	return s, true
}

// readPart reads one element of a field: x, a value or a range, with or without a step. A value
// with a step goes on to the end of the field.
func readPart(part string, least, most int, names []string) (set uint64, ok bool) {
	part, text, stepped := strings.Cut(part, "/")
	step := 1
	if stepped {
		if step, ok = readValue(text, 1, most, nil); !ok {
			return 0, false
		}
	}
	low, high := least, most
	if part != "x" {
		from, to, ranged := strings.Cut(part, "-")
		if low, ok = readValue(from, least, most, names); !ok {
			return 0, false
		}
		if ranged {
			if high, ok = readValue(to, least, most, names); !ok || high < low {
				return 0, false
			}
		} else if !stepped {
			high = low
		}
	}
	for v := low; v <= high; v += step {
		set |= 1 << v
	}
	return set, true
}

// readValue reads a number, in digits alone, or a name.
func readValue(text string, least, most int, names []string) (v int, ok bool) {
	if i := slices.Index(names, strings.ToUpper(text)); i >= 0 {
		return i + least, true
	}
	v, err := strconv.Atoi(text)
	return v, err == nil && strings.Trim(text, "0123456789") == "" && len(text) <= 2 &&
		least <= v && v <= most
}

// Next returns the first tick after a time; false if there is none. Times are in Unix milliseconds.
func (s *Schedule) Next(after int64) (tick int64, ok bool) {
	if s.every > 0 {
		return (after/s.every + 1) * s.every, true
	}
	first := (after/minuteMs + 1) * minuteMs
	for day := first / dayMs; day < first/dayMs+daysMax; day++ {
		if !s.hasDay(day) {
			continue
		}
		for at := max(first, day*dayMs); at < (day+1)*dayMs; at += minuteMs {
			if s.hasMinute(at) {
				return at, true
			}
		}
	}
	return 0, false
}

// Last returns the last tick until a time, that time included; false if there is none.
func (s *Schedule) Last(until int64) (tick int64, ok bool) {
	if s.every > 0 {
		return until / s.every * s.every, true
	}
	last := until / minuteMs * minuteMs
	for day := last / dayMs; day > last/dayMs-daysMax; day-- {
		if !s.hasDay(day) {
			continue
		}
		for at := min(last, (day+1)*dayMs-minuteMs); at >= day*dayMs; at -= minuteMs {
			if s.hasMinute(at) {
				return at, true
			}
		}
	}
	return 0, false
}

func (s *Schedule) hasMinute(at int64) bool {
	minute := at % dayMs / minuteMs
	return s.hours>>(minute/60)&1 == 1 && s.minutes>>(minute%60)&1 == 1
}

// hasDay reports whether a day has ticks, counted from 1 January 1970. If both the day of the month
// and the weekday are restricted, one of them is enough. [SCHED-2]
func (s *Schedule) hasDay(day int64) bool {
	t := time.Unix(day*(dayMs/1000), 0).UTC()
	ofMonth := s.days>>t.Day()&1 == 1
	ofWeek := s.weekdays>>int(t.Weekday())&1 == 1
	if s.anyDay || s.anyWeekday {
		return s.months>>int(t.Month())&1 == 1 && ofMonth && ofWeek
	}
	return s.months>>int(t.Month())&1 == 1 && (ofMonth || ofWeek)
}

// SayTick writes a tick as in RFC 3339, in UTC. [SCHED-4]
func SayTick(tick int64) string { return time.UnixMilli(tick).UTC().Format(time.RFC3339) }
