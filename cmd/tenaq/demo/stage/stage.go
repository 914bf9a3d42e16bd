// Package stage is what the scenarios of "tenaq demo" share: a server and queues, a crew of
// processes that can be killed at chosen points, and rows that compare what must be with what is.
//
// A scenario is a plan. It says which processes run, at which points one of them dies, and how the
// outcome is judged. Every process reports each point that it reaches and waits for the answer, so
// a death happens exactly where the plan puts it.
//
// A plan reads like a test. Steps that do not fail in a good run, such as sending a message, return
// no error: a failure ends the scenario, as testing.T.FailNow does. The rows are judged all the
// same, because they show what is missing.
//
// The package does not judge anything itself, and it knows no scenario.
package stage

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"tenaq/internal/cli"
)

// A Scenario is one story of the demo.
type Scenario struct {
	Name   string
	Text   string // what happens, on one line
	Run    func(c *Crew) []Row
	Nodes  int             // of a cluster of its own; 0 for a single server
	Roles  map[string]Role // of its other processes
	Breaks []Break
}

// A Break is a part that a scenario can leave out on purpose, to show that its checks fail then.
type Break struct {
	Name string
	Text string // what is left out
	Ours bool   // it needs a server of the demo's own
}

// An Env is what a scenario is given.
type Env struct {
	Name     string // of the scenario
	Program  string // of the demo, for further processes
	Seed     uint64
	Dir      string        // to be made for this scenario alone
	Other    *cli.Endpoint // an SQS that the demo must not kill; nil for a server of its own
	Long     bool          // the full size, not the short one
	Keep     bool          // leave queues and schemas behind
	Broken   string        // name of the Break; empty for none
	Database string        // URL of a PostgreSQL; empty for SQLite
	Verbose  bool
	Progress *cli.Progress
}

// Play runs the scenario with an SQS and a crew of its own, and removes both at the end.
func (s *Scenario) Play(ctx context.Context, env *Env) (rows []Row, err error) {
	if err := os.Mkdir(env.Dir, 0o700); err != nil {
		return nil, err
	}
	if env.Program, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	queues, err := openSQS(ctx, env, s.Nodes)
	if err != nil {
		return nil, err
	}
	defer queues.close()
	c, err := newCrew(queues)
	if err != nil {
		return nil, err
	}
	defer c.close()
	c.Act.Play(func() { rows = s.Run(c) })
	return rows, cmp.Or(c.Failure(), context.Cause(ctx))
}

// RNG returns a source of randomness that depends on the seed and on its purpose, so that a change
// in one place leaves the decisions elsewhere as they are.
func (e *Env) RNG(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(e.Seed, purpose)) }

// Scale returns the size to use: small or, with --long, large.
func (e *Env) Scale(small, large int) int {
	if e.Long {
		return large
	}
	return small
}

// Say reports a step. On a terminal the progress line is enough, unless the details are wanted.
func (e *Env) Say(format string, args ...any) {
	if e.Verbose {
		e.Progress.Note(format, args...)
	}
}

// Pause waits, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) { cli.Pause(ctx, d) }

// Count counts what is so.
func Count[T any](all []T, so func(T) bool) (n int) {
	for _, one := range all {
		if so(one) {
			n++
		}
	}
	return n
}

// One is 1 for true.
func One(is bool) int {
	if is {
		return 1
	}
	return 0
}
