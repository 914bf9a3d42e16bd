package policy

import (
	"fmt"
	"strings"
)

// judge decides on conditions whose keys no request to this server has. Their results do not depend
// on the request, so they are known when the policy is set. [AUTH-51]
//
//	         the condition never holds       the condition always holds
//	Allow    accepted: it allows nothing     refused: it would allow what the condition should keep out
//	Deny     refused: it would deny nothing  accepted: it denies at least what it denies in AWS
//
// An Allow with a condition that never holds is accepted whatever its other conditions are: all of
// them have to hold.
func (s *statement) judge() error {
	var open *condition
	for i := range s.conditions {
		c := &s.conditions[i]
		if !c.isConstant() {
			continue
		}
		switch holds := c.without(); {
		case s.effect == Allow && !holds:
			s.never = true
			s.note("it allows nothing: no request to this server has the condition key %s", c.name)
		case s.effect == Deny && holds:
			s.note("it denies as if the condition on %s were not there: no request to this server has that key", c.name)
		case s.effect == Deny && c.isService():
			s.never = true
			s.note("it denies nothing: no request to this server has the condition key %s", c.name)
		case s.effect == Deny:
			return unsupported("no request to this server has the condition key %q, so this Deny would deny nothing; remove it, or deny every request with an operator that ends in IfExists", c.name)
		case c.isService():
			s.note("it allows as if the condition on %s were not there: no request to this server has that key", c.name)
		case open == nil:
			open = c
		}
	}
	if open != nil && !s.never {
		return unsupported("no request to this server has the condition key %q, so the condition would not restrict this Allow; remove the condition or the statement", open.name)
	}
	return nil
}

func (s *statement) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// Notes describes the statements that have another effect on this server than on Amazon SQS because
// no request has the condition key or the resource that they name. It returns one text for each
// such statement. [AUTH-51, AUTH-53]
func (p *Policy) Notes() (notes []string) {
	for i, s := range p.statements {
		if len(s.notes) > 0 {
			notes = append(notes, fmt.Sprintf("statement %d: %s", i+1, strings.Join(s.notes, "; ")))
		}
	}
	return notes
}
