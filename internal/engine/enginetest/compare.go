package enginetest

import (
	"fmt"
	"slices"
	"strings"
)

// Compare plays n generated steps against a model and against the engine in every variant. It returns
// nil when all answer alike, and otherwise a *Difference.
func Compare(seed uint64, n int, variants []Variant) *Difference {
	g := NewGenerator(seed)
	model := NewPlayer(NewModel())
	worlds := make([]*trial, len(variants))
	for i, v := range variants {
		worlds[i] = newTrial(v)
		defer worlds[i].close()
	}
	var steps []Step
	for range n {
		s := g.Next(model.Receipts())
		steps = append(steps, s)
		want, err := model.Play(s)
		if err != nil {
			return &Difference{Steps: steps, Complaint: fmt.Sprintf("the model cannot play: %v", err)}
		}
		for _, w := range worlds {
			if complaint := w.play(s, want); complaint != "" {
				return &Difference{Variant: w.variant, Steps: steps, Complaint: complaint}
			}
		}
	}
	for _, w := range worlds {
		if complaint := w.end(); complaint != "" {
			return &Difference{Variant: w.variant, Steps: steps, Complaint: complaint}
		}
	}
	return nil
}

// A Difference is a script to which the engine does not answer as the model does.
type Difference struct {
	Variant   Variant
	Steps     []Step
	Complaint string
}

// Shrink removes steps as long as there still is a difference.
func (d *Difference) Shrink() {
	for size := len(d.Steps) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(d.Steps); {
			less := slices.Concat(d.Steps[:at], d.Steps[at+size:])
			if complaint, length := replay(less, d.Variant); complaint != "" {
				d.Steps, d.Complaint, shorter = less[:length], complaint, true
			} else {
				at += size
			}
		}
		if !shorter || size > len(d.Steps) {
			size /= 2
		}
	}
	// The lines of batches, one by one.
	for i := range d.Steps {
		for j := 0; j < len(d.Steps[i].Lines); {
			s := d.Steps[i]
			s.Lines = slices.Delete(slices.Clone(s.Lines), j, j+1)
			less := slices.Clone(d.Steps)
			less[i] = s
			if complaint, _ := replay(less, d.Variant); complaint != "" && len(s.Lines) > 0 {
				d.Steps, d.Complaint = less, complaint
			} else {
				j++
			}
		}
	}
}

// String shows the difference as a script with the answers of the model, and what the engine said to the
// last step.
func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "in variant %+v\n%s\n\nThe script, with the answers of the model:\n\n", d.Variant, d.Complaint)
	model := NewPlayer(NewModel())
	for _, s := range d.Steps {
		answer, err := model.Play(s)
		if err != nil {
			answer = err.Error() + "\n"
		}
		fmt.Fprintf(&b, "%s\n----\n%s\n", s, answer)
	}
	return b.String()
}

// replay plays steps against a new model and a new world. It returns the first complaint and after how
// many steps it came.
func replay(steps []Step, v Variant) (complaint string, length int) {
	model, w := NewPlayer(NewModel()), newTrial(v)
	defer w.close()
	for i, s := range steps {
		want, err := model.Play(s)
		if err != nil {
			return "", 0 // a script that cannot be played is no shorter form of one that could
		}
		if complaint := w.play(s, want); complaint != "" {
			return complaint, i + 1
		}
	}
	return w.end(), len(steps)
}

// A trial is a world under comparison.
type trial struct {
	variant Variant
	world   *World
	player  *Player
}

func newTrial(v Variant) *trial {
	t := &trial{variant: v, world: NewWorld(v)}
	t.player = NewPlayer(t.world)
	return t
}

// play returns what is wrong with the answer to a step, if anything.
func (t *trial) play(s Step, want string) (complaint string) {
	defer func() {
		if r := recover(); r != nil {
			complaint = fmt.Sprintf("panic: %v", r)
		}
	}()
	got, err := t.player.Play(s)
	switch {
	case err != nil:
		return err.Error()
	case got != want:
		return fmt.Sprintf("%s\ngot:\n%swant:\n%s", s, got, want)
	}
	return ""
}

// end ends the turn and returns what is wrong with the rows that are left, if anything.
func (t *trial) end() (complaint string) {
	defer func() {
		if r := recover(); r != nil {
			complaint = fmt.Sprintf("panic: %v", r)
		}
	}()
	t.world.hold(false)
	if t.variant.Audit == nil {
		return ""
	}
	if err := t.variant.Audit(t.world.store); err != nil {
		return "audit: " + err.Error()
	}
	return ""
}

// close gives up the store of a trial, whatever state a panic has left it in.
func (t *trial) close() {
	defer func() { _ = recover() }()
	t.world.Close()
}
