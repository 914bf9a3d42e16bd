package enginetest

import (
	"fmt"
	"slices"
	"strings"

	"tenaq/internal/kv"
)

// Played says how much was played.
type Played struct {
	Steps      int // of scripts
	Operations int // of the engine: a step may take many, and each variant counts
}

// Add adds what else was played.
func (p *Played) Add(more Played) {
	p.Steps += more.Steps
	p.Operations += more.Operations
}

// Compare plays n generated steps against a model and against the engine in every variant. The
// difference is nil when all answer alike.
func Compare(seed uint64, n int, variants []Variant) (Played, *Difference) {
	return compare(seed, n, judge{}, variants)
}

// Alike plays n generated steps against the engine in every variant. The difference is nil when all
// answer as the first one does and leave the same behind. What that is of a store, rows says.
func Alike(
	seed uint64, n int, variants []Variant, rows func(kv.Store) []string,
) (Played, *Difference) {
	return compare(seed, n, judge{first: &variants[0], rows: rows}, variants[1:])
}

// A judge knows the right answers.
type judge struct {
	first *Variant                // gives them; the model when nil
	rows  func(kv.Store) []string // what has to be left behind; nil when that does not matter
}

// start returns what answers right, at the beginning of a script.
func (j judge) start() *trial {
	if j.first != nil {
		return newTrial(*j.first)
	}
	return &trial{player: NewPlayer(NewModel())}
}

func compare(seed uint64, n int, by judge, variants []Variant) (played Played, d *Difference) {
	g, right := NewGenerator(seed), by.start()
	worlds := make([]*trial, len(variants))
	for i, v := range variants {
		worlds[i] = newTrial(v)
	}
	defer func() {
		for _, w := range append(worlds, right) {
			if w.world != nil {
				played.Operations += int(w.player.count)
				w.close()
			}
		}
	}()
	var steps []Step
	differs := func(w *trial, complaint string) (Played, *Difference) {
		return played, &Difference{Variant: w.variant, Steps: steps, Complaint: complaint,
			judge: by}
	}
	for i := 0; i < n+g.looked; i++ {
		s := g.Next(right.player.Receipts()).prepared()
		steps = append(steps, s)
		played.Steps++
		want, err := right.player.Play(s)
		if err != nil {
			return differs(right, fmt.Sprintf("what is right cannot be played: %v", err))
		}
		for _, w := range worlds {
			if complaint := w.play(s, want); complaint != "" {
				return differs(w, complaint)
			}
		}
	}
	if complaint := right.end(by.rows); complaint != "" {
		return differs(right, complaint)
	}
	for _, w := range worlds {
		if complaint := w.endAs(right, by.rows); complaint != "" {
			return differs(w, complaint)
		}
	}
	return played, nil
}

// A Difference is a script to which the engine does not answer as it should.
type Difference struct {
	Variant   Variant
	Steps     []Step
	Complaint string

	judge judge
}

// Shrink removes steps as long as there still is a difference.
func (d *Difference) Shrink() {
	for size := len(d.Steps) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(d.Steps); {
			less := slices.Concat(d.Steps[:at], d.Steps[at+size:])
			if complaint, length := d.replay(less); complaint != "" {
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
			s.Lines, s.read = slices.Delete(slices.Clone(s.Lines), j, j+1), nil
			less := slices.Clone(d.Steps)
			less[i] = s
			if complaint, _ := d.replay(less); complaint != "" && len(s.Lines) > 0 {
				d.Steps, d.Complaint = less, complaint
			} else {
				j++
			}
		}
	}
}

// String shows the difference as a script with the right answers, and what the engine said to the
// last step.
func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "in variant %+v\n%s\n\nThe script, with the answers of ", d.Variant,
		d.Complaint)
	if d.judge.first != nil {
		fmt.Fprintf(&b, "variant %+v:\n\n", *d.judge.first)
	} else {
		b.WriteString("the model:\n\n")
	}
	right := d.judge.start()
	defer right.close()
	for _, s := range d.Steps {
		answer, err := right.player.Play(s)
		if err != nil {
			answer = err.Error() + "\n"
		}
		fmt.Fprintf(&b, "%s\n----\n%s\n", s, answer)
	}
	return b.String()
}

// replay plays steps from the beginning. It returns the first complaint and after how many steps it
// came.
func (d *Difference) replay(steps []Step) (complaint string, length int) {
	right, w := d.judge.start(), newTrial(d.Variant)
	defer right.close()
	defer w.close()
	for i, s := range steps {
		want, err := right.player.Play(s)
		if err != nil {
			return "", 0 // a script that cannot be played is no shorter form of one that could
		}
		if complaint := w.play(s, want); complaint != "" {
			return complaint, i + 1
		}
	}
	if right.end(d.judge.rows) != "" {
		return "", 0
	}
	return w.endAs(right, d.judge.rows), len(steps)
}

// A trial is what plays a script under comparison: a world, or the model.
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

// lastSteps end a script. A sweep clears away the graves that it did not find as long as their
// queues were in memory, counters follow time when they are asked for, and a stamp is the time of
// the last turn.
var lastSteps = func() []Step {
	steps := []Step{{Text: "sweep"}}
	for _, q := range slices.Compact(slices.Concat(standardNames, fifoNames)) {
		steps = append(steps, Step{Text: "counters q=" + q})
	}
	return append(steps, Step{Text: "stamp"})
}()

// end ends the turn and returns what is wrong with the rows that are left, if anything. If there
// are rows to be compared, it makes them comparable.
func (t *trial) end(rows func(kv.Store) []string) (complaint string) {
	defer func() {
		if r := recover(); r != nil {
			complaint = fmt.Sprintf("panic: %v", r)
		}
	}()
	if t.world == nil {
		return ""
	}
	t.world.hold(false)
	if rows != nil {
		for _, s := range lastSteps {
			if _, err := t.player.Play(s); err != nil {
				return err.Error()
			}
			t.world.mustCommit()
		}
	}
	if t.variant.Audit == nil {
		return ""
	}
	if err := t.variant.Audit(t.world.store); err != nil {
		return "audit: " + err.Error()
	}
	return ""
}

// endAs ends the turn and returns what is wrong with the rows by themselves, and beside those of a
// trial that has ended.
func (t *trial) endAs(right *trial, rows func(kv.Store) []string) (complaint string) {
	if complaint = t.end(rows); complaint != "" || rows == nil {
		return complaint
	}
	got, want := rows(t.world.store), rows(right.world.store)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("the row is missing\n%s", want[i])
		case i >= len(want):
			return fmt.Sprintf("there should be no row\n%s", got[i])
		case got[i] != want[i]:
			return fmt.Sprintf("got the row\n%s\nwant\n%s", got[i], want[i])
		}
	}
	return ""
}

// close gives up the store of a trial, whatever state a panic has left it in.
func (t *trial) close() {
	if t.world == nil {
		return
	}
	defer func() { _ = recover() }()
	t.world.Close()
}
