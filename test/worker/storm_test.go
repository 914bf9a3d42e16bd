package worker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/records/recordstest"
)

// storm gives the workers of a world trouble for some time, and then peace until all is done. It
// returns what the oracle has to say.
func (w *world) storm(d time.Duration, rate int) []violation {
	w.Helper()
	for _, s := range w.seats {
		s.start()
		defer s.stopWorker()
	}
	var trouble sync.WaitGroup
	ctx, cancel := context.WithTimeout(w.Context(), d)
	defer cancel()
	for _, s := range w.seats {
		if !w.peace {
			trouble.Go(func() { s.suffer(ctx) })
		}
	}
	w.sendFor(d, rate)
	trouble.Wait()
	w.calm.Store(true)
	w.settle()
	for _, s := range w.seats {
		s.stopWorker()
	}
	violations := w.oracle.judge(w.end())
	w.Log(w.oracle.figures())
	w.Log(w.troubles())
	return violations
}

// troubles says what went wrong on purpose.
func (w *world) troubles() map[string]int {
	n := make(map[string]int)
	for _, s := range w.seats {
		if s.virtual {
			for how, count := range s.wire.counts() {
				n[how.String()] += count
			}
			continue
		}
		for how, count := range s.proxy.Count("") {
			n[how.String()] += count
		}
		n["slow"] += s.proxy.Slow()
		n["cut off"] += s.proxy.Cut()
	}
	return n
}

// suffer gives one worker outages, of the queue or the ledger or both, and restarts it now and
// then.
func (s *seat) suffer(ctx context.Context) {
	up := func(d time.Duration) time.Duration { return time.Duration(s.rng.Float64() * float64(d)) }
	for ctx.Err() == nil {
		wait(ctx, up(2*lease))
		p := s.rng.Float64()
		if s.ledgerOnly {
			p = 1
		}
		if p < .2 {
			s.stopWorker()
			s.start()
			continue
		}
		s.outage(p < .6)
		if p > .45 { // nothing is written any more, or all that one hears is that it was not
			s.ill.Store(int32([]recordstest.How{recordstest.Before, recordstest.After}[s.rng.IntN(2)]))
		}
		wait(ctx, up(2*lease))
		s.outage(false)
		s.ill.Store(int32(recordstest.Works))
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// worlds are those in which the rules have to hold.
var worlds = map[string]worldConfig{
	"standard":                      {receives: 1000, prefetch: 5},
	"long work":                     {receives: 1000, long: true},
	"the same work again and again": {receives: 1000, twins: .6, long: true, ledgerOnly: true},
	"standard, moved by the queue":  {receives: attempts + 1, sqlite: true},
	"FIFO":                          {receives: 1000, fifo: true, prefetch: 4},
	"FIFO in batches":               {receives: 1000, fifo: true, batches: 3, sqlite: true},
	"in batches, without a clock":   {receives: 1000, batches: 3, noClock: true},
}

// rate is how many messages a second three workers can do.
func (cfg worldConfig) rate() int {
	switch {
	case cfg.long, cfg.fifo && cfg.batches > 1:
		return 6
	case cfg.fifo:
		return 10
	}
	return 15
}

// No failure between workers, queue and ledger breaks a rule. In bubbles the machine is never busy,
// so no rule needs an allowance.
func TestStormInBubbles(t *testing.T) {
	t.Parallel()
	for name, cfg := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg.virtual, cfg.sqlite = true, false
				w := newWorld(t, cfg, 3)
				mustObey(t, w.storm(2*troubleTime(), cfg.rate()))
				if w.oracle.excused > 0 {
					t.Errorf("%d overlaps were excused where no machine can stand still", w.oracle.excused)
				}
			})
		})
	}
}

// The same with a real server, real sockets and real time: in some of the worlds, unless there is
// time.
func TestStorm(t *testing.T) {
	t.Parallel()
	for name, cfg := range worlds {
		if !soak() && name != "standard" && !cfg.sqlite {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cfg, 3)
			mustObey(t, w.storm(troubleTime(), cfg.rate()))
		})
	}
}

// In peace attempts are counted exactly, and every reason is that of the last handler.
func TestPeace(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]worldConfig{
		"standard":   {receives: 1000},
		"FIFO":       {receives: 1000, fifo: true},
		"in batches": {receives: 1000, batches: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg.virtual, cfg.peace = true, true
				w := newWorld(t, cfg, 2)
				mustObey(t, w.storm(troubleTime(), 8))
			})
		})
	}
}

// mustObey fails a test whose oracle found violations.
func mustObey(t *testing.T, violations []violation) {
	t.Helper()
	for i, v := range violations {
		if i == 20 {
			t.Errorf("and %d more", len(violations)-i)
			return
		}
		t.Error(v)
	}
}
