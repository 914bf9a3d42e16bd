package main

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"tenaq/redrive"
)

// A redriveSection is what a configuration file says about redriving.
type redriveSection struct {
	line     int
	records  recordsFlags
	ledger   string
	noClaims bool
	specs    []redriveSpec
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
	s := &redriveSection{line: line, ledger: "claim/"}
	for _, p := range pairs {
		switch p.key {
		case "records":
			if s.records.address, err = f.text(p); err == nil {
				if _, bad := parsePlace(s.records.address); bad != nil {
					err = f.at(p.line, "records: %v", bad)
				}
			}
		case "ledger":
			s.ledger, err = f.text(p)
		case "no-claims":
			var text string
			if text, err = f.text(p); err == nil {
				var bad error
				if s.noClaims, bad = parseBool(text); bad != nil {
					err = f.at(p.line, "no-claims: %v", bad)
				}
			}
		case "queues":
			err = f.readRedriveQueues(s, p)
		default:
			err = f.at(p.line, "redrive has no %q%s", p.key, didYouMean(p.key, redriveKeys))
		}
		if err != nil {
			return err
		}
	}
	if len(s.specs) == 0 {
		return f.at(line, "redrive lists no queues; it needs queues:, each entry beginning with - dead-letter:")
	}
	f.redrive = s
	return nil
}

// text reads a value that is a word or a line.
func (f *configFile) text(p pair) (string, error) {
	if p.value.Kind != yaml.ScalarNode || isNull(p.value) || p.value.Value == "" {
		return "", f.at(p.line, "%s must be a single value; remove the line for the default", p.key)
	}
	return p.value.Value, nil
}

func (f *configFile) readRedriveQueues(s *redriveSection, list pair) error {
	if list.value.Kind != yaml.SequenceNode {
		return f.at(list.line, "queues of redrive must be a list, each entry beginning with - dead-letter:")
	}
	for _, entry := range list.value.Content {
		entry = resolveAlias(entry)
		spec, err := f.readRedriveQueue(entry)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(s.specs, func(o redriveSpec) bool { return o.deadLetter == spec.deadLetter }) {
			return f.at(entry.Line, "%s is redriven by an entry before this one", spec.deadLetter)
		}
		s.specs = append(s.specs, spec)
	}
	return nil
}

func (f *configFile) readRedriveQueue(n *yaml.Node) (redriveSpec, error) {
	s := redriveSpec{policy: defaultPolicy()}
	pairs, err := f.pairs(n, "an entry of redrive")
	if err != nil {
		return s, err
	}
	schedule := scheduleDefault
	for _, p := range pairs {
		switch p.key {
		case "dead-letter":
			s.deadLetter, err = f.queueName(p)
		case "parking":
			s.parking, err = f.queueName(p)
		case "target":
			s.target, err = f.queueName(p)
		case "schedule":
			if schedule, err = f.text(p); err == nil {
				if _, bad := parseSchedule(schedule); bad != nil {
					err = f.at(p.line, "schedule: %v", bad)
				}
			}
		case "policy":
			s.policy, err = f.readPolicy(p.value)
		default:
			err = f.at(p.line, "an entry of redrive has no %q%s", p.key, didYouMean(p.key, redriveQueueKeys))
			if slices.ContainsFunc(policyFields, func(o policyField) bool { return o.name == p.key }) {
				err = f.at(p.line, "%s belongs under policy:", p.key)
			}
		}
		if err != nil {
			return s, err
		}
	}
	switch {
	case s.deadLetter == "":
		return s, f.at(n.Line, "an entry of redrive has no dead-letter: queue")
	case s.parking == "":
		return s, f.at(n.Line, "the entry of %s has no parking: queue for what is not to be redriven", s.deadLetter)
	}
	if s.schedule, err = parseSchedule(schedule); err == nil {
		err = s.check()
	}
	if err != nil {
		return s, f.at(n.Line, "%s: %v", s.deadLetter, err)
	}
	return s, nil
}

// readPolicy reads a policy, with the defaults that the flags have.
func (f *configFile) readPolicy(n *yaml.Node) (redrive.Policy, error) {
	policy := defaultPolicy()
	pairs, err := f.pairs(n, "policy")
	if err != nil {
		return policy, err
	}
	var names []string
	for _, field := range policyFields {
		names = append(names, field.name)
	}
	for _, p := range pairs {
		i := slices.Index(names, p.key)
		if i < 0 {
			return policy, f.at(p.line, "a policy has no %q%s", p.key, didYouMean(p.key, names))
		}
		text, err := f.text(p)
		if err != nil {
			return policy, err
		}
		if err := policyFields[i].set(&policy, text); err != nil {
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

// document is the section as --json prints it. The address may hold a password, so the place stands for it.
func (s *redriveSection) document() map[string]any {
	queues := []redriveQueueDocument{}
	for _, spec := range s.specs {
		queues = append(queues, redriveQueueDocument{spec.deadLetter, spec.parking, spec.target, spec.schedule.text})
	}
	return map[string]any{"records": s.recordsText(), "queues": queues}
}

func (s *redriveSection) recordsText() string {
	place, err := s.records.place()
	if err != nil {
		return err.Error()
	}
	defer place.close()
	return place.String()
}

// queueNames lists the dead-letter queues.
func (s *redriveSection) queueNames() (names []string) {
	for _, spec := range s.specs {
		names = append(names, spec.deadLetter)
	}
	return names
}

// deadLetterQueues lists the queues where dead letters go: dead-letter queues and parking lots.
func (s *redriveSection) deadLetterQueues() (names []string) {
	for _, spec := range s.specs {
		names = append(names, spec.deadLetter, spec.parking)
	}
	return names
}

// refuseTimeScale keeps a redriver from a server whose time runs ahead of its own.
func (s *redriveSection) refuseTimeScale(path string, scale float64) error {
	if scale == 1 {
		return nil
	}
	return usagef("%s:%d: redrive goes by the clock of this machine; remove it, or time-scale", path, s.line)
}
