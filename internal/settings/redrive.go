package settings

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
	"tenaq/redrive"
)

// A RedriveSection is what a configuration file says about redriving.
type RedriveSection struct {
	Line     int
	Records  cli.RecordsFlags
	Ledger   string
	NoClaims bool
	Specs    []redrivehost.Spec
}

var (
	redriveKeys      = []string{"records", "ledger", "no-claims", "queues"}
	redriveQueueKeys = []string{"dead-letter", "parking", "target", "schedule", "policy"}
)

func (f *configFile) readRedrive(line int, n *yaml.Node) error {
	pairs, err := f.pairs(n, "redrive")
	if err != nil {
		return err
	}
	s := &RedriveSection{Line: line, Ledger: "claim/"}
	for _, p := range pairs {
		switch p.key {
		case "records":
			if s.Records.Address, err = f.text(p); err == nil {
				if _, bad := cli.ParsePlace(s.Records.Address); bad != nil {
					err = f.at(p.line, "records: %v", bad)
				}
			}
		case "ledger":
			s.Ledger, err = f.text(p)
		case "no-claims":
			var text string
			if text, err = f.text(p); err == nil {
				var bad error
				if s.NoClaims, bad = parseBool(text); bad != nil {
					err = f.at(p.line, "no-claims: %v", bad)
				}
			}
		case "queues":
			err = f.readRedriveQueues(s, p)
		default:
			err = f.at(p.line, "redrive has no %q%s", p.key, cli.DidYouMean(p.key, redriveKeys))
		}
		if err != nil {
			return err
		}
	}
	if len(s.Specs) == 0 {
		return f.at(line, "redrive lists no queues; it needs queues:, each entry beginning with - dead-letter:")
	}
	f.Redrive = s
	return nil
}

// text reads a value that is a word or a line.
func (f *configFile) text(p pair) (string, error) {
	if p.value.Kind != yaml.ScalarNode || isNull(p.value) || p.value.Value == "" {
		return "", f.at(p.line, "%s must be a single value; remove the line for the default", p.key)
	}
	return p.value.Value, nil
}

func (f *configFile) readRedriveQueues(s *RedriveSection, list pair) error {
	if list.value.Kind != yaml.SequenceNode {
		return f.at(list.line, "queues of redrive must be a list, each entry beginning with - dead-letter:")
	}
	for _, entry := range list.value.Content {
		entry = cli.ResolveAlias(entry)
		spec, err := f.readRedriveQueue(entry)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(s.Specs, func(o redrivehost.Spec) bool {
			return o.DeadLetter == spec.DeadLetter
		}) {
			return f.at(entry.Line, "%s is redriven by an entry before this one", spec.DeadLetter)
		}
		s.Specs = append(s.Specs, spec)
	}
	return nil
}

func (f *configFile) readRedriveQueue(n *yaml.Node) (redrivehost.Spec, error) {
	s := redrivehost.Spec{Policy: redrivehost.DefaultPolicy()}
	pairs, err := f.pairs(n, "an entry of redrive")
	if err != nil {
		return s, err
	}
	schedule := redrivehost.ScheduleDefault
	for _, p := range pairs {
		switch p.key {
		case "dead-letter":
			s.DeadLetter, err = f.queueName(p)
		case "parking":
			s.Parking, err = f.queueName(p)
		case "target":
			s.Target, err = f.queueName(p)
		case "schedule":
			if schedule, err = f.text(p); err == nil {
				if _, bad := redrivehost.ParseSchedule(schedule); bad != nil {
					err = f.at(p.line, "schedule: %v", bad)
				}
			}
		case "policy":
			s.Policy, err = f.readPolicy(p.value)
		default:
			err = f.at(p.line, "an entry of redrive has no %q%s", p.key,
				cli.DidYouMean(p.key, redriveQueueKeys))
			if slices.ContainsFunc(redrivehost.PolicyFields, func(o redrivehost.PolicyField) bool {
				return o.Name == p.key
			}) {
				err = f.at(p.line, "%s belongs under policy:", p.key)
			}
		}
		if err != nil {
			return s, err
		}
	}
	switch {
	case s.DeadLetter == "":
		return s, f.at(n.Line, "an entry of redrive has no dead-letter: queue")
	case s.Parking == "":
		return s, f.at(n.Line, "the entry of %s has no parking: queue for what is not to be redriven", s.DeadLetter)
	}
	if s.Schedule, err = redrivehost.ParseSchedule(schedule); err == nil {
		err = s.Check()
	}
	if err != nil {
		return s, f.at(n.Line, "%s: %v", s.DeadLetter, err)
	}
	return s, nil
}

// readPolicy reads a policy, with the defaults that the flags have.
func (f *configFile) readPolicy(n *yaml.Node) (redrive.Policy, error) {
	policy := redrivehost.DefaultPolicy()
	pairs, err := f.pairs(n, "policy")
	if err != nil {
		return policy, err
	}
	var names []string
	for _, field := range redrivehost.PolicyFields {
		names = append(names, field.Name)
	}
	for _, p := range pairs {
		i := slices.Index(names, p.key)
		if i < 0 {
			return policy, f.at(p.line, "a policy has no %q%s", p.key, cli.DidYouMean(p.key, names))
		}
		text, err := f.text(p)
		if err != nil {
			return policy, err
		}
		if err := redrivehost.PolicyFields[i].Apply(&policy, text); err != nil {
			return policy, f.at(p.line, "%s: %v", p.key, err)
		}
	}
	return policy, nil
}

// A redriveQueueDocument is a redriven queue as "tenaq config --json" prints it.
type redriveQueueDocument struct {
	DeadLetter string `json:"deadLetter"`
	Parking    string `json:"parking"`
	Target     string `json:"target,omitempty"`
	Schedule   string `json:"schedule"`
}

// Document is the section as --json prints it. The address may hold a password, so the place stands
// for it.
func (s *RedriveSection) Document() map[string]any {
	queues := []redriveQueueDocument{}
	for _, spec := range s.Specs {
		queues = append(queues, redriveQueueDocument{spec.DeadLetter, spec.Parking, spec.Target,
			spec.Schedule.Text})
	}
	return map[string]any{"records": s.recordsText(), "queues": queues}
}

func (s *RedriveSection) recordsText() string {
	place, err := s.Records.Place()
	if err != nil {
		return err.Error()
	}
	defer place.Close()
	return place.String()
}

// QueueNames lists the dead-letter queues.
func (s *RedriveSection) QueueNames() (names []string) {
	for _, spec := range s.Specs {
		names = append(names, spec.DeadLetter)
	}
	return names
}

// DeadLetterQueues lists the queues where dead letters go: dead-letter queues and parking lots.
func (s *RedriveSection) DeadLetterQueues() (names []string) {
	for _, spec := range s.Specs {
		names = append(names, spec.DeadLetter, spec.Parking)
	}
	return names
}

// refuseTimeScale keeps a redriver from a server whose time runs ahead of its own.
func (s *RedriveSection) refuseTimeScale(path string, scale float64) error {
	if scale == 1 {
		return nil
	}
	return cli.Usagef("%s:%d: redrive goes by the clock of this machine; remove it, or time-scale",
		path, s.Line)
}
