package enginetest

import (
	"flag"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// RunScript plays the script at path in every variant. The first variant is compared with the
// answers in the file, or with the flag -rewrite makes them; every other one must answer as the
// first did. The rows that the first leaves must agree with each other.
func RunScript(t *testing.T, path string, variants []Variant) {
	var steps []Step
	var want []string
	t.Run(variants[0].Name, func(t *testing.T) {
		p := newPlayerOver(t, variants[0])
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s := stepOf(d)
			answer := mustPlay(t, p, s)
			steps, want = append(steps, s), append(want, answer)
			return answer
		})
		p.world.hold(false)
		if err := Audit(p.world.store); err != nil {
			t.Errorf("the rows after the script: %v", err)
		}
	})
	if t.Failed() || flag.Lookup("rewrite").Value.String() == "true" {
		return
	}
	for _, v := range variants[1:] {
		t.Run(v.Name, func(t *testing.T) {
			p := newPlayerOver(t, v)
			for i, s := range steps {
				if got := mustPlay(t, p, s); got != want[i] {
					t.Fatalf("%s: %s\ngot:\n%swant, as in variant %s:\n%s", s.Pos, s, got,
						variants[0].Name, want[i])
				}
			}
		})
	}
}

func newPlayerOver(t *testing.T, v Variant) *Player {
	w := NewWorld(v)
	t.Cleanup(w.Close)
	return NewPlayer(w)
}

func mustPlay(t *testing.T, p *Player, s Step) string {
	t.Helper()
	answer, err := p.Play(s)
	if err != nil {
		t.Fatalf("%s: %v", s.Pos, err)
	}
	return answer
}
