package redrivehost

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/cli"
	"tenaq/redrive"
	"tenaq/redrive/breaker"
)

// A BreakerDocument is a circuit breaker as --json prints it.
type BreakerDocument struct {
	State        breaker.State `json:"state"`
	Gauge        int           `json:"gauge"` // 0 closed, 1 open, 2 half open
	FailureCount int           `json:"failureCount"`
	SuccessCount int           `json:"successCount"`
	LastChange   *time.Time    `json:"lastStateChange"` // null if there was none
	LastAttempt  *time.Time    `json:"lastAttempt"`
	Trips        int           `json:"trips"` // since it was closed last
	HalfOpenAt   *time.Time    `json:"halfOpenAt,omitempty"`
}

func NewBreakerDocument(b breaker.Breaker, p *redrive.Policy) BreakerDocument {
	d := BreakerDocument{
		State: b.State, Gauge: b.State.Gauge(), FailureCount: b.FailureCount,
		SuccessCount: b.SuccessCount,
		LastChange:   cli.TimeOrNull(b.LastChange), LastAttempt: cli.TimeOrNull(b.LastAttempt),
		Trips: b.Trips,
	}
	if b.State == breaker.Open {
		d.HalfOpenAt = cli.TimeOrNull(halfOpenAt(b, p))
	}
	return d
}

// SecondsOrNull is a duration as --json prints it; zero means unknown.
func SecondsOrNull(d time.Duration) *float64 {
	if d == 0 {
		return nil
	}
	s := d.Seconds()
	return &s
}

// A Status is the state of the redriving of a queue, as --json prints it.
type Status struct {
	Queue    string          `json:"queue"`
	Breaker  BreakerDocument `json:"breaker"`
	Paused   string          `json:"paused,omitempty"`
	Rate     int             `json:"rate"`
	Steep    bool            `json:"rateDoubles"` // nothing has failed yet
	OnTheWay []flightStatus  `json:"onTheirWay"`

	Redriven  int `json:"redriven"`
	Successes int `json:"succeeded"`
	Failures  int `json:"failed"`
	Parked    int `json:"parked"`

	Kinds []kindStatus `json:"kinds"`
	Well  []wellStatus `json:"well"` // when things succeeded, the newest last

	Depth     int      `json:"depth"`
	Oldest    *float64 `json:"oldestSeconds"` // null if the queue does not report it
	Retention float64  `json:"retentionSeconds"`
	Ended     int      `json:"endedLately"`
	EndedIn   float64  `json:"latelySeconds"`
	Drain     *float64 `json:"drainSeconds"` // null if unknown
	Warnings  []string `json:"warnings"`

	policy redrive.Policy
}

type flightStatus struct {
	Message string    `json:"messageId"` // of the dead letter
	Key     string    `json:"key"`
	Sent    time.Time `json:"sent"`
	Due     time.Time `json:"visibleAt"`
	Canary  bool      `json:"canary"`
}

type kindStatus struct {
	Kind     redrive.Fingerprint `json:"kind"`
	Reason   string              `json:"reason"`
	Messages int                 `json:"messages"` // 3 means 3 or more
	Since    time.Time           `json:"since"`
	Last     time.Time           `json:"last"`
	Breaker  BreakerDocument     `json:"breaker"`
}

type wellStatus struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// kindMost is how many messages of one kind of failure a redriver counts.
const kindMost = 3

// Status asks the records and the queue.
func (v *View) Status(ctx context.Context, p *redrive.Policy) (*Status, error) {
	state, err := v.Redriver.State(ctx)
	if err != nil {
		return nil, v.InRecords(err)
	}
	rate, err := newPaceKeeper(v.store, v.Queue).rate(ctx, time.Now(), &state)
	if err != nil {
		return nil, v.InRecords(err)
	}
	_, attributes, err := Depth(ctx, v.Client, v.url)
	if err != nil {
		return nil, err
	}
	return newStatus(v.Queue, &state, rate, attributes, v.oldest(ctx, attributes), p), nil
}

// oldest returns the age of the oldest dead letter in seconds, or nil where the server does not
// tell it. A tenaq server tells it beside the SQS API. Other servers may have an attribute of the
// name that the value has in CloudWatch.
func (v *View) oldest(ctx context.Context, attributes map[string]string) *float64 {
	if age, err := strconv.ParseFloat(attributes["ApproximateAgeOfOldestMessage"], 64); err == nil {
		return &age
	}
	if v.Client.Endpoint.IsAmazon() {
		return nil
	}
	var page cli.PeekedQueues
	v1 := &cli.V1Client{C: v.Client, HTTP: v.Client.Options().HTTPClient}
	err := v1.Get(ctx, "look at", v.Queue, "/queues",
		url.Values{"prefix": {v.Queue}, "limit": {"1"}}, &page)
	// the first of a prefix is the prefix itself
	if err != nil || len(page.Queues) == 0 || page.Queues[0].Name != v.Queue {
		return nil
	}
	age := (time.Duration(page.Queues[0].OldestAgeMS) * time.Millisecond).Seconds()
	return &age
}

func newStatus(
	queue string, state *redrive.State, rate drainRate, attributes map[string]string,
	oldest *float64, p *redrive.Policy,
) *Status {
	number := func(name types.QueueAttributeName) int {
		n, _ := strconv.Atoi(attributes[string(name)])
		return n
	}
	s := &Status{
		Queue: queue, Breaker: NewBreakerDocument(state.Breaker, p), Paused: state.Paused,
		Rate: state.Rate, Steep: state.Steep,
		Redriven: state.Redriven, Successes: state.Successes, Failures: state.Failures,
		Parked:   state.Parked,
		OnTheWay: []flightStatus{}, Kinds: []kindStatus{}, Well: []wellStatus{},
		Warnings:  []string{},
		Depth:     number(types.QueueAttributeNameApproximateNumberOfMessages) + number(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible),
		Retention: float64(number(types.QueueAttributeNameMessageRetentionPeriod)),
		Ended:     rate.count, EndedIn: rate.in.Seconds(),
		Oldest: oldest, policy: *p,
	}
	for _, f := range state.Flights {
		s.OnTheWay = append(s.OnTheWay,
			flightStatus{f.Letter, f.Key, f.Sent.UTC(), f.Due.UTC(), f.Canary})
	}
	for _, k := range state.Kinds {
		s.Kinds = append(s.Kinds,
			kindStatus{k.Fingerprint, k.Reason, len(k.Lineages), k.Since.UTC(), k.Last.UTC(),
				NewBreakerDocument(k.Breaker, p)})
	}
	for _, w := range state.Well {
		s.Well = append(s.Well, wellStatus{w.From.UTC(), w.To.UTC()})
	}
	if state.Breaker.State != breaker.Open && state.Paused == "" { // otherwise nothing drains
		s.Drain = SecondsOrNull(drainTime(s.Depth, rate))
	}
	s.warn()
	return s
}

func (s *Status) warn() {
	left, bound := s.Retention, "at most "
	if s.Oldest != nil {
		left, bound = max(0, s.Retention-*s.Oldest), ""
	}
	raise := fmt.Sprintf("keep messages for longer with: tenaq queue set %s --attribute MessageRetentionPeriod=%s", s.Queue, RetentionMost)
	if s.Retention >= 14*24*3600 {
		raise = "raise --rate-max, or move them to another queue with: tenaq move start " +
			s.Queue + " --to QUEUE"
	}
	if s.Drain != nil && *s.Drain > left {
		s.Warnings = append(s.Warnings,
			fmt.Sprintf("dead letters will expire before they are redriven: that takes about %s, and the oldest has %s%s left; %s",
				cli.SecondsText(*s.Drain), bound, cli.SecondsText(left), raise))
	}
}

// Fields are the lines of the status.
func (s *Status) Fields(now time.Time) [][2]string {
	fields := [][2]string{
		{"breaker", s.Breaker.text(now)},
		{"failures", fmt.Sprintf("%d in a row, of %d that open the breaker; opened %s since it was closed", s.Breaker.FailureCount, s.policy.Failures, cli.Counted(s.Breaker.Trips, "time", "times"))},
		{"successes", fmt.Sprintf("%d of %d that close the breaker when it is half open",
			s.Breaker.SuccessCount, s.policy.Successes)},
		{"changed", cli.TimeText(s.Breaker.LastChange, now)},
		{"attempted", cli.TimeText(s.Breaker.LastAttempt, now)},
		{"paused", cli.OrDash(s.Paused)},
		{"rate", s.rateText()},
		{"on the way", s.flightsText(now)},
		{"in all", fmt.Sprintf("%d redriven, %d succeeded, %d failed again, %d parked", s.Redriven,
			s.Successes, s.Failures, s.Parked)},
	}
	if len(s.Well) == 0 {
		fields = append(fields, [2]string{"well", "nothing has succeeded yet"})
	}
	const newest = 5
	for _, w := range s.Well[max(0, len(s.Well)-newest):] {
		fields = append(fields, [2]string{"well",
			w.From.Format(time.RFC3339) + " to " + cli.HumanTime(w.To, now)})
	}
	oldest := "unknown: the server does not report it; on AWS see ApproximateAgeOfOldestMessage in CloudWatch"
	switch {
	case s.Depth == 0:
		oldest = cli.OrDash("")
	case s.Oldest != nil:
		oldest = cli.SecondsText(*s.Oldest)
	}
	return append(fields,
		[2]string{"dead", fmt.Sprintf("%s, kept for %s",
			cli.Counted(s.Depth, "dead letter", "dead letters"), cli.SecondsText(s.Retention))},
		[2]string{"oldest", oldest},
		[2]string{"drains", s.drainText()},
	)
}

// text is the state of a breaker, and until when an open one stays open.
func (b *BreakerDocument) text(now time.Time) string {
	text := string(b.State)
	if b.HalfOpenAt != nil {
		text += ", half open at " + b.HalfOpenAt.Format(time.RFC3339)
		if left := b.HalfOpenAt.Sub(now); left >= time.Second {
			text += ", in " + cli.HumanDuration(left)
		}
	}
	return text
}

func (s *Status) rateText() string {
	if s.Steep {
		return fmt.Sprintf("%d at once, doubling while nothing fails", s.Rate)
	}
	return fmt.Sprintf("%d at once", s.Rate)
}

func (s *Status) flightsText(now time.Time) string {
	if len(s.OnTheWay) == 0 {
		return "none"
	}
	canaries, first := 0, s.OnTheWay[0].Sent
	for _, f := range s.OnTheWay {
		if f.Canary {
			canaries++
		}
		if f.Sent.Before(first) {
			first = f.Sent
		}
	}
	text := fmt.Sprintf("%d, the first since %s", len(s.OnTheWay), cli.HumanTime(first, now))
	if canaries > 0 {
		text += "; a canary among them"
	}
	return text
}

func (s *Status) drainText() string {
	switch {
	case s.Depth == 0:
		return "there are no dead letters"
	case s.Paused != "":
		return "unknown: it is paused"
	case s.Breaker.State == breaker.Open:
		return "unknown: the breaker is open"
	case s.Drain == nil:
		return "unknown: no dead letter was completed or parked in the last hour"
	}
	return fmt.Sprintf("in about %s, at the rate of the last %s (%d completed or parked), if none are added", cli.SecondsText(*s.Drain), cli.SecondsText(s.EndedIn), s.Ended)
}

func (s *Status) KindTable(now time.Time) cli.Table {
	t := cli.Table{Head: []string{"KIND", "MESSAGES", "BREAKER", "LAST", "REASON"}}
	for _, k := range s.Kinds {
		count := strconv.Itoa(k.Messages)
		if k.Messages >= kindMost {
			count += " or more"
		}
		t.Add(string(k.Kind), count, k.Breaker.text(now), cli.HumanTime(k.Last, now),
			cli.OrDash(k.Reason))
	}
	return t
}
