package settings

import (
	"context"
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

func (f *configFile) readRedrive(line int, n *yaml.Node) error {
	s := &RedriveSection{Line: line, Ledger: "claim/"}
	err := f.mapping(n, "redrive", fields{
		"records":   setTo(&s.Records.Address, parsed(f, checkRecords)),
		"ledger":    setTo(&s.Ledger, f.text),
		"no-claims": setTo(&s.NoClaims, parsed(f, parseBool)),
		"queues":    func(p pair) error { return f.readRedriveQueues(s, p) },
	}, noHint)
	if err == nil && len(s.Specs) == 0 {
		err = f.at(line, "redrive lists no queues; it needs queues:, each entry beginning with - dead-letter:")
	}
	f.Redrive = s
	return err
}

func checkRecords(address string) (string, error) {
	if address == cli.ServerRecords {
		return address, nil
	}
	_, err := cli.ParsePlace(address)
	return address, err
}

func (f *configFile) readRedriveQueues(s *RedriveSection, list pair) error {
	if list.value.Kind != yaml.SequenceNode {
		return f.at(list.line, "queues of redrive must be a list, each entry beginning with - dead-letter:")
	}
	for _, entry := range list.value.Content {
		entry = resolveAlias(entry)
		spec, err := f.readRedriveQueue(entry)
		if err != nil {
			return err
		}
		if slices.Contains(s.QueueNames(), spec.DeadLetter) {
			return f.at(entry.Line, "an earlier entry redrives %s", spec.DeadLetter)
		}
		s.Specs = append(s.Specs, spec)
	}
	return nil
}

func (f *configFile) readRedriveQueue(n *yaml.Node) (s redrivehost.Spec, err error) {
	s.Policy = redrivehost.DefaultPolicy()
	policy := fields{}
	for _, field := range redrivehost.PolicyFields {
		policy[field.Name] = setTo(&s.Policy, parsed(f, func(text string) (redrive.Policy, error) {
			err := field.Apply(&s.Policy, text)
			return s.Policy, err
		}))
	}
	err = f.mapping(n, "an entry of redrive", fields{
		"dead-letter": setTo(&s.DeadLetter, f.queueName),
		"parking":     setTo(&s.Parking, f.queueName),
		"target":      setTo(&s.Target, f.queueName),
		"schedule":    setTo(&s.Schedule, parsed(f, redrivehost.ParseSchedule)),
		"policy":      func(p pair) error { return f.mapping(p.value, "policy", policy, noHint) },
	}, func(key string) string { return cli.OrEmpty(policy[key] != nil, "belongs under policy:") })
	switch {
	case err != nil:
		return s, err
	case s.DeadLetter == "":
		return s, f.at(n.Line, "an entry of redrive has no dead-letter: queue")
	case s.Parking == "":
		return s, f.at(n.Line, "the entry of %s has no parking: queue for messages that are not redriven", s.DeadLetter)
	}
	if s.Schedule.Text == "" {
		s.Schedule, _ = redrivehost.ParseSchedule(redrivehost.ScheduleDefault)
	}
	if err := s.Check(); err != nil {
		return s, f.at(n.Line, "%s: %v", s.DeadLetter, err)
	}
	return s, nil
}

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
	if s.Records.Address == cli.ServerRecords {
		return cli.ServerRecords
	}
	ctx := context.Background() // nothing is connected to
	place, err := s.Records.Place(ctx)
	if err != nil {
		return err.Error()
	}
	defer place.Close()
	if s.Records.IsUsual() {
		if there, err := place.Exists(ctx); !there && err == nil {
			return cli.ServerRecords
		}
	}
	return place.String()
}

// RecordsAddress is where the records are, as --records takes it. A password is left out.
func (s *RedriveSection) RecordsAddress(getenv func(string) string) string {
	address, _ := cli.FlagOr("--records", s.Records.Address, "TENAQ_RECORDS", getenv)
	if address == "" {
		return s.recordsText()
	}
	return withoutPassword(address)
}

// Flags are those with which "tenaq redrive run" does what the server does for a queue.
func (s *RedriveSection) Flags(spec *redrivehost.Spec) []string {
	flags := spec.Flags()
	if s.Ledger != "claim/" {
		flags = append(flags, "--ledger", s.Ledger)
	}
	if s.NoClaims {
		flags = append(flags, "--no-claims")
	}
	return flags
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

// refuseTimeScale refuses a redriver in a server whose queue time is scaled.
func (s *RedriveSection) refuseTimeScale(path string, scale float64) error {
	if scale == 1 {
		return nil
	}
	return cli.Usagef("%s:%d: redrive uses the clock of this machine; remove redrive or time-scale",
		path, s.Line)
}
