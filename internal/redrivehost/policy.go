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
	of          func(*redrive.Policy) any // its *int or *time.Duration
}

// PolicyFields is the one list of them. docs/redrive.md explains each.
var PolicyFields = []PolicyField{
	{"rate-first", "messages on their way at first", func(p *redrive.Policy) any {
		return &p.RateFirst
	}},
	{"rate-max", "maximum on their way, up to 200", func(p *redrive.Policy) any {
		return &p.RateMax
	}},
	{"redrives", "park after this many failures", func(p *redrive.Policy) any {
		return &p.Redrives
	}},
	{"strikes", "park poison after (default 3 or --redrives)", func(p *redrive.Policy) any {
		return &p.Strikes
	}},
	{"failures", "failures that open the breaker", func(p *redrive.Policy) any {
		return &p.Failures
	}},
	{"successes", "successes that close it again", func(p *redrive.Policy) any {
		return &p.Successes
	}},
	{"cool-down", "time the breaker is open first", func(p *redrive.Policy) any {
		return &p.CoolDown
	}},
	{"cool-down-max", "maximum of that time", func(p *redrive.Policy) any {
		return &p.CoolDownMax
	}},
	{"delay-base", "delay of the first redrive", func(p *redrive.Policy) any {
		return &p.DelayBase
	}},
	{"delay-max", "maximum delay, up to 15m", func(p *redrive.Policy) any { return &p.DelayMax }},
	{"near", "time between related outcomes", func(p *redrive.Policy) any { return &p.Near }},
	{"hold-max", "maximum time to hold a kind", func(p *redrive.Policy) any { return &p.HoldMax }},
	{"settle", "maximum wait for an outcome", func(p *redrive.Policy) any { return &p.Settle }},
	{"receives", "receives per redrive, with --no-claims", func(p *redrive.Policy) any {
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

// DefaultPolicy is that of package redrive. What depends on other fields or on the queue is left
// out.
func DefaultPolicy() redrive.Policy {
	p := redrive.DefaultPolicy()
	p.Strikes, p.Receives = 0, 0
	return p
}

// A policyFlag is the flag of a field.
type policyFlag struct {
	PolicyField
	text string // as it was given
}

func (f *policyFlag) Type() string {
	if _, count := f.of(&redrive.Policy{}).(*int); count {
		return "number"
	}
	return "duration"
}

// String is the default until the flag is set; "" for none.
func (f *policyFlag) String() string {
	if f.text != "" || f.of == nil { // pflag asks the zero value, too
		return f.text
	}
	p := DefaultPolicy()
	switch v := f.of(&p).(type) {
	case *time.Duration:
		return strings.Replace(strings.Replace(fmt.Sprint(*v), "m0s", "m", 1), "h0m", "h", 1)
	case *int:
		if *v > 0 {
			return strconv.Itoa(*v)
		}
	}
	return ""
}

func (f *policyFlag) Set(text string) error {
	f.text = text
	return nil
}

// PolicyFlags are the flags of a policy.
type PolicyFlags []*policyFlag

func (f *PolicyFlags) Register(flags *pflag.FlagSet) {
	for _, field := range PolicyFields {
		flag := &policyFlag{PolicyField: field}
		*f = append(*f, flag)
		flags.Var(flag, field.Name, field.usage)
	}
}

// Policy reads the flags.
func (f PolicyFlags) Policy() (redrive.Policy, error) {
	p := DefaultPolicy()
	for _, flag := range f {
		if flag.text == "" {
			continue
		}
		if err := flag.Apply(&p, flag.text); err != nil {
			return p, cli.Usagef("--%s: %v", flag.Name, err)
		}
	}
	return p, nil
}
