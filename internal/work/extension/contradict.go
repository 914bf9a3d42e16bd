package extension

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// A Queue is what tags may contradict besides each other.
type Queue struct {
	Name      string
	FIFO      bool
	Tags      map[string]string // all of them
	Dead      bool              // dead letters of other queues come here
	Retention int64             // in milliseconds; zero if it is not known
	ByContent bool              // deduplication ids are made from bodies
	Redrives  bool              // it has a redrive policy
	Itself    bool              // which names the queue itself
	Receives  int               // maxReceiveCount of the policy
}

// schedules counts the schedules of a queue, and their messages in 28 years.
func (q *Queue) schedules() (n int, ticks int64) {
	for tag, value := range q.Tags { // order does not matter: it is a sum
		if _, ok := ScheduleName(tag); ok {
			if plan, ok := ReadSchedule(value); ok {
				n++
				ticks += plan.ticks()
			}
		}
	}
	return n, ticks
}

// calendarDays is 28 years, after which the weekdays of all dates repeat.
const calendarDays = 28*365 + 7

// ticks returns how many ticks there are in 28 years.
func (s *Schedule) ticks() (n int64) {
	if s.every > 0 {
		return calendarDays * dayMs / s.every
	}
	for day := range int64(calendarDays) {
		if s.hasDay(day) {
			n++
		}
	}
	return n * int64(bits.OnesCount64(s.minutes)*bits.OnesCount64(s.hours))
}

// Pauses is the time of all pauses of a message that uses up its receives, in milliseconds.
func (s *Set) Pauses(receives int) int64 { return s.Retry.all(receives) }

// withoutEffect is why a tag changes nothing on a FIFO queue; empty if it changes something.
func withoutEffect(tag string) string {
	if tag == StrictHandles { // [EXT-6]
		return "no effect, because on a FIFO queue only the newest receipt handle is valid anyway"
	}
	return ""
}

// Meant returns the tag of an extension that was probably meant by a key, or "". nearest finds the
// candidate that a word is nearly.
func Meant(key string, nearest func(word string, candidates []string) string) string {
	var tags []string
	for i := range All {
		tags = append(tags, All[i].Tag)
	}
	if near := nearest(key, tags); near != "" {
		return near
	}
	i := strings.LastIndexByte(key, '.')
	if i > 0 && nearest(key[:i], tags) == ScheduleTag {
		return ScheduleTag + key[i:]
	}
	return ""
}

// ExplainOn is Explain for a queue: it says which tags have no effect on one of its kind.
func ExplainOn(tag, value string, fifo bool) string {
	says := Explain(tag, value)
	if why := withoutEffect(tag); says != "" && fifo && why != "" {
		return why
	}
	return says
}

// A Contradiction is a tag that cannot have its effect, or whose effect is easily forgotten.
type Contradiction struct {
	Says string // what is so
	Do   string // what to do about it
}

// Contradictions returns what is wrong with the extensions of a queue as a whole. Each tag is valid
// by itself.
func (s *Set) Contradictions(q Queue) (found []Contradiction) {
	untag := func(tag string) string { return "tenaq queue untag " + q.Name + " " + tag }
	if s.Paused {
		c := Contradiction{"paused: no message is delivered, and messages expire meanwhile",
			"tenaq queue resume " + q.Name}
		if q.Dead {
			c.Says = "paused, and dead letters come here: a redriver or a consumer gets none of them"
		}
		if s.Schedule.when != "" {
			c.Says += "; its schedules go on, and their messages pile up until the end of the pause"
			c.Do += ", or remove the tags of its schedules until then"
		}
		found = append(found, c)
	}
	if rate := s.Rate; rate.Messages > 0 {
		n, ticks := q.schedules()
		if allows := calendarDays * dayMs / rate.Period * rate.Messages; ticks > allows {
			who, sends := "the schedule sends", fmt.Sprint(ticks/calendarDays)
			if n > 1 {
				who = fmt.Sprintf("%d schedules send", n)
			}
			if ticks/calendarDays == allows/calendarDays {
				sends = "a little more"
			}
			found = append(found, Contradiction{fmt.Sprintf("%s=%s delivers at most %d messages a day, and %s %s: the queue grows, and messages are late",
				RateTag, rate, allows/calendarDays, who, sends),
				"raise " + RateTag + ", or schedule fewer messages"})
		}
	}
	if s.StrictHandles && q.FIFO {
		found = append(found, Contradiction{StrictHandles + " has " +
			withoutEffect(StrictHandles), untag(StrictHandles)})
	}
	if s.DelayMax > s.DedupWindow && s.DedupWindow > 0 {
		found = append(found, Contradiction{fmt.Sprintf("%s=%s forgets an id while its message may wait for up to %s: a repeated send after that is a second message",
			DedupWindowTag, q.Tags[DedupWindowTag], inUnits(s.DelayMax, ages)),
			"raise " + DedupWindowTag + ", or lower " + DelayMaxTag})
	}
	if s.Retry.Base > 0 && q.Redrives && q.Receives == 1 { // [EXT-19]
		found = append(found, Contradiction{RetryTag + " never pauses, because maxReceiveCount is 1: the last attempt " +
			"before the dead-letter queue has no pause",
			"raise maxReceiveCount in RedrivePolicy, or: " + untag(RetryTag)})
	}
	if most := s.MaxInFlight; most > 0 && s.MaxInFlightPerGroup > most {
		found = append(found, Contradiction{fmt.Sprintf("%s=%d has no effect, because %s=%d allows fewer",
			MaxInFlightPerGroup, s.MaxInFlightPerGroup, MaxInFlight, most),
			"raise " + MaxInFlight + ", or: " + untag(MaxInFlightPerGroup)})
	}
	if s.HoldGroup && !q.Redrives {
		found = append(found, Contradiction{OnDeadLetter + " has no effect, because the queue has no " +
			"redrive policy: no message becomes a dead letter",
			"set a RedrivePolicy, or: " + untag(OnDeadLetter)})
	}
	if s.HoldGroup && q.Itself {
		found = append(found, Contradiction{OnDeadLetter + " has no effect, because the queue is its own " +
			"dead-letter queue: a dead letter goes to the end of its group",
			"set a RedrivePolicy with another queue, or: " + untag(OnDeadLetter)})
	}
	if s.DedupWindow > windowMin && q.ByContent {
		window := inUnits(s.DedupWindow, ages)
		found = append(found, Contradiction{fmt.Sprintf("ContentBasedDeduplication with %s=%s: a body that was sent in the last %s is dropped as a repeat, unless it has a MessageDeduplicationId",
			DedupWindowTag, strings.ReplaceAll(window, " ", ""), window),
			"give each message a MessageDeduplicationId, or: " + untag(DedupWindowTag)})
	}
	if r := s.Rate; r.Messages > 0 && q.Retention > 0 && r.Interval() >= q.Retention {
		found = append(found, Contradiction{fmt.Sprintf("%s=%s delivers one message in %s, and messages are kept for %s: most of them expire first",
			RateTag, r, seconds(r.Interval()), seconds(q.Retention)),
			"raise " + RateTag + ", or MessageRetentionPeriod"})
	}
	if b := s.Retry; b.Base > 0 && q.Retention > 0 && b.Most >= q.Retention {
		found = append(found, Contradiction{fmt.Sprintf("%s=%s waits up to %s, and messages are kept for %s: they expire before they are tried again",
			RetryTag, b, seconds(b.Most), seconds(q.Retention)),
			"lower " + RetryTag + ", or raise MessageRetentionPeriod"})
	}
	if s.Priority > 0 && q.Retention > 0 && s.Priority >= q.Retention {
		found = append(found, Contradiction{fmt.Sprintf("%s of waiting is worth one level, and messages are kept for %s: less urgent ones can expire before their turn",
			inUnits(s.Priority, times), seconds(q.Retention)),
			"lower " + Priority + ", or raise MessageRetentionPeriod"})
	}
	return found
}

// seconds is a time of whole seconds in the largest unit that fits.
func seconds(ms int64) string {
	largest := slices.Clone(periods)
	slices.Reverse(largest)
	return inUnits(ms-ms%1000, largest)
}
