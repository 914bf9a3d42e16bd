package engine_test

import (
	"fmt"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/engine/enginetest"
	"tenaq/internal/testing/proof"
)

// metamorphicSteps is how long a script of TestMetamorphic is: 24 ways to run the engine play it.
const metamorphicSteps = 200

// TestMetamorphic plays generated scripts in every combination of store, length of turns, size of
// windows, and stops of the server. All must give exactly the same answers as the first, and leave
// the same rows, which must be consistent. The test has no model: it does not need to know the
// right answer.
func TestMetamorphic(t *testing.T) {
	playScripts(t, proof.Seed(t), proof.Count(1, 4, 8, 500), func(seed uint64) (enginetest.Played, *enginetest.Difference) {
		return enginetest.Alike(seed, metamorphicSteps, everyVariant(seed), engine.Rows)
	})
}

// everyVariant is every combination of how the engine can be run. The first is the plain one.
func everyVariant(seed uint64) (list []enginetest.Variant) {
	for _, pebble := range []bool{false, true} {
		for _, turn := range []int{1, 256} {
			for _, window := range []int{4096, 4} {
				for _, stops := range []enginetest.Stops{{}, {OneIn: 30, Seed: seed}, {OneIn: 30, Cut: true, Seed: seed}} {
					v := enginetest.Variant{Turn: turn, Window: window, Stops: stops, Audit: enginetest.Audit}
					store := "memory"
					if pebble {
						v.Disk, store = newPebbleDisk, "pebble"
					}
					v.Name = fmt.Sprintf("%s-turn-%d-window-%d", store, turn, window)
					if stops.OneIn > 0 {
						v.Name += map[bool]string{false: "-stops", true: "-power-cuts"}[stops.Cut]
					}
					list = append(list, v)
				}
			}
		}
	}
	return list
}
