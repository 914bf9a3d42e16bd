package enginetest

import (
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestModelScripts plays scripts against the model alone. Their answers were checked by hand: the
// orders in groups.txt and prefix.txt are those that SQS was seen to give.
func TestModelScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		p := NewPlayer(NewModel())
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return mustPlay(t, p, stepOf(d))
		})
	})
}
