package redrivehost

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"tenaq/internal/observe/metric/metrictest"
	"tenaq/redrive"
	"tenaq/redrive/breaker"
)

func TestRedriveMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics([]Spec{{DeadLetter: "a-dlq", Parking: "lot"}, {DeadLetter: "arn:aws:sqs:us-east-1:000000000000:b-dlq", Parking: "lot"}})
		values := metrictest.Values(t, m.Write)
		metrictest.Want(t, values, map[string]string{
			`tenaq_redrive_steps_total{queue="a-dlq",result="done"}`:     "0",
			`tenaq_redrive_decisions_total{queue="b-dlq",action="park"}`: "0",
			`tenaq_redrive_last_step_age_seconds{queue="b-dlq"}`:         "0",
			`tenaq_redrive_breaker_state{queue="a-dlq"}`:                 "",
			`tenaq_redrive_dead_letters{queue="a-dlq"}`:                  "",
			`tenaq_redrive_drain_seconds{queue="a-dlq"}`:                 "",
			`tenaq_redrive_held{queue="a-dlq",why="rate"}`:               "",
			`tenaq_redrive_kinds{queue="a-dlq",breaker="closed"}`:        "",
		})

		decided := func(action redrive.Action, held redrive.HoldCause) redrive.Decided {
			return redrive.Decided{Decision: redrive.Decision{Action: action, Held: held}}
		}
		step := Step{Queue: "a-dlq", Ended: time.Now(), Drain: time.Minute, Report: redrive.Report{
			Depth: 7,
			State: redrive.State{
				Breaker: breaker.Breaker{State: breaker.HalfOpen}, Rate: 5, Flights: make([]redrive.Flight, 2),
				Kinds: []redrive.Kind{{Breaker: breaker.Breaker{State: breaker.Open}}, {}},
			},
			Outcomes:  []redrive.Outcome{{Result: redrive.Succeeded}, {Result: redrive.Gone}, {Result: redrive.Failed}},
			Decisions: []redrive.Decided{decided(redrive.Redrive, ""), decided(redrive.Park, ""), decided(redrive.Hold, redrive.HeldRate), decided(redrive.Hold, redrive.HeldOther)},
		}}
		m.Note(step)
		time.Sleep(time.Minute)
		m.Note(Step{Queue: "a-dlq", Ended: time.Now(), Err: redrive.ErrOverlap})
		time.Sleep(time.Minute)
		m.Note(Step{Queue: "a-dlq", Ended: time.Now(), Err: errors.New("down"), Report: redrive.Report{
			State: redrive.State{Breaker: breaker.Breaker{State: breaker.Open}, Paused: "release"}}})
		m.Note(Step{Queue: "a-dlq", Ended: time.Now(), Err: errors.New("no records")})
		m.Note(Step{Queue: "c-dlq", Ended: time.Now()}) // nobody asked for it
		values = metrictest.Values(t, m.Write)
		metrictest.Want(t, values, map[string]string{
			`tenaq_redrive_steps_total{queue="a-dlq",result="done"}`:         "1",
			`tenaq_redrive_steps_total{queue="a-dlq",result="overlap"}`:      "1",
			`tenaq_redrive_steps_total{queue="a-dlq",result="failed"}`:       "2",
			`tenaq_redrive_steps_total{queue="b-dlq",result="done"}`:         "0",
			`tenaq_redrive_decisions_total{queue="a-dlq",action="redrive"}`:  "1",
			`tenaq_redrive_decisions_total{queue="a-dlq",action="park"}`:     "1",
			`tenaq_redrive_decisions_total{queue="a-dlq",action="hold"}`:     "2",
			`tenaq_redrive_outcomes_total{queue="a-dlq",result="succeeded"}`: "2",
			`tenaq_redrive_outcomes_total{queue="a-dlq",result="failed"}`:    "1",
			`tenaq_redrive_last_step_age_seconds{queue="a-dlq"}`:             "60",
			`tenaq_redrive_last_step_age_seconds{queue="b-dlq"}`:             "120",
			`tenaq_redrive_breaker_state{queue="a-dlq"}`:                     "1",
			`tenaq_redrive_breaker_state{queue="b-dlq"}`:                     "",
			`tenaq_redrive_paused{queue="a-dlq"}`:                            "1",
			`tenaq_redrive_dead_letters{queue="a-dlq"}`:                      "7",
			`tenaq_redrive_held{queue="a-dlq",why="rate"}`:                   "1",
			`tenaq_redrive_held{queue="a-dlq",why="other"}`:                  "1",
			`tenaq_redrive_held{queue="a-dlq",why="breaker"}`:                "0",
			`tenaq_redrive_drain_seconds{queue="a-dlq"}`:                     "", // it stands
		})
		step.Ended = time.Now()
		m.Note(step)
		metrictest.Want(t, metrictest.Values(t, m.Write), map[string]string{
			`tenaq_redrive_breaker_state{queue="a-dlq"}`:             "2",
			`tenaq_redrive_on_their_way{queue="a-dlq"}`:              "2",
			`tenaq_redrive_rate{queue="a-dlq"}`:                      "5",
			`tenaq_redrive_paused{queue="a-dlq"}`:                    "0",
			`tenaq_redrive_kinds{queue="a-dlq",breaker="closed"}`:    "1",
			`tenaq_redrive_kinds{queue="a-dlq",breaker="open"}`:      "1",
			`tenaq_redrive_kinds{queue="a-dlq",breaker="half_open"}`: "0",
			`tenaq_redrive_drain_seconds{queue="a-dlq"}`:             "60",
			`tenaq_redrive_last_step_age_seconds{queue="a-dlq"}`:     "0",
		})
	})
}

// The parking lot of several queues is asked once, and not with every scrape.
// Until a redriver has taken a step, its breaker is not known and not reported. [ALARM-51]
func TestBreakerNotKnownYet(t *testing.T) {
	m := NewMetrics([]Spec{{DeadLetter: "a-dlq", Parking: "lot"}})
	pushed := func(want string) {
		t.Helper()
		var got []string
		for _, p := range m.Pushed() {
			got = append(got, fmt.Sprint(p.Name, " ", p.Value))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("it reports %s, want %s", got, want)
		}
	}
	pushed("StepFailed 0, ParkingLot 1")
	m.Note(Step{Queue: "a-dlq", Err: errors.New("no records")})
	pushed("StepFailed 1, ParkingLot 1")
	m.Note(Step{Queue: "a-dlq", Report: redrive.Report{State: redrive.State{Breaker: breaker.Breaker{State: breaker.Open}}}})
	pushed("StepFailed 0, BreakerState 1, ParkingLot 1")
	m.Note(Step{Queue: "a-dlq", Err: errors.New("no records")})
	pushed("StepFailed 1, BreakerState 1, ParkingLot 1")
}

// The flags of a redriver are those with which the command takes the same steps. [V1-15]
func TestFlags(t *testing.T) {
	usual := Spec{Policy: DefaultPolicy()}
	usual.Schedule, _ = ParseSchedule(ScheduleDefault)
	if got := usual.Flags(); len(got) > 0 {
		t.Errorf("a usual redriver has the flags %q", got)
	}
	s := Spec{Policy: DefaultPolicy()}
	s.Schedule, _ = ParseSchedule("*/15 6-22 * * *")
	for i, field := range PolicyFields {
		text := strconv.Itoa(i + 20)
		if _, count := field.of(&s.Policy).(*int); !count {
			text += "m"
		}
		if err := field.Apply(&s.Policy, text); err != nil {
			t.Fatalf("%s: %v", field.Name, err)
		}
	}
	args := s.Flags()
	if want := 2 * (len(PolicyFields) + 1); len(args) != want || args[0] != "--schedule" || args[1] != "*/15 6-22 * * *" {
		t.Fatalf("got %q, want %d words", args, want)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	p := PolicyFlags(flags)
	if err := flags.Parse(args[2:]); err != nil || *p != s.Policy {
		t.Errorf("%q are %+v, %v, want %+v", args, *p, err, s.Policy)
	}
}

func TestParkingMetrics(t *testing.T) {
	inLoopRig(t, func(t *testing.T, r *loopRig) {
		m := NewMetrics([]Spec{{DeadLetter: "a-dlq", Parking: "parking"}, {DeadLetter: "b-dlq", Parking: "parking"}, {DeadLetter: "c-dlq", Parking: "gone"}})
		m.Reach(r.host)
		parking := r.server.Queue(t, "parking")
		r.die(parking, 3)
		want := func(value string) {
			t.Helper()
			got := metrictest.Values(t, m.Write)
			metrictest.Want(t, got, map[string]string{`tenaq_redrive_parked_messages{parking="parking"}`: value, `tenaq_redrive_parked_messages{parking="gone"}`: ""})
		}
		want("3")
		r.die(parking, 1)
		want("3")
		time.Sleep(parkingKeep)
		want("4")
		m.Reach(nil)
		time.Sleep(parkingKeep)
		want("")
	})
}

// Each cause for which a dead letter is held has its word.
func TestHoldReasons(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := DefaultPolicy()
	p.Redrives, p.Strikes, p.Near, p.DelayBase, p.DelayMax = 5, 2, time.Minute, time.Minute, time.Hour
	closed := func(change func(*redrive.State)) redrive.State {
		s := redrive.State{Breaker: breaker.Breaker{State: breaker.Closed}, Rate: 5}
		change(&s)
		return s
	}
	kind := func(b breaker.Breaker) []redrive.Kind {
		return []redrive.Kind{{Fingerprint: redrive.FingerprintOf("timeout"), Since: now, Last: now, Breaker: b}}
	}
	flight := redrive.Flight{Letter: "x", Group: "g", Kind: redrive.FingerprintOf("timeout"), Sent: now}
	for _, test := range []struct {
		want   string
		state  redrive.State
		letter redrive.Letter
	}{
		{"paused", closed(func(s *redrive.State) { s.Paused = "release" }), redrive.Letter{}},
		{"breaker", closed(func(s *redrive.State) { s.Breaker = breaker.Breaker{State: breaker.Open, LastChange: now} }), redrive.Letter{}},
		{"unsure", closed(func(s *redrive.State) {}), redrive.Letter{Sends: 1, Died: now}},
		{"rate", closed(func(s *redrive.State) { s.Rate = 0 }), redrive.Letter{}},
		{"rate", closed(func(s *redrive.State) { s.Rate, s.Flights = 1, []redrive.Flight{flight} }), redrive.Letter{}},
		{"group", closed(func(s *redrive.State) { s.Flights = []redrive.Flight{flight} }), redrive.Letter{Group: "g"}},
		{"kind", closed(func(s *redrive.State) { s.Kinds = kind(breaker.Breaker{State: breaker.Open, LastChange: now}) }), redrive.Letter{Reason: "timeout"}},
		{"kind", closed(func(s *redrive.State) {
			s.Kinds, s.Flights = kind(breaker.Breaker{State: breaker.HalfOpen}), []redrive.Flight{flight}
		}), redrive.Letter{Reason: "timeout"}},
		{"delay", closed(func(s *redrive.State) {}), redrive.Letter{Group: "g", Died: now}},
	} {
		test.letter.ID = "a"
		_, d := test.state.Decide(&p, now, test.letter, 0.5)
		if d.Action != redrive.Hold || string(d.Held) != test.want {
			t.Errorf("%s %q is %q, want %q", d.Action, d.Why, d.Held, test.want)
		}
	}
}
