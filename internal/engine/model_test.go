package engine_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/engine/enginetest"
)

var (
	modelSteps = flag.Int("model.steps", modelStepsDefault, "how many generated steps TestModel plays in all")
	modelSeed  = flag.Uint64("model.seed", 0, "seed of the first script of TestModel; 0 is a new one each time")
)

const modelStepsDefault = 20_000

// scriptSteps is how long one generated script is.
const scriptSteps = 400

// TestModel plays generated scripts against the naive model and against the engine in several variants
// at once. A script that is answered differently is made as short as possible and printed in a form
// that can be added to testdata.
func TestModel(t *testing.T) {
	seed := *modelSeed
	if seed == 0 {
		seed = rand.Uint64() >> 32
	}
	t.Logf("the first seed is %d", seed)
	if short() && *modelSteps == modelStepsDefault {
		*modelSteps = modelStepsDefault / 10
	}
	for played := 0; played < *modelSteps; played, seed = played+scriptSteps, seed+1 {
		r := rand.New(rand.NewPCG(seed, 1))
		some := []enginetest.Variant{randomVariant(r), randomVariant(r), randomVariant(r)}
		if d := enginetest.Compare(seed, scriptSteps, some); d != nil {
			d.Shrink()
			t.Fatalf("-model.seed=%d: %s", seed, d)
		}
	}
}

// randomVariant makes up a way to run the engine, small windows and long turns included.
func randomVariant(r *rand.Rand) enginetest.Variant {
	one := func(list ...int) int { return list[r.IntN(len(list))] }
	v := enginetest.Variant{
		Window:      one(1, 2, 4, 16, 4096),
		WindowBytes: one(1, 10_000, 0),
		Turn:        one(1, 1, 2, 5, 16, 256),
		Restart:     one(0, 0, 0, 1) == 1,
		Audit:       engine.Audit,
	}
	if one(0, 0, 0, 0, 0, 1) == 1 {
		v.Disk = newPebbleDisk
	}
	return v
}
