package recordstest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"tenaq/internal/testing/proof"
	"tenaq/records"
)

// A linearCall is a call of the case Linear.
type linearCall struct {
	op   Op
	key  string
	n    int // of the call, which a Put writes as the value
	cond records.Version
}

// A linearState is a record, or the zero value. The version is zero if it is unknown, because no
// answer has named it yet.
type linearState struct {
	n       int
	version records.Version
}

// A linearAnswer is what a call said: the record that it wrote, found, or was refused for.
type linearAnswer struct {
	linearState
	refused, unknown bool
}

// linearModel is one record. A call without an answer has an effect or none.
var linearModel = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		keys := make(map[string][]porcupine.Operation)
		for _, o := range history {
			key := o.Input.(linearCall).key
			keys[key] = append(keys[key], o)
		}
		var all [][]porcupine.Operation
		for _, one := range keys {
			all = append(all, one)
		}
		return all
	},
	Init: func() []any { return []any{linearState{}} },
	Step: func(state, input, output any) []any {
		return linearStep(state.(linearState), input.(linearCall), output.(linearAnswer))
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v -> %+v", input, output)
	},
}

func linearStep(s linearState, c linearCall, a linearAnswer) []any {
	exists := s.n != 0
	holds := exists == (c.cond != 0) && (!exists || s.version == 0 || s.version == c.cond)
	after := linearState{}
	if c.op == Put {
		after = linearState{c.n, a.version}
	}
	switch {
	case a.unknown && holds && (c.op == Put || c.op == Delete && exists):
		after.version = 0
		return []any{s, after}
	case a.unknown:
		return []any{s}
	case c.op == Get || a.refused:
		// It saw this record, whose version may not have been known.
		same := s.n == a.n && (s.version == 0 || s.version == a.version)
		if !same || a.refused && a.version == c.cond && (c.op == Put || exists) {
			return nil
		}
		return []any{a.linearState}
	case !holds || c.op == Put && a.version <= c.cond || c.op == Delete && !exists:
		return nil
	}
	return []any{after}
}

// Concurrent calls are answered as if they had been carried out one after the other, each at some
// time between its beginning and its answer. Calls whose contexts end meanwhile may take effect, as
// a whole, or not.
func testLinear(e *env) {
	stores := []records.Store{e.open(), e.open()}
	var (
		clock   atomic.Int64
		mu      sync.Mutex
		history []porcupine.Operation
		callers sync.WaitGroup
	)
	for i := range 8 {
		rng := rand.New(rand.NewPCG(e.rng.Uint64(), uint64(i)))
		callers.Go(func() {
			known := make(map[string]records.Version)
			for j := range proof.Few(60) {
				c := linearCall{n: i*1000 + j + 1, key: fmt.Sprint("key", rng.IntN(3))}
				c.op = []Op{Put, Put, Put, Delete, Get}[rng.IntN(5)]
				if c.op != Get && rng.IntN(8) != 0 {
					c.cond = known[c.key]
				}
				ctx, cancel := context.WithCancel(e.ctx)
				if rng.IntN(8) == 0 {
					time.AfterFunc(time.Duration(rng.Int64N(int64(2*time.Millisecond))), cancel)
				}
				o := porcupine.Operation{ClientId: i, Input: c, Call: clock.Add(1)}
				a, err := linearDo(ctx, stores[i%2], c)
				o.Output, o.Return = a, clock.Add(1)
				cancel()
				if a.unknown {
					o.Return = math.MaxInt64 // it may still take effect
				} else {
					known[c.key] = a.version
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					e.Errorf("%+v: %v", c, err)
					return
				}
				mu.Lock()
				history = append(history, o)
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	if e.Failed() {
		return
	}
	switch porcupine.CheckOperationsTimeout(linearModel.ToModel(), history, 20*time.Second) {
	case porcupine.Illegal:
		for _, o := range history {
			e.Logf("caller %d, %d to %d: %+v -> %+v", o.ClientId, o.Call, o.Return, o.Input,
				o.Output)
		}
		e.Error("no order of the calls explains their answers")
	case porcupine.Unknown:
		e.Log("gave up looking for an order of the calls")
	}
}

// linearDo makes a call.
func linearDo(ctx context.Context, s records.Store, c linearCall) (a linearAnswer, err error) {
	var r records.Record
	switch c.op {
	case Get:
		if r, err = s.Get(ctx, c.key); errors.Is(err, records.ErrNotFound) {
			return a, nil
		}
	case Put:
		r, err = s.Put(ctx, records.Write{Key: c.key, Value: fmt.Append(nil, c.n), If: c.cond})
	case Delete:
		err = s.Delete(ctx, c.key, c.cond)
	}
	if conflict, ok := errors.AsType[*records.Conflict](err); ok {
		r, err, a.refused = conflict.Current, nil, true
	}
	if a.unknown = err != nil; a.unknown || r.Version == 0 {
		return a, err
	}
	a.version = r.Version
	_, err = fmt.Sscan(string(r.Value), &a.n)
	return a, err
}
