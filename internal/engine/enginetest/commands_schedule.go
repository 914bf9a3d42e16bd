package enginetest

import (
	"fmt"

	"tenaq/internal/engine"
)

// tick lets the schedules send one message.
func (p *Player) tick(a *args, _ []string) (string, error) {
	op := &engine.Tick{}
	if refusal, err := p.simple(a, op); refusal != "" || err != nil || !op.Due {
		return refusal, err
	}
	e := &op.Entry
	answer, err := p.accept(op.Sent, *e)
	return fmt.Sprintf("q=%s %s body=%s schedule=%s tick=%s group=%s dedup=%s", op.Queue.Name, answer,
		e.Body.Value, e.Attributes[0].String.Value, e.Attributes[1].String.Value, e.Group.Value,
		e.Dedup.Value), err
}
