package faultproxy

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// A Request is what a plan is asked about.
type Request struct {
	N         int    // from 1, in the order in which the requests of this operation came
	Operation string // such as ReceiveMessage; empty when the request names none
	Body      []byte // not to be changed
}

// A Fault is what goes wrong with one request. The zero Fault is nothing.
type Fault struct {
	// Before and After delay the request on its way to the server, and the answer on its way back.
	// A client that goes away meanwhile takes the request with it, if the server has not seen it
	// yet.
	Before, After time.Duration

	// How the request fails, if it does.
	How How

	// LateBy is how long after the end of its connection a request that fails Late reaches the
	// server.
	LateBy time.Duration
}

// How is the way in which a request fails.
type How int

// The ways in which a request fails.
const (
	Passes How = iota // it does not
	Drop              // its connection is reset, and the server never sees it
	Lose              // the server carries it out, then the connection is reset
	Late              // the connection is reset, and the server carries it out later
	Twice             // the server carries it out twice, and the second answer is the answer
	// of a batch the server carries out every second entry; the others are answered as failed
	Partly
	Fail        // it is answered with status 500, and the server never sees it
	Unavailable // the same with status 503
	Throttle    // the same with the refusal RequestThrottled
	hows
)

// String is the name of the constant, in lower case.
func (h How) String() string {
	return [hows]string{"passes", "drop", "lose", "late", "twice", "partly", "fail", "unavailable",
		"throttle"}[h]
}

// Script returns a plan: the faults of one operation, by the number of its requests.
func Script(operation string, faults map[int]Fault) func(Request) Fault {
	return func(r Request) (f Fault) {
		if r.Operation == operation {
			f = faults[r.N]
		}
		return f
	}
}

// Chances are how probable each trouble is, from 0 to 1.
type Chances struct {
	// of which at most one happens
	Drop, Lose, Late, Twice, Partly, Fail, Unavailable, Throttle float64

	// how many requests are delayed, half of them before the server and half behind it
	Slow     float64
	DelayMax time.Duration // by how much at most, and how late a request that fails Late is
}

// Sometimes returns a plan that decides at random: by the chances of the operation, and for
// operations without chances by those under the empty name. The n-th request of an operation has
// the same fault whenever the seed is the same, whatever other operations do.
func Sometimes(seed uint64, chances map[string]Chances) func(Request) Fault {
	var mu sync.Mutex
	dice := make(map[string]*rand.Rand)
	return func(r Request) Fault {
		c, ok := chances[r.Operation]
		if !ok {
			c = chances[""]
		}
		mu.Lock()
		defer mu.Unlock()
		rng := dice[r.Operation]
		if rng == nil {
			name := fnv.New64a()
			name.Write([]byte(r.Operation))
			rng = rand.New(rand.NewPCG(seed, name.Sum64()))
			dice[r.Operation] = rng
		}
		return c.roll(rng)
	}
}

// roll always takes the same number of dice, so that one fault does not change those behind it.
func (c *Chances) roll(rng *rand.Rand) (f Fault) {
	p, slow, behind, delay, late := rng.Float64(), rng.Float64(), rng.IntN(2) == 0, rng.Float64(),
		rng.Float64()
	for _, way := range []struct {
		how    How
		chance float64
	}{
		{Drop, c.Drop}, {Lose, c.Lose}, {Late, c.Late}, {Twice, c.Twice}, {Partly, c.Partly},
		{Fail, c.Fail}, {Unavailable, c.Unavailable}, {Throttle, c.Throttle},
	} {
		if p < way.chance {
			f.How = way.how
			break
		}
		p -= way.chance
	}
	if f.How == Late {
		f.LateBy = time.Duration(late * float64(c.DelayMax))
	}
	if slow < c.Slow {
		d := time.Duration(delay * float64(c.DelayMax))
		if behind {
			f.After = d
		} else {
			f.Before = d
		}
	}
	return f
}
