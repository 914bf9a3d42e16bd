package redrivehost

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"tenaq/redrive"
	"tenaq/redrive/breaker"
)

// ScheduleHelp says what --schedule takes; the configuration file takes the same.
const ScheduleHelp = `A schedule is one of these:

  rate(5 minutes)   every so many minutes, hours or days, as in EventBridge;
                    earlier when an open breaker may close or a canary is due
  */10 6-22 * * *   as in cron: minute, hour, day, month, weekday; in UTC
  continuous        when there is something to do, at most every 10 seconds`

// A Schedule says when a redriver takes its steps. One of its last three fields is set.
type Schedule struct {
	Text       string
	Every      time.Duration
	cron       cron.Schedule
	continuous bool
}

const ScheduleDefault = "rate(5 minutes)"

// The time between two steps of a continuous redriver: at least, and if there is nothing to do.
const (
	continuousLeast = 10 * time.Second
	continuousIdle  = time.Minute
)

// RateMost bounds a rate: the state of a redriver is forgotten two weeks after its last step.
const RateMost = 7 * 24 * time.Hour

var ratePattern = regexp.MustCompile(`^rate\(\s*(\d+)\s+(minute|hour|day)s?\s*\)$`)

var rateUnits = map[string]time.Duration{"minute": time.Minute, "hour": time.Hour,
	"day": 24 * time.Hour}

// cronParser takes the five fields, and neither seconds nor names for whole expressions.
var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

func ParseSchedule(text string) (Schedule, error) {
	s := Schedule{Text: strings.TrimSpace(text)}
	if s.Text == "continuous" {
		s.continuous = true
		return s, nil
	}
	if strings.HasPrefix(s.Text, "rate") {
		m := ratePattern.FindStringSubmatch(s.Text)
		if m == nil {
			return s, fmt.Errorf("%q is not a rate such as rate(5 minutes), rate(1 hour) or rate(1 day)", text)
		}
		n, err := strconv.Atoi(m[1])
		unit := rateUnits[m[2]]
		if err != nil || n < 1 || n > int(RateMost/unit) {
			return s, fmt.Errorf("%q is not between rate(1 minute) and rate(7 days)", text)
		}
		s.Every = time.Duration(n) * unit
		return s, nil
	}
	if fields := strings.Fields(s.Text); len(fields) != 5 || strings.Contains(s.Text, "=") ||
		strings.HasPrefix(s.Text, "cron(") {
		return s, fmt.Errorf("%q is neither rate(N minutes) nor the five fields of cron nor the word continuous", text)
	}
	var err error
	if s.cron, err = cronParser.Parse(s.Text); err != nil {
		return s, fmt.Errorf("%q is not a schedule of cron: %v", text, err)
	}
	if s.cron.Next(time.Unix(0, 0).UTC()).IsZero() {
		return s, fmt.Errorf("%q never occurs: correct its day or month", text)
	}
	return s, nil
}

func (s Schedule) String() string { return s.Text }

// Interval is the time between two steps, the shortest where it varies.
func (s Schedule) Interval() time.Duration {
	switch {
	case s.continuous:
		return 3 * continuousLeast // so that messages stay hidden beyond the next step
	case s.cron == nil:
		return s.Every
	}
	least := RateMost
	at := s.cron.Next(time.Unix(1_800_000_000, 0).UTC())
	for range 200 { // more than any list of minutes and hours that is not regular
		next := s.cron.Next(at)
		if next.IsZero() { // no 29 February for eight years, as after 2096
			break
		}
		least, at = min(least, next.Sub(at)), next
	}
	return least
}

func (s Schedule) begin(now time.Time) time.Time {
	if s.cron != nil {
		return s.cron.Next(now.UTC())
	}
	return now
}

// next is when the step after one that ended now is due, also if that one failed. Steps of
// redrivers that started together are spread a little.
func (s Schedule) next(now time.Time, report *redrive.Report, p *redrive.Policy) time.Time {
	switch {
	case s.cron != nil:
		return s.cron.Next(now.UTC())
	case s.continuous:
		return now.Add(useful(now, report, p))
	}
	d := s.Every + rand.N(s.Every/20)
	if at := report.State.Soonest(p, now); !at.IsZero() && s.Every > 0 {
		d = min(d, max(time.Second, at.Sub(now)))
	}
	return now.Add(d)
}

// useful is how long it takes until another step can do something.
func useful(now time.Time, report *redrive.Report, p *redrive.Policy) time.Duration {
	s := &report.State
	switch {
	case s.Breaker.State == breaker.Open:
		return max(continuousLeast, halfOpenAt(s.Breaker, p).Sub(now))
	case s.Paused != "", report.Depth == 0 && len(s.Flights) == 0:
		return continuousIdle
	case len(s.Flights) == 0 || s.Room(p, now) > 0:
		return continuousLeast
	}
	soonest := continuousIdle
	for _, f := range s.Flights {
		soonest = min(soonest, f.Due.Sub(now))
	}
	return max(continuousLeast, soonest)
}

func halfOpenAt(b breaker.Breaker, p *redrive.Policy) time.Time {
	return b.Until(breaker.Policy{CoolDown: p.CoolDown, CoolDownMax: p.CoolDownMax})
}
