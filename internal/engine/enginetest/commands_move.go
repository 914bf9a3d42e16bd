package enginetest

import (
	"fmt"
	"strings"

	"tenaq/internal/engine"
)

// A moveTask is what the player knows about a move task that was started.
type moveTask struct{ alias, handle string }

// queueOrARN reads the ARN of a queue: key names a queue of the default account, key-arn is any
// text.
func (p *Player) queueOrARN(a *args, key string) engine.Text {
	if t := a.text(key); t.Set {
		return engine.Text{Value: p.arn(accountDefault, t.Value), Set: true}
	}
	return a.text(key + "-arn")
}

// moveStart starts a move task and answers its alias: task1, task2 and so on.
func (p *Player) moveStart(a *args, _ []string) (string, error) {
	op := &engine.StartMessageMoveTask{
		Account:     a.account(),
		Source:      p.queueOrARN(a, "source"),
		Destination: p.queueOrARN(a, "to"),
		Rate:        a.number("rate"),
	}
	if refusal, err := p.simple(a, op); refusal != "" || err != nil {
		return refusal, err
	}
	p.started++
	t := moveTask{alias: fmt.Sprintf("task%d", p.started), handle: op.Task.Handle}
	p.tasks[op.Source.Value] = append(p.tasks[op.Source.Value], t)
	return t.alias, nil
}

// moveList has a line for each task, which ends in "handle" when the task shows one. A task that
// shows none is known by its place: listings begin with the task that was started last.
func (p *Player) moveList(a *args, _ []string) (string, error) {
	op := &engine.ListMessageMoveTasks{
		Account:    a.account(),
		Source:     p.queueOrARN(a, "source"),
		MaxResults: a.number("max"),
	}
	if refusal, err := p.simple(a, op); refusal != "" || err != nil {
		return refusal, err
	}
	known := p.tasks[op.Source.Value]
	if len(op.Tasks) > len(known) {
		return "", fmt.Errorf("%d tasks of %s, and %d were started", len(op.Tasks),
			op.Source.Value, len(known))
	}
	var b strings.Builder
	for i := range op.Tasks {
		t, k := &op.Tasks[i], known[len(known)-1-i]
		if t.Handle != "" && t.Handle != k.handle || t.Source != op.Source.Value {
			return "", fmt.Errorf("%s is listed with the handle %s and the source %s", k.alias,
				t.Handle, t.Source)
		}
		fmt.Fprintf(&b, "%s %s\n", k.alias, showTask(t))
	}
	return b.String(), nil
}

func showTask(t *engine.MoveTask) string {
	text := fmt.Sprintf("%s moved=%d to-move=%d", t.Status, t.Moved, t.ToMove)
	if t.Destination != "" {
		text += " to=" + queueOfARN(t.Destination)
	}
	if t.Rate != 0 {
		text += fmt.Sprintf(" rate=%d", t.Rate)
	}
	text += " started=" + sinceEpoch(t.Started)
	if t.Failure != "" {
		text += " failure=" + t.Failure
	}
	if t.Handle != "" {
		text += " handle"
	}
	return text
}

// moveCancel cancels a task, which is named by its alias. Any other text is a handle that was
// never given out.
func (p *Player) moveCancel(a *args, _ []string) (string, error) {
	op := &engine.CancelMessageMoveTask{Account: a.account(), Handle: a.text("task")}
	if err := a.done(); err != nil {
		return "", err
	}
	for _, tasks := range p.tasks { // order does not matter: aliases differ
		for _, t := range tasks {
			if t.alias == op.Handle.Value {
				op.Handle.Value = t.handle
			}
		}
	}
	refusal, err := p.do(op)
	if refusal != "" || err != nil {
		return refusal, err
	}
	return fmt.Sprintf("moved=%d", op.Moved), nil
}

// moveStep lets the move tasks go on by one step.
func (p *Player) moveStep(a *args, _ []string) (string, error) {
	return p.simple(a, &engine.MoveStep{Most: int(a.number("most").Value)})
}
