// Package extension lists the features of queues that SQS does not have. A tag of the queue
// switches each on, because every SDK, the AWS command line and Terraform can set a tag.
//
// It guarantees that there is one list. The server checks tags with it, and tables, the command
// line and the HTTP API explain tags with it. What the server does about a tag is left to package
// engine.
package extension

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Prefix begins the keys of these tags. SQS gives no meaning to any key. [TAG-10]
const Prefix = "tenaq:"

// The keys.
const (
	DedupWindowTag      = Prefix + "dedup-window"
	DelayMaxTag         = Prefix + "delay-max"
	Fair                = Prefix + "fair"
	OnDeadLetter        = Prefix + "fifo-on-dead-letter"
	History             = Prefix + "history"
	MaxInFlight         = Prefix + "max-in-flight"
	MaxInFlightPerGroup = Prefix + "max-in-flight-per-group"
	Paused              = Prefix + "paused"
	Priority            = Prefix + "priority"
	RateTag             = Prefix + "rate"
	RetryTag            = Prefix + "retry"
	ScheduleTag         = Prefix + "schedule"
	StrictHandles       = Prefix + "strict-handles"
)

// An Extension is what one tag switches on.
type Extension struct {
	Tag      string
	Values   string // what a value may be, for tables
	Example  string
	Does     string // what it switches on, for tables: a sentence
	Rules    string // of docs/semantics, for tables
	FIFOOnly bool   // standard queues cannot have it, for the reason that the table gives

	StandardOnly bool // FIFO queues cannot have it

	must string                    // what a value must be, for a refusal
	why  func(value string) string // what is wrong with a value, if that is known better; or nil
	read func(value string, s *Set) bool
	says func(s *Set) string // what a valid value switches on, in a few words
}

// All are the extensions there are, in order of their tags.
var All = []Extension{
	{
		Tag: DedupWindowTag, Example: "7d", Values: "a time from `300s` to `365d`",
		Does: "A deduplication id is remembered for this long. On standard queues, the id is the " +
			"message attribute `tenaq.dedup-id`.",
		Rules: "EXT-29 to EXT-36",
		must:  "Must be a whole number and a unit (s, m, h or d), from 5m to 365d, such as 7d.",
		read:  readWindow, says: sayWindow,
	},
	{
		Tag: DelayMaxTag, Example: "90d", Values: "a time from `60s` to `365d`",
		Does:  "The message attributes `tenaq.delay` and `tenaq.deliver-at` delay a message for at most this long.",
		Rules: "EXT-24 to EXT-28", StandardOnly: true,
		must: "Must be a whole number and a unit (s, m, h or d), from 1m to 365d, such as 90d.",
		read: readDelayMax, says: sayDelayMax,
	},
	{
		Tag: Fair, Example: "true", Values: "`true`",
		Does:  "Receives serve the message groups with the fewest messages in flight first.",
		Rules: "EXT-37 to EXT-43", StandardOnly: true,
		must: "Must be true. Remove the tag to switch it off.",
		read: func(value string, s *Set) bool { return readTrue(value, &s.Fair) },
		says: func(*Set) string {
			return "fair: the groups with the fewest messages in flight are served first"
		},
	},
	{
		Tag: OnDeadLetter, Example: "hold-group", Values: "`hold-group`",
		Does: "A dead letter holds its message group: nothing of it is delivered until the dead letter " +
			"is back, deleted or moved elsewhere.",
		Rules: "HOLD-1 to HOLD-12", FIFOOnly: true,
		must: "Must be hold-group. Remove the tag to switch it off.",
		read: func(value string, s *Set) bool {
			s.HoldGroup = value == "hold-group"
			return s.HoldGroup
		},
		says: func(*Set) string { return "a dead letter holds its message group" },
	},
	{
		Tag: History, Example: "7d/1GiB",
		Values: "an age from `1m` to `3650d`, a size from `1MiB` to `1024TiB`, or both",
		Does:   "Messages that have ended are kept, with how they ended.",
		Rules:  "HIST-1 to HIST-6",
		must: "Must be an age from 1m to 3650d, such as 7d, a size from 1MiB to 1024TiB, " +
			"such as 1GiB, or both, such as 7d/1GiB.",
		read: readHistory, says: sayHistory,
	},
	{
		Tag: MaxInFlight, Example: "20", Values: "a whole number from `1` to `120000`",
		Does:  "At most this many messages are in flight. Receives beyond that get fewer or none, and no error.",
		Rules: "EXT-7 to EXT-9", must: "Must be a whole number from 1 to 120000, such as 20.",
		read: func(value string, s *Set) bool {
			return readCount(value, InFlightMax, &s.MaxInFlight)
		},
		says: func(s *Set) string {
			return "at most " + counted(s.MaxInFlight, "message is", "messages are") + " in flight"
		},
	},
	{
		Tag: MaxInFlightPerGroup, Example: "1",
		Values: "a whole number from `1` to `9`, on a standard queue up to `120000`",
		Does:   "At most this many messages of a message group are in flight. A standard queue needs `tenaq:fair` too.",
		Rules:  "EXT-10, EXT-11, EXT-44",
		must:   "Must be a whole number from 1 to 120000, such as 1.",
		read: func(value string, s *Set) bool {
			return readCount(value, InFlightMax, &s.MaxInFlightPerGroup)
		},
		says: func(s *Set) string {
			return "at most " + counted(s.MaxInFlightPerGroup, "message of a group is",
				"messages of a group are") + " in flight"
		},
	},
	{
		Tag: Paused, Example: "true", Values: "`true`",
		Does:  "No message is delivered. Sends, deletes and everything else continue.",
		Rules: "EXT-1 to EXT-4", must: "Must be true. Remove the tag to end the pause.",
		read: func(value string, s *Set) bool { return readTrue(value, &s.Paused) },
		says: func(*Set) string { return "paused: no message is delivered" },
	},
	{
		Tag: Priority, Example: "1m", Values: "a time from `1s` to `14d`",
		Does: "Messages with a larger number in the message attribute `tenaq.priority`, from 0 to 9, " +
			"are delivered first. This much waiting is worth one number.",
		Rules: "EXT-46 to EXT-53", StandardOnly: true,
		must: "Must be a time from 1s to 14d, such as 1m: for how long a message waits to become " +
			"one level more urgent.",
		read: func(value string, s *Set) (ok bool) {
			s.Priority, ok = measure(value, times, stepMin, stepMax)
			return ok
		},
		says: func(s *Set) string {
			return "urgent messages come first, and " + inUnits(s.Priority, times) +
				" of waiting is worth one level"
		},
	},
	{
		Tag: RateTag, Example: "50/s",
		Values: "a whole number from `1` to `100000`, and `/s`, `/m` or `/h`; the default is `/s`",
		Does:   "At most this many messages are delivered per second, minute or hour. Long polls wait for their turn.",
		Rules:  "EXT-12 to EXT-16",
		must: "Must be a whole number from 1 to 100000 for each second, minute or hour, " +
			"such as 50/s, 6/m or 10/h.",
		read: readRate, says: sayRate,
	},
	{
		Tag: RetryTag, Example: "10s..15m",
		Values: "a pause from `1s` to `12h`; or the first pause and the longest, and `/x` and a factor " +
			"from `2` to `10`; the default is `/x2`",
		Does:  "After a failed attempt, a message waits for this pause before it is delivered again.",
		Rules: "EXT-17 to EXT-23",
		must: "Must be a pause from 1s to 12h, such as 10s, or the first pause and the longest, " +
			"such as 10s..15m or 10s..15m/x3.",
		read: readRetry, says: sayRetry,
	},
	{
		Tag: ScheduleTag, Example: "0 3 x x x", Values: "`@hourly`, `@daily`, `@weekly`, `@monthly`, " +
			"`@every` and a time from `1s` to `365d`, or five fields of cron, optionally followed by ` body=` and a text",
		Does:  "The queue gets a message at each tick, in UTC. `tenaq:schedule.NAME` adds further schedules.",
		Rules: "SCHED-1 to SCHED-12",
		must: "Must be @hourly, @daily, @weekly, @monthly, @every and a time from 1s to 365d, such as " +
			"@every 90s, or five fields of cron, with x for * and + for a comma, such as 0 3 x x x, " +
			"optionally followed by body= and a text.",
		why: whyNoSchedule,
		read: func(value string, s *Set) (ok bool) {
			plan, ok := ReadSchedule(value)
			if known := s.Schedule.every; ok && (s.Schedule.when == "" ||
				plan.every > 0 && (known == 0 || plan.every < known)) {
				s.Schedule = plan
			}
			return ok
		},
		says: func(s *Set) string { return "sends a message at each tick of " + s.Schedule.when },
	},
	{
		Tag: StrictHandles, Example: "true", Values: "`true`",
		Does:  "Only the newest receipt handle of a message deletes it or changes its visibility.",
		Rules: "EXT-5, EXT-6", must: "Must be true. Remove the tag to switch it off.",
		read: func(value string, s *Set) bool { return readTrue(value, &s.StrictHandles) },
		says: func(*Set) string {
			return "only the newest receipt handle of a message is valid"
		},
	},
}

// A Set is what the tags of a queue switch on. Zero values are off.
type Set struct {
	DelayMax            int64 // in milliseconds
	DedupWindow         int64 // in milliseconds
	Fair                bool
	History             Bounds
	HoldGroup           bool
	MaxInFlight         int64
	MaxInFlightPerGroup int64
	Paused              bool
	Priority            int64 // how long a message waits for another level, in milliseconds
	Rate                Rate
	Retry               Backoff
	Schedule            Schedule // the one with the shortest time between ticks, if one has it
	StrictHandles       bool
}

// InFlightMax is how many messages of a queue may be in flight on SQS. A receive of a FIFO queue
// returns ten messages of a group at most, so ten is no bound there.
const (
	InFlightMax = 120_000
	perGroupMax = 9
)

// The steps of priorities. No message waits for longer than the longest retention. [EXT-47]
const (
	stepMin = 1000
	stepMax = 14 * 24 * 3600 * 1000
)

// The units of times.
var times = append(ages[:len(ages):len(ages)], unit{"s", 1000})

// Names lists what the tags switch on, in words.
func Names() string {
	names := make([]string, len(All))
	for i := range All {
		names[i] = strings.TrimPrefix(All[i].Tag, Prefix)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// find returns the extension that a tag switches on.
func find(tag string) (x *Extension, ok bool) {
	if _, ok := ScheduleName(tag); ok {
		tag = ScheduleTag
	}
	for i := range All {
		if All[i].Tag == tag {
			return &All[i], true
		}
	}
	return nil, false
}

// Check returns why a queue cannot have a tag whose key has the prefix; empty if it can.
// OfValue says whether the value is the reason. [TAG-10]
func Check(tag, value string, fifo bool) (reason string, ofValue bool) {
	x, ok := find(tag)
	switch {
	case !ok && strings.HasPrefix(tag, schedulePrefix): // [SCHED-3]
		return "The name of a schedule must be 1 to 64 letters, digits, hyphens and underscores, " +
			"and not default; rename the tag " + tag + ".", false
	case !ok:
		return "This server has no extension named by the tag " + tag + "; it has " + Names() +
			".", false
	case tag == MaxInFlightPerGroup && fifo && !readCount(value, perGroupMax, new(int64)):
		return "Must be a whole number from 1 to 9, such as 1.", true
	case !x.read(value, new(Set)):
		if x.why != nil {
			return cmp.Or(x.why(value), x.must), true
		}
		return x.must, true
	case x.FIFOOnly && !fifo:
		return "The tag " + tag + " is for FIFO queues; leave the tag out.", false
	case x.StandardOnly && fifo:
		return "The tag " + tag + " is for standard queues; leave the tag out.", false
	}
	return "", false
}

// CheckTogether returns why a queue cannot have these tags together; empty if it can.
// [EXT-11, EXT-53]
func CheckTogether(tags []string, fifo bool) (reason string) {
	if !fifo && slices.Contains(tags, MaxInFlightPerGroup) && !slices.Contains(tags, Fair) {
		return "On a standard queue, the tag " + MaxInFlightPerGroup + " needs the tag " + Fair +
			"; set both, or remove both."
	}
	if slices.Contains(tags, Fair) && slices.Contains(tags, Priority) {
		return "The tags " + Fair + " and " + Priority + " exclude each other; leave one out."
	}
	return ""
}

// Add adds what a tag switches on. Other tags, and what Check refuses, switch nothing on.
func (s *Set) Add(tag, value string) {
	if !strings.HasPrefix(tag, Prefix) {
		return
	}
	if x, ok := find(tag); ok {
		with := *s
		if x.read(value, &with) {
			*s = with
		}
	}
}

// Explain says in a few words what a tag switches on; empty for a tag that switches nothing on.
func Explain(tag, value string) string {
	x, ok := find(tag)
	if !ok {
		return ""
	}
	var s Set
	if !x.read(value, &s) {
		return ""
	}
	return x.says(&s)
}

func readTrue(value string, to *bool) bool {
	*to = value == "true"
	return *to
}

// readCount reads a whole number from 1 to most, in digits alone.
func readCount(value string, most int64, to *int64) bool {
	n, err := strconv.ParseInt(value, 10, 64)
	if *to = n; err != nil || n < 1 || n > most || value != strconv.FormatInt(n, 10) {
		return false
	}
	return true
}

func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}

// measure reads a whole number, in digits alone, with a unit; zero and false if it is none, or not
// within its bounds.
func measure(text string, units []unit, least, most int64) (int64, bool) {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || digits != strconv.FormatInt(n, 10) {
		return 0, false
	}
	for _, u := range units {
		if u.name == text[len(digits):] && n >= 0 && n <= most/u.size && n*u.size >= least {
			return n * u.size, true
		}
	}
	return 0, false
}

// A unit of a value, the largest first.
type unit struct {
	name string
	size int64
}

// inUnits writes a number with the largest unit that leaves nothing over.
func inUnits(n int64, units []unit) string {
	for _, u := range units {
		if n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
