package extension

import (
	"fmt"
	"slices"
	"strings"
)

// A Queue is what tags may contradict besides each other.
type Queue struct {
	Name      string
	Dead      bool  // dead letters of other queues come here
	Retention int64 // in milliseconds; zero if it is not known
	ByContent bool  // deduplication ids are made from bodies
	Redrives  bool  // it has a redrive policy
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
		found = append(found, c)
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
	if b := s.Retry; q.Retention > 0 && b.Most >= q.Retention {
		found = append(found, Contradiction{fmt.Sprintf("%s=%s waits up to %s, and messages are kept for %s: they expire before they are tried again",
			RetryTag, b, seconds(b.Most), seconds(q.Retention)),
			"lower " + RetryTag + ", or raise MessageRetentionPeriod"})
	}
	if s.Priority > 0 && q.Retention > 0 && s.Priority >= q.Retention {
		found = append(found, Contradiction{fmt.Sprintf("%s of waiting is worth one level, and messages are kept for %s: less urgent ones can expire before their turn",
			inUnits(s.Priority, steps), seconds(q.Retention)),
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
