package redrivehost

import (
	"strings"
	"testing"
	"time"

	"tenaq/redrive"
	"tenaq/redrive/breaker"
)

func TestParseSchedule(t *testing.T) {
	now := time.Date(2027, 3, 1, 11, 58, 30, 0, time.FixedZone("elsewhere", 3600))
	for _, test := range []struct {
		text     string
		interval time.Duration
		begin    string // the first step, in UTC
	}{
		{"rate(5 minutes)", 5 * time.Minute, "10:58:30"},
		{" rate( 1  hour ) ", time.Hour, "10:58:30"},
		{"rate(7 days)", 7 * 24 * time.Hour, "10:58:30"},
		{"continuous", 30 * time.Second, "10:58:30"},
		{"* * * * *", time.Minute, "10:59:00"},
		{"*/10 6-22 * * *", 10 * time.Minute, "11:00:00"},
		{"0,7 11 * * MON-FRI", 7 * time.Minute, "11:00:00"},
		{"0 12 * * *", 24 * time.Hour, "12:00:00"},
		{"0 0 29 2 *", 7 * 24 * time.Hour, "00:00:00"},
	} {
		s, err := ParseSchedule(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if got := s.Interval(); got != test.interval {
			t.Errorf("%s: interval %v, want %v", test.text, got, test.interval)
		}
		if got := s.begin(now).UTC().Format(time.TimeOnly); got != test.begin {
			t.Errorf("%s: begins at %s, want %s", test.text, got, test.begin)
		}
	}
	for text, want := range map[string]string{
		"":                                "is neither",
		"rate(5 seconds)":                 "is not a rate such as",
		"rate(0 minutes)":                 "is not between",
		"rate(8 days)":                    "is not between",
		"rate(99999999999999999999 days)": "is not between",
		"5m":                              "is neither",
		"@hourly":                         "is neither",
		"* * * * * *":                     "is neither",
		"cron(0 10 * * ? *)":              "is neither",
		"TZ=Europe/Rome * * * *":          "is neither",
		"61 * * * *":                      "is not a schedule of cron: ",
		"0 0 30 2 *":                      "never occurs",
	} {
		if _, err := ParseSchedule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestScheduleNext(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := &redrive.Policy{CoolDown: 2 * time.Minute, CoolDownMax: time.Hour}
	state := func(s breaker.State, rate int, due ...time.Duration) redrive.State {
		r := redrive.State{Rate: rate, Breaker: breaker.Breaker{State: s, LastChange: now.Add(-time.Minute), Trips: 1}}
		for _, d := range due {
			r.Flights = append(r.Flights, redrive.Flight{Due: now.Add(d)})
		}
		return r
	}
	paused := state(breaker.Closed, 5)
	paused.Paused = "by somebody"
	canary, late := state(breaker.HalfOpen, 5, 45*time.Second), state(breaker.HalfOpen, 5, -time.Minute)
	canary.Flights[0].Canary, late.Flights[0].Canary = true, true
	for _, test := range []struct {
		name, schedule string
		report         redrive.Report
		least, most    time.Duration
	}{
		{"rate", "rate(10 minutes)", redrive.Report{State: state(breaker.Closed, 5)}, 10 * time.Minute, 10*time.Minute + 30*time.Second},
		{"rate, open", "rate(10 minutes)", redrive.Report{State: state(breaker.Open, 5)}, time.Minute, time.Minute},
		{"rate, canary", "rate(10 minutes)", redrive.Report{State: canary}, time.Minute, time.Minute},
		{"rate, canary late", "rate(10 minutes)", redrive.Report{State: late}, 10 * time.Minute, 10*time.Minute + 30*time.Second},
		{"cron, open", "0 * * * *", redrive.Report{State: state(breaker.Open, 5)}, time.Hour, time.Hour},
		{"failed at once", "continuous", redrive.Report{}, time.Minute, time.Minute},
		{"nothing there", "continuous", redrive.Report{State: state(breaker.Closed, 5)}, time.Minute, time.Minute},
		{"paused", "continuous", redrive.Report{State: paused, Depth: 3}, time.Minute, time.Minute},
		{"room for more", "continuous", redrive.Report{State: state(breaker.Closed, 5, time.Hour), Depth: 3}, 10 * time.Second, 10 * time.Second},
		{"all on their way", "continuous", redrive.Report{State: state(breaker.Closed, 2, time.Hour, 40*time.Second), Depth: 3}, 40 * time.Second, 40 * time.Second},
		{"all on their way for long", "continuous", redrive.Report{State: state(breaker.Closed, 1, time.Hour), Depth: 3}, time.Minute, time.Minute},
		{"one may have ended", "continuous", redrive.Report{State: state(breaker.Closed, 1, -time.Hour)}, 10 * time.Second, 10 * time.Second},
		{"open", "continuous", redrive.Report{State: state(breaker.Open, 5), Depth: 3}, time.Minute, time.Minute},
	} {
		s, err := ParseSchedule(test.schedule)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.next(now, &test.report, p).Sub(now); got < test.least || got > test.most {
			t.Errorf("%s: the next step is in %v, want %v to %v", test.name, got, test.least, test.most)
		}
	}
}
