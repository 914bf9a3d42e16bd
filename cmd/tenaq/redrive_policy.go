package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"tenaq/redrive"
)

// A policyField is one number or duration of a redriver's policy: --name on the command line, name under
// policy: in the configuration file.
type policyField struct {
	name, arg, usage string
	def              string // the default, which is applied like any other value; "" leaves it to package redrive
	set              func(*redrive.Policy, string) error
}

// policyFields is the one list of them.
var policyFields = []policyField{
	{"rate-first", "number", "how many messages may be on their way at first; it grows while they succeed and halves when they do not", "5",
		func(p *redrive.Policy, v string) (err error) { p.RateFirst, err = parseCount(v); return err }},
	{"rate-max", "number", "how many may be on their way at most, up to 200", "200",
		func(p *redrive.Policy, v string) (err error) { p.RateMax, err = parseCount(v); return err }},
	{"redrives", "number", "park a message that has failed so often again while others succeeded", "5",
		func(p *redrive.Policy, v string) (err error) { p.Redrives, err = parseCount(v); return err }},
	{"strikes", "number", "the same for a message that hardly any other fails like (default 3, or what redrives is if that is less)", "",
		func(p *redrive.Policy, v string) (err error) { p.Strikes, err = parseCount(v); return err }},
	{"failures", "number", "so many failures in a row open the breaker", "3",
		func(p *redrive.Policy, v string) (err error) { p.Failures, err = parseCount(v); return err }},
	{"successes", "number", "so many successes close it when it is half open", "2",
		func(p *redrive.Policy, v string) (err error) { p.Successes, err = parseCount(v); return err }},
	{"cool-down", "duration", "how long an open breaker lets nothing through at first, doubled each further time", "60s",
		func(p *redrive.Policy, v string) (err error) { p.CoolDown, err = someDuration(v); return err }},
	{"cool-down-max", "duration", "how long it does so at most", "1h",
		func(p *redrive.Policy, v string) (err error) { p.CoolDownMax, err = someDuration(v); return err }},
	{"delay-base", "duration", "delay a message so long at its first redrive, doubled with each further one", "60s",
		func(p *redrive.Policy, v string) (err error) { p.DelayBase, err = someDuration(v); return err }},
	{"delay-max", "duration", "delay it so long at most, up to 15m", "15m",
		func(p *redrive.Policy, v string) (err error) { p.DelayMax, err = someDuration(v); return err }},
	{"near", "duration", "the consumer was well when something failed if others succeeded so shortly before and after", "5m",
		func(p *redrive.Policy, v string) (err error) { p.Near, err = someDuration(v); return err }},
	{"hold-max", "duration", "for so long messages that all fail in one way are held, as if what they need were down", "24h",
		func(p *redrive.Policy, v string) (err error) { p.HoldMax, err = someDuration(v); return err }},
	{"settle", "duration", "wait so long for what becomes of a message of which nothing is heard", "1h",
		func(p *redrive.Policy, v string) (err error) { p.Settle, err = someDuration(v); return err }},
	{"receives", "number", "receives until a failing message is a dead letter again, with --no-claims (default: maxReceiveCount of the queue)", "",
		func(p *redrive.Policy, v string) (err error) { p.Receives, err = parseCount(v); return err }},
}

// someDuration reads a duration above zero, which would mean the default.
func someDuration(v string) (time.Duration, error) {
	d, err := parseDuration(v)
	if err == nil && d == 0 {
		err = fmt.Errorf("%q is not more than zero", v)
	}
	return d, err
}

// defaultPolicy is what the defaults make.
func defaultPolicy() (p redrive.Policy) {
	for _, field := range policyFields {
		if field.def != "" {
			_ = field.set(&p, field.def) // which a test holds to be right
		}
	}
	return p
}

// A policyFlag is the flag of a field. It keeps the text; reading it is the field's business.
type policyFlag struct {
	policyField
	text string
}

func (f *policyFlag) String() string { return f.text }
func (f *policyFlag) Type() string   { return f.arg }

func (f *policyFlag) Set(text string) error {
	f.text = text
	return nil
}

// policyFlags are the flags of a policy.
type policyFlags []*policyFlag

func (f *policyFlags) register(flags *pflag.FlagSet) {
	for _, field := range policyFields {
		flag := &policyFlag{field, field.def}
		*f = append(*f, flag)
		flags.Var(flag, field.name, field.usage)
	}
}

// policy reads the flags.
func (f policyFlags) policy() (p redrive.Policy, err error) {
	for _, flag := range f {
		if flag.text == "" {
			continue
		}
		if err := flag.set(&p, flag.text); err != nil {
			return p, usagef("--%s: %v", flag.name, err)
		}
	}
	return p, nil
}
