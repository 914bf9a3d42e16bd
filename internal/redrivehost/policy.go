package redrivehost

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tenaq/internal/cli"
	"tenaq/redrive"
)

// A PolicyField is one number or duration of a redriver's policy: --name on the command line, name
// under policy: in the configuration file.
type PolicyField struct {
	Name, usage string
	of          func(*policy) any // its *int or *time.Duration
}

type policy = redrive.Policy

// PolicyFields is the one list of them. docs/redrive.md explains each.
var PolicyFields = []PolicyField{
	{"rate-first", "messages on their way at first", func(p *policy) any { return &p.RateFirst }},
	{"rate-max", "maximum on their way, up to 200", func(p *policy) any { return &p.RateMax }},
	{"redrives", "park after this many failures", func(p *policy) any { return &p.Redrives }},
	{"strikes", "strikes until parked (default 3 or --redrives)", func(p *policy) any {
		return &p.Strikes
	}},
	{"failures", "failures that open the breaker", func(p *policy) any { return &p.Failures }},
	{"successes", "successes that close the breaker", func(p *policy) any { return &p.Successes }},
	{"cool-down", "first cool-down of the breaker", func(p *policy) any { return &p.CoolDown }},
	{"cool-down-max", "maximum cool-down", func(p *policy) any { return &p.CoolDownMax }},
	{"delay-base", "delay of the first redrive", func(p *policy) any { return &p.DelayBase }},
	{"delay-max", "maximum delay, up to 15m", func(p *policy) any { return &p.DelayMax }},
	{"near", "time between related outcomes", func(p *policy) any { return &p.Near }},
	{"hold-max", "maximum time to hold a kind", func(p *policy) any { return &p.HoldMax }},
	{"settle", "maximum wait for an outcome", func(p *policy) any { return &p.Settle }},
	{"receives", "receives per redrive, with --no-claims", func(p *policy) any {
		return &p.Receives
	}},
}

// Apply reads the value of a field.
func (f PolicyField) Apply(p *redrive.Policy, text string) (err error) {
	switch to := f.of(p).(type) {
	case *int:
		*to, err = cli.ParseCount(text)
	case *time.Duration:
		*to, err = cli.SomeDuration(text)
	}
	return err
}

// DefaultPolicy is that of package redrive, without what depends on other fields or on the queue.
func DefaultPolicy() redrive.Policy {
	p := redrive.DefaultPolicy()
	p.Strikes, p.Receives = 0, 0
	return p
}

type policyFlag struct {
	PolicyField
	policy *redrive.Policy
}

func (f *policyFlag) Type() string {
	if _, count := f.of(&redrive.Policy{}).(*int); count {
		return "number"
	}
	return "duration"
}

// String is the value of the field, which is the default until the flag is set; "" for none.
func (f *policyFlag) String() string {
	if f.policy == nil { // pflag asks the zero value, too
		return ""
	}
	switch v := f.of(f.policy).(type) {
	case *time.Duration:
		return strings.Replace(strings.Replace(fmt.Sprint(*v), "m0s", "m", 1), "h0m", "h", 1)
	case *int:
		if *v > 0 {
			return strconv.Itoa(*v)
		}
	}
	return ""
}

// Set reads the text of the flag. Empty text means the default, as of an unset shell variable.
func (f *policyFlag) Set(text string) error {
	if text == "" {
		usual := DefaultPolicy()
		switch v := f.of(f.policy).(type) {
		case *time.Duration:
			*v = *f.of(&usual).(*time.Duration)
		case *int:
			*v = *f.of(&usual).(*int)
		}
		return nil
	}
	return f.Apply(f.policy, text)
}

// Flags are those with which "tenaq redrive run" takes the same steps: for what of the schedule and
// the policy is not usual. The queues are not among them.
func (s *Spec) Flags() (flags []string) {
	if s.Schedule.Text != ScheduleDefault {
		flags = append(flags, "--schedule", s.Schedule.Text)
	}
	usual := DefaultPolicy()
	for _, field := range PolicyFields {
		text := (&policyFlag{field, &s.Policy}).String()
		if text != (&policyFlag{field, &usual}).String() {
			flags = append(flags, "--"+field.Name, text)
		}
	}
	return flags
}

// PolicyFlags adds the flags of a policy, which begins as the default.
func PolicyFlags(flags *pflag.FlagSet) *redrive.Policy {
	p := DefaultPolicy()
	for _, field := range PolicyFields {
		flags.Var(&policyFlag{field, &p}, field.Name, field.usage)
	}
	return &p
}
