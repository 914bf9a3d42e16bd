package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/spf13/cobra"

	"tenaq/internal/breaker"
	"tenaq/redrive"
)

func newRedriveStatusCmd(a *app, r *redriveFlags) *cobra.Command {
	var policy policyFlags
	cmd := &cobra.Command{
		Use:   "status QUEUE",
		Short: "Show what the redrivers of a dead-letter queue know",
		Long: `Show what the redrivers of a dead-letter queue know: the circuit breaker, how much may be on its way, what
kinds of failures there are, when things succeeded, and how long the dead letters will take.

  breaker   CLOSED: messages go. OPEN: their consumer is sick, nothing goes until the time shown.
            HALF_OPEN: single messages find out whether it is well again
  drains    dead letters, divided by how many came to an end lately, as work that was done or in the parking
            lot. Lately is the last hour at most; new dead letters are not foreseen. It is unknown when
            nothing came to an end
  kinds     failures that are the same but for numbers and names, and how many messages fail so, up to 3

No message is received for it. Give it the flags of the policy that "tenaq redrive run" is given: the
records do not have them.

` + recordsHelp,
		Example: `  tenaq redrive status orders-dlq
  tenaq redrive status orders-dlq --json | jq .breaker.gauge     # 0 closed, 1 open, 2 half open`,
		Args: wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec := redriveSpec{deadLetter: args[0], schedule: schedule{every: rateMost}}
			var err error
			if spec.policy, err = policy.policy(); err != nil {
				return err
			}
			v, err := r.view(cmd.Context(), a, &spec)
			if err != nil {
				return err
			}
			defer v.close()
			s, err := v.status(cmd.Context(), &spec.policy)
			switch {
			case err != nil:
				return err
			case a.json:
				return a.printJSON(s)
			}
			return a.printRedriveStatus(s, time.Now())
		},
	}
	policy.register(cmd.Flags())
	return cmd
}

// A redriveStatus is what is known of the redriving of a queue, as --json prints it.
type redriveStatus struct {
	Queue    string          `json:"queue"`
	Breaker  breakerDocument `json:"breaker"`
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
	Oldest    *float64 `json:"oldestSeconds"` // null when the queue does not tell
	Retention float64  `json:"retentionSeconds"`
	Ended     int      `json:"endedLately"`
	EndedIn   float64  `json:"latelySeconds"`
	Drain     *float64 `json:"drainSeconds"` // null when nobody knows
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
	Messages int                 `json:"messages"` // as many as matter: 3 is 3 or more
	Since    time.Time           `json:"since"`
	Last     time.Time           `json:"last"`
	Breaker  breakerDocument     `json:"breaker"`
}

type wellStatus struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// kindMost is how many messages of one kind of failure a redriver counts.
const kindMost = 3

// status asks the records and the queue.
func (v *redriveView) status(ctx context.Context, p *redrive.Policy) (*redriveStatus, error) {
	state, err := v.redriver.State(ctx)
	if err != nil {
		return nil, v.inRecords(err)
	}
	rate, err := newPaceKeeper(v.store, v.queue).rate(ctx, time.Now(), &state)
	if err != nil {
		return nil, v.inRecords(err)
	}
	out, err := call(ctx, v.client, v.client.GetQueueAttributes, &sqs.GetQueueAttributesInput{
		QueueUrl: &v.url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return nil, v.client.explain("read the attributes of", v.queue, err)
	}
	return newRedriveStatus(v.queue, &state, rate, out.Attributes, p), nil
}

func newRedriveStatus(queue string, state *redrive.State, rate drainRate, attributes map[string]string, p *redrive.Policy) *redriveStatus {
	number := func(name types.QueueAttributeName) int {
		n, _ := strconv.Atoi(attributes[string(name)])
		return n
	}
	s := &redriveStatus{
		Queue: queue, Breaker: newBreakerDocument(state.Breaker, p), Paused: state.Paused, Rate: state.Rate, Steep: state.Steep,
		Redriven: state.Redriven, Successes: state.Successes, Failures: state.Failures, Parked: state.Parked,
		OnTheWay: []flightStatus{}, Kinds: []kindStatus{}, Well: []wellStatus{}, Warnings: []string{},
		Depth:     number(types.QueueAttributeNameApproximateNumberOfMessages) + number(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible),
		Retention: float64(number(types.QueueAttributeNameMessageRetentionPeriod)),
		Ended:     rate.count, EndedIn: rate.in.Seconds(),
		policy: *p,
	}
	// SQS tells the age by CloudWatch only. Servers that tell it here give it the name that it has there.
	if age, err := strconv.ParseFloat(attributes["ApproximateAgeOfOldestMessage"], 64); err == nil {
		s.Oldest = &age
	}
	for _, f := range state.Flights {
		s.OnTheWay = append(s.OnTheWay, flightStatus{f.Letter, f.Key, f.Sent.UTC(), f.Due.UTC(), f.Canary})
	}
	for _, k := range state.Kinds {
		s.Kinds = append(s.Kinds, kindStatus{k.Fingerprint, k.Reason, len(k.Lineages), k.Since.UTC(), k.Last.UTC(), newBreakerDocument(k.Breaker, p)})
	}
	for _, w := range state.Well {
		s.Well = append(s.Well, wellStatus{w.From.UTC(), w.To.UTC()})
	}
	if state.Breaker.State != breaker.Open && state.Paused == "" { // else nothing drains, whatever did before
		s.Drain = secondsOrNull(drainTime(s.Depth, rate))
	}
	s.warn()
	return s
}

// warn says where messages will be lost if nobody does anything.
func (s *redriveStatus) warn() {
	left, bound := s.Retention, " at most"
	if s.Oldest != nil {
		left, bound = max(0, s.Retention-*s.Oldest), ""
	}
	raise := fmt.Sprintf("keep messages for longer with: tenaq queue set %s --attribute MessageRetentionPeriod=%s", s.Queue, retentionMost)
	if s.Retention >= 14*24*3600 {
		raise = "let more be on their way, or move them to another queue with: tenaq move start " + s.Queue + " --to QUEUE"
	}
	if s.Drain != nil && *s.Drain > left {
		s.Warnings = append(s.Warnings, fmt.Sprintf("dead letters will expire before they are redriven: that takes about %s, and the oldest has %s%s; %s",
			secondsText(*s.Drain), secondsText(left), bound, raise))
	}
}

// secondsText says a time to its largest unit.
func secondsText(s float64) string { return ageText(time.Duration(s * float64(time.Second))) }

func (a *app) printRedriveStatus(s *redriveStatus, now time.Time) error {
	var b strings.Builder
	on, off := a.bold()
	fmt.Fprintf(&b, "%s%-10s %s%s\n", on, "queue", oneLine(s.Queue), off)
	for _, f := range s.fields(now) {
		fmt.Fprintf(&b, "%-10s %s\n", f[0], oneLine(f[1]))
	}
	if _, err := io.WriteString(a.stdout, b.String()); err != nil {
		return err
	}
	if len(s.Kinds) > 0 {
		fmt.Fprintln(a.stdout)
		if err := a.printTable(s.kindTable(now)); err != nil {
			return err
		}
	}
	for _, w := range s.Warnings {
		a.note("warning: %s", oneLine(w))
	}
	return nil
}

// fields are the lines of the status.
func (s *redriveStatus) fields(now time.Time) [][2]string {
	fields := [][2]string{
		{"breaker", s.Breaker.text(now)},
		{"failures", fmt.Sprintf("%d in a row, of %d that open it; opened %s since it was closed", s.Breaker.FailureCount, s.policy.Failures, counted(s.Breaker.Trips, "time", "times"))},
		{"successes", fmt.Sprintf("%d of %d that close it when it is half open", s.Breaker.SuccessCount, s.policy.Successes)},
		{"changed", timeText(s.Breaker.LastChange, now)},
		{"attempted", timeText(s.Breaker.LastAttempt, now)},
		{"paused", orDash(s.Paused)},
		{"rate", s.rateText()},
		{"on the way", s.flightsText(now)},
		{"in all", fmt.Sprintf("%d redriven, %d succeeded, %d failed again, %d parked", s.Redriven, s.Successes, s.Failures, s.Parked)},
	}
	if len(s.Well) == 0 {
		fields = append(fields, [2]string{"well", "nothing has succeeded yet"})
	}
	const newest = 5
	for _, w := range s.Well[max(0, len(s.Well)-newest):] {
		fields = append(fields, [2]string{"well", w.From.Format(time.RFC3339) + " to " + humanTime(w.To, now)})
	}
	oldest := "unknown: this queue does not tell; on AWS see ApproximateAgeOfOldestMessage in CloudWatch"
	if s.Oldest != nil {
		oldest = secondsText(*s.Oldest)
	}
	return append(fields,
		[2]string{"dead", fmt.Sprintf("%s, kept for %s", counted(s.Depth, "dead letter", "dead letters"), secondsText(s.Retention))},
		[2]string{"oldest", oldest},
		[2]string{"drains", s.drainText()},
	)
}

// text says in what state a breaker is, and for how long.
func (b *breakerDocument) text(now time.Time) string {
	text := string(b.State)
	if b.HalfOpenAt != nil {
		text += ", half open at " + b.HalfOpenAt.Format(time.RFC3339)
		if left := b.HalfOpenAt.Sub(now); left >= time.Second {
			text += ", in " + humanDuration(left)
		}
	}
	return text
}

func timeText(t *time.Time, now time.Time) string {
	if t == nil {
		return "never"
	}
	return humanTime(*t, now)
}

func (s *redriveStatus) rateText() string {
	if s.Steep {
		return fmt.Sprintf("%d at once, doubling while nothing fails", s.Rate)
	}
	return fmt.Sprintf("%d at once", s.Rate)
}

func (s *redriveStatus) flightsText(now time.Time) string {
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
	text := fmt.Sprintf("%d, the first since %s", len(s.OnTheWay), humanTime(first, now))
	if canaries > 0 {
		text += "; a canary among them"
	}
	return text
}

func (s *redriveStatus) drainText() string {
	switch {
	case s.Depth == 0:
		return "nothing is there"
	case s.Paused != "":
		return "unknown: it is paused"
	case s.Breaker.State == breaker.Open:
		return "unknown: the breaker is open"
	case s.Drain == nil:
		return "unknown: nothing came to an end in the last hour"
	}
	return fmt.Sprintf("in about %s, at the rate of the last %s (%d came to an end) and if none are added", secondsText(*s.Drain), secondsText(s.EndedIn), s.Ended)
}

func (s *redriveStatus) kindTable(now time.Time) table {
	t := table{head: []string{"KIND", "MESSAGES", "BREAKER", "LAST", "REASON"}}
	for _, k := range s.Kinds {
		count := strconv.Itoa(k.Messages)
		if k.Messages >= kindMost {
			count += " or more"
		}
		t.add(string(k.Kind), count, k.Breaker.text(now), humanTime(k.Last, now), orDash(k.Reason))
	}
	return t
}
