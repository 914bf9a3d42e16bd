package redrivehost

import (
	"github.com/spf13/pflag"

	"tenaq/internal/cli"
	"tenaq/redrive"
)

// A PolicyField is one number or duration of a redriver's policy: --name on the command line, name under
// policy: in the configuration file.
type PolicyField struct {
	Name, arg, usage string
	def              string // the default, which is applied like any other value; "" leaves it to package redrive
	Apply            func(*redrive.Policy, string) error
}

// PolicyFields is the one list of them.
var PolicyFields = []PolicyField{
	{"rate-first", "number", "how many messages may be on their way at first; it grows while they succeed and halves when they do not", "5",
		func(p *redrive.Policy, v string) (err error) { p.RateFirst, err = cli.ParseCount(v); return err }},
	{"rate-max", "number", "how many may be on their way at most, up to 200", "200",
		func(p *redrive.Policy, v string) (err error) { p.RateMax, err = cli.ParseCount(v); return err }},
	{"redrives", "number", "park a message that has failed so often again while others succeeded", "5",
		func(p *redrive.Policy, v string) (err error) { p.Redrives, err = cli.ParseCount(v); return err }},
	{"strikes", "number", "the same for a message that hardly any other fails like (default 3, or what redrives is if that is less)", "",
		func(p *redrive.Policy, v string) (err error) { p.Strikes, err = cli.ParseCount(v); return err }},
	{"failures", "number", "so many failures in a row open the breaker", "3",
		func(p *redrive.Policy, v string) (err error) { p.Failures, err = cli.ParseCount(v); return err }},
	{"successes", "number", "so many successes close it when it is half open", "2",
		func(p *redrive.Policy, v string) (err error) { p.Successes, err = cli.ParseCount(v); return err }},
	{"cool-down", "duration", "how long an open breaker lets nothing through at first, doubled each further time", "60s",
		func(p *redrive.Policy, v string) (err error) { p.CoolDown, err = cli.SomeDuration(v); return err }},
	{"cool-down-max", "duration", "how long it does so at most", "1h",
		func(p *redrive.Policy, v string) (err error) { p.CoolDownMax, err = cli.SomeDuration(v); return err }},
	{"delay-base", "duration", "delay a message so long at its first redrive, doubled with each further one", "60s",
		func(p *redrive.Policy, v string) (err error) { p.DelayBase, err = cli.SomeDuration(v); return err }},
	{"delay-max", "duration", "delay it so long at most, up to 15m", "15m",
		func(p *redrive.Policy, v string) (err error) { p.DelayMax, err = cli.SomeDuration(v); return err }},
	{"near", "duration", "the consumer was well when something failed if others succeeded so shortly before and after", "5m",
		func(p *redrive.Policy, v string) (err error) { p.Near, err = cli.SomeDuration(v); return err }},
	{"hold-max", "duration", "for so long messages that all fail in one way are held, as if what they need were down", "24h",
		func(p *redrive.Policy, v string) (err error) { p.HoldMax, err = cli.SomeDuration(v); return err }},
	{"settle", "duration", "wait so long for what becomes of a message of which nothing is heard", "1h",
		func(p *redrive.Policy, v string) (err error) { p.Settle, err = cli.SomeDuration(v); return err }},
	{"receives", "number", "receives until a failing message is a dead letter again, with --no-claims (default: maxReceiveCount of the queue)", "",
		func(p *redrive.Policy, v string) (err error) { p.Receives, err = cli.ParseCount(v); return err }},
}

// DefaultPolicy is what the defaults make.
func DefaultPolicy() (p redrive.Policy) {
	for _, field := range PolicyFields {
		if field.def != "" {
			_ = field.Apply(&p, field.def) // which a test holds to be right
		}
	}
	return p
}

// A policyFlag is the flag of a field. It keeps the text; reading it is the field's business.
type policyFlag struct {
	PolicyField
	text string
}

func (f *policyFlag) String() string { return f.text }

func (f *policyFlag) Type() string { return f.arg }

func (f *policyFlag) Set(text string) error {
	f.text = text
	return nil
}

// PolicyFlags are the flags of a policy.
type PolicyFlags []*policyFlag

func (f *PolicyFlags) Register(flags *pflag.FlagSet) {
	for _, field := range PolicyFields {
		flag := &policyFlag{field, field.def}
		*f = append(*f, flag)
		flags.Var(flag, field.Name, field.usage)
	}
}

// Policy reads the flags.
func (f PolicyFlags) Policy() (p redrive.Policy, err error) {
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
