package outboxtest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/outbox"
)

// A mutant is a box with one mistake, made of one without by changing what goes in and what comes
// out. The fields that are nil change nothing.
type mutant struct {
	outbox.Box
	claim   func(m *mutant, ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error)
	renew   func(m *mutant, ctx context.Context, relay string, lease time.Duration) ([]string, error)
	settle  func(m *mutant, ctx context.Context, relay string, outcomes []outbox.Outcome) error
	wait    func(m *mutant, ctx context.Context, most time.Duration) error
	stats   func(s *outbox.Stats)
	sweep   func(m *mutant, ctx context.Context, keep time.Duration, limit int) (int, error)
	parked  func(m *mutant, ctx context.Context, after string, limit int) ([]outbox.ParkedRow, error)
	release func(m *mutant, ctx context.Context, ids []string) (int, error)
	discard func(m *mutant, ctx context.Context, ids []string) (int, error)
	seen    func(m *mutant, ctx context.Context, rows []outbox.Seen) (int, error)

	*memory
}

// A memory is shared by all mutants of one outbox.
type memory struct {
	mu       sync.Mutex
	kept     []outbox.Row
	renewals atomic.Int64
}

func (m *mutant) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error) {
	if m.claim == nil {
		return m.Box.Claim(ctx, c)
	}
	return m.claim(m, ctx, c)
}

func (m *mutant) Renew(ctx context.Context, relay string, lease time.Duration) ([]string, error) {
	defer m.renewals.Add(1)
	if m.renew == nil {
		return m.Box.Renew(ctx, relay, lease)
	}
	return m.renew(m, ctx, relay, lease)
}

func (m *mutant) Settle(ctx context.Context, relay string, outcomes []outbox.Outcome) error {
	if m.settle == nil {
		return m.Box.Settle(ctx, relay, outcomes)
	}
	return m.settle(m, ctx, relay, outcomes)
}

func (m *mutant) Wait(ctx context.Context, most time.Duration) error {
	if m.wait == nil {
		return m.Box.Wait(ctx, most)
	}
	return m.wait(m, ctx, most)
}

func (m *mutant) Stats(ctx context.Context) (outbox.Stats, error) {
	s, err := m.Box.Stats(ctx)
	if m.stats != nil {
		m.stats(&s)
	}
	return s, err
}

func (m *mutant) Sweep(ctx context.Context, keep time.Duration, limit int) (int, error) {
	if m.sweep == nil {
		return m.Box.Sweep(ctx, keep, limit)
	}
	return m.sweep(m, ctx, keep, limit)
}

func (m *mutant) Parked(ctx context.Context, after string, limit int) ([]outbox.ParkedRow, error) {
	if m.parked == nil {
		return m.Box.Parked(ctx, after, limit)
	}
	return m.parked(m, ctx, after, limit)
}

func (m *mutant) Release(ctx context.Context, ids ...string) (int, error) {
	if m.release == nil {
		return m.Box.Release(ctx, ids...)
	}
	return m.release(m, ctx, ids)
}

func (m *mutant) Discard(ctx context.Context, ids ...string) (int, error) {
	if m.discard == nil {
		return m.Box.Discard(ctx, ids...)
	}
	return m.discard(m, ctx, ids)
}

func (m *mutant) ReleaseSeen(ctx context.Context, rows ...outbox.Seen) (int, error) {
	if m.seen == nil {
		return m.Box.(outbox.Decider).ReleaseSeen(ctx, rows...)
	}
	return m.seen(m, ctx, rows)
}

func (m *mutant) DiscardSeen(ctx context.Context, rows ...outbox.Seen) (int, error) {
	return m.Box.(outbox.Decider).DiscardSeen(ctx, rows...)
}

// asks changes what a claim asks for.
func asks(change func(c *outbox.Claim)) mutant {
	return mutant{claim: func(m *mutant, ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error) {
		change(&c)
		return m.Box.Claim(ctx, c)
	}}
}

// answers changes what a claim answers.
func answers(change func(rows []outbox.Row, next *time.Duration) []outbox.Row) mutant {
	return mutant{claim: func(m *mutant, ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error) {
		rows, next, err := m.Box.Claim(ctx, c)
		return change(rows, &next), next, err
	}}
}

// each changes every row of a claim.
func each(change func(r *outbox.Row)) mutant {
	return answers(func(rows []outbox.Row, _ *time.Duration) []outbox.Row {
		for i := range rows {
			change(&rows[i])
		}
		return rows
	})
}

// settles changes outcomes on their way.
func settles(change func(o *outbox.Outcome)) mutant {
	return mutant{settle: func(m *mutant, ctx context.Context, relay string, outcomes []outbox.Outcome) error {
		outcomes = slices.Clone(outcomes)
		for i := range outcomes {
			change(&outcomes[i])
		}
		return m.Box.Settle(ctx, relay, outcomes)
	}}
}

var mutants = map[string]mutant{
	"a late decision counts": {seen: func(m *mutant, ctx context.Context, rows []outbox.Seen) (int, error) {
		var ids []string
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		return m.Box.Release(ctx, ids...)
	}},
	"the time of a decision is one of seconds": {seen: func(m *mutant, ctx context.Context, rows []outbox.Seen) (int, error) {
		parked, err := m.Box.Parked(ctx, "", 100)
		var ids []string
		for _, p := range parked {
			for _, r := range rows {
				if p.ID == r.ID && p.At.Truncate(time.Second).Equal(r.At.Truncate(time.Second)) {
					ids = append(ids, r.ID)
				}
			}
		}
		if err != nil {
			return 0, err
		}
		return m.Box.Release(ctx, ids...)
	}},
	"Except is ignored":        asks(func(c *outbox.Claim) { c.Except = nil }),
	"the first of Except is":   asks(func(c *outbox.Claim) { c.Except = c.Except[min(1, len(c.Except)):] }),
	"Stream is ignored":        asks(func(c *outbox.Claim) { c.Stream = 1000 }),
	"Stream is always one":     asks(func(c *outbox.Claim) { c.Stream = 1 }),
	"Rows is ignored":          asks(func(c *outbox.Claim) { c.Rows = 1000 }),
	"Rows is one more":         asks(func(c *outbox.Claim) { c.Rows++ }),
	"Rows is one less":         asks(func(c *outbox.Claim) { c.Rows = max(1, c.Rows-1) }),
	"Bytes is ignored":         asks(func(c *outbox.Claim) { c.Bytes = 1 << 40 }),
	"a lease never ends":       asks(func(c *outbox.Claim) { c.Lease = 100 * time.Hour }),
	"a lease is half":          asks(func(c *outbox.Claim) { c.Lease /= 2 }),
	"a lease is no time":       asks(func(c *outbox.Claim) { c.Lease = 0 }),
	"all relays are one":       asks(func(c *outbox.Claim) { c.Relay = "r" }),
	"next is always now":       answers(func(rows []outbox.Row, next *time.Duration) []outbox.Row { *next = 0; return rows }),
	"next is never":            answers(func(rows []outbox.Row, next *time.Duration) []outbox.Row { *next = outbox.NextMax; return rows }),
	"next is half":             answers(func(rows []outbox.Row, next *time.Duration) []outbox.Row { *next /= 2; return rows }),
	"rows of a claim are lost": answers(func(rows []outbox.Row, _ *time.Duration) []outbox.Row { return rows[min(1, len(rows)):] }),
	"rows come twice": answers(func(rows []outbox.Row, _ *time.Duration) []outbox.Row {
		return append(rows, rows[:min(1, len(rows))]...)
	}),
	"rows come backwards":         answers(func(rows []outbox.Row, _ *time.Duration) []outbox.Row { slices.Reverse(rows); return rows }),
	"After is forgotten":          each(func(r *outbox.Row) { r.After = time.Time{} }),
	"After has whole seconds":     each(func(r *outbox.Row) { r.After = r.After.Truncate(time.Second) }),
	"headers are forgotten":       each(func(r *outbox.Row) { r.Headers = nil }),
	"the generation is forgotten": each(func(r *outbox.Row) { r.Generation = 0 }),
	"the dedup id is forgotten":   each(func(r *outbox.Row) { r.Dedup = "" }),
	"the dedup id is the id":      each(func(r *outbox.Row) { r.Dedup = r.ID }),
	"the type is forgotten":       each(func(r *outbox.Row) { r.Type = "" }),
	"the group is the key":        each(func(r *outbox.Row) { r.Group = r.Key }),
	"bodies are trimmed":          each(func(r *outbox.Row) { r.Body = strings.TrimSpace(r.Body) }),
	"bodies are cut":              each(func(r *outbox.Row) { r.Body = r.Body[:min(len(r.Body), 1<<16)] }),
	"bodies lose accents":         each(func(r *outbox.Row) { r.Body = strings.ToValidUTF8(strings.ReplaceAll(r.Body, "é", "e"), "") }),
	"without its time":            each(func(r *outbox.Row) { r.CreatedAt = time.Time{} }),
	"no row has a stream":         each(func(r *outbox.Row) { r.Stream = "" }),
	"all rows have a stream":      each(func(r *outbox.Row) { r.Stream += r.Queue }),
	"streams are queues":          each(func(r *outbox.Row) { r.Stream, _, _ = strings.Cut(r.Stream, "\x1f") }),
	"streams are groups":          each(func(r *outbox.Row) { _, r.Stream, _ = strings.Cut(r.Stream, "\x1f") }),
	"attempts are forgotten":      each(func(r *outbox.Row) { r.Attempts = 0 }),

	"a follower comes without its head": {claim: func(m *mutant, ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error) {
		rows, next, err := m.Box.Claim(ctx, c)
		for i, r := range rows {
			if i > 0 && r.Stream != "" && rows[i-1].Stream == r.Stream {
				first := rows[i-1]
				err = m.Settle(ctx, c.Relay, []outbox.Outcome{{ID: first.ID, Fate: outbox.Back}})
				return slices.Delete(rows, i-1, i), next, err
			}
		}
		return rows, next, err
	}},
	"who has a row gets it again": {claim: func(m *mutant, ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error) {
		rows, next, err := m.Box.Claim(ctx, c)
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(rows) == 0 {
			rows = m.kept
		}
		m.kept = rows
		return rows, next, err
	}},
	"a claim with nothing to do is an error": {claim: func(m *mutant, ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error) {
		rows, next, err := m.Box.Claim(ctx, c)
		if len(rows) == 0 {
			err = fmt.Errorf("no rows")
		}
		return rows, next, err
	}},

	"Renew does nothing": {renew: func(m *mutant, ctx context.Context, relay string, lease time.Duration) ([]string, error) {
		return nil, nil
	}},
	"Renew is for nothing": {renew: func(m *mutant, ctx context.Context, relay string, lease time.Duration) ([]string, error) {
		return m.Box.Renew(ctx, relay, 0)
	}},
	"Renew never shortens": {renew: func(m *mutant, ctx context.Context, relay string, lease time.Duration) ([]string, error) {
		return m.Box.Renew(ctx, relay, lease+long)
	}},
	"Renew returns one less": {renew: func(m *mutant, ctx context.Context, relay string, lease time.Duration) ([]string, error) {
		ids, err := m.Box.Renew(ctx, relay, lease)
		return ids[min(1, len(ids)):], err
	}},
	"Renew returns ids of old": {renew: func(m *mutant, ctx context.Context, relay string, lease time.Duration) ([]string, error) {
		ids, err := m.Box.Renew(ctx, relay, lease)
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, r := range m.kept {
			ids = append(ids, r.ID)
		}
		return ids, err
	}, claim: func(m *mutant, ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error) {
		rows, next, err := m.Box.Claim(ctx, c)
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(rows) > 0 {
			m.kept = rows[:1]
		}
		return rows, next, err
	}},

	"Back is an attempt": settles(func(o *outbox.Outcome) {
		if o.Fate == outbox.Back {
			o.Fate = outbox.Failed
		}
	}),
	"Failed is none": settles(func(o *outbox.Outcome) {
		if o.Fate == outbox.Failed {
			o.Fate = outbox.Back
		}
	}),
	"Parked is sent": settles(func(o *outbox.Outcome) {
		if o.Fate == outbox.Parked {
			o.Fate = outbox.Sent
		}
	}),
	"Sent comes back": settles(func(o *outbox.Outcome) {
		if o.Fate == outbox.Sent {
			o.Fate = outbox.Back
		}
	}),
	"After of an outcome is forgotten": settles(func(o *outbox.Outcome) { o.After = 0 }),
	"After of Back is forgotten": settles(func(o *outbox.Outcome) {
		if o.Fate == outbox.Back {
			o.After = 0
		}
	}),
	"After of an outcome is longer": settles(func(o *outbox.Outcome) { o.After += o.After / 2 }),
	"the reason is forgotten":       settles(func(o *outbox.Outcome) { o.Reason = "" }),
	"the reason is cut":             settles(func(o *outbox.Outcome) { o.Reason = o.Reason[:min(len(o.Reason), 100)] }),
	"only the first outcome counts": {settle: func(m *mutant, ctx context.Context, relay string, outcomes []outbox.Outcome) error {
		return m.Box.Settle(ctx, relay, outcomes[:min(1, len(outcomes))])
	}},
	"outcomes count one by one": {settle: func(m *mutant, ctx context.Context, relay string, outcomes []outbox.Outcome) error {
		for i := range outcomes {
			if err := m.Box.Settle(ctx, relay, outcomes[i:i+1]); err != nil {
				return err
			}
			// The watcher gets the chance to see it; in a bubble, only spinning gives that chance.
			for before, n := m.renewals.Load(), 0; i == 0 && len(outcomes) > 50 && m.renewals.Load() < before+2 && n < 200_000; n++ {
				runtime.Gosched()
			}
		}
		return nil
	}},
	"an outcome counts for everybody": {settle: func(m *mutant, ctx context.Context, relay string, outcomes []outbox.Outcome) error {
		box := m.Box.(*Memory)
		box.mu.Lock()
		for _, o := range outcomes {
			if r := box.rows[o.ID]; r != nil && r.relay != "" {
				r.relay = relay
			}
		}
		box.mu.Unlock()
		return box.Settle(ctx, relay, outcomes)
	}},
	"an outcome counts without a lease": {settle: func(m *mutant, ctx context.Context, relay string, outcomes []outbox.Outcome) error {
		box := m.Box.(*Memory)
		box.mu.Lock()
		for _, o := range outcomes {
			if r := box.rows[o.ID]; r != nil && r.relay == "" {
				r.relay = relay
			}
		}
		box.mu.Unlock()
		return box.Settle(ctx, relay, outcomes)
	}},
	"a late outcome does not count": {settle: func(m *mutant, ctx context.Context, relay string, outcomes []outbox.Outcome) error {
		box := m.Box.(*Memory)
		box.mu.Lock()
		outcomes = slices.DeleteFunc(slices.Clone(outcomes), func(o outbox.Outcome) bool {
			r := box.rows[o.ID]
			return r != nil && !time.Now().Before(r.lease)
		})
		box.mu.Unlock()
		return box.Settle(ctx, relay, outcomes)
	}},
	"who has nothing gets an error": {settle: func(m *mutant, ctx context.Context, relay string, outcomes []outbox.Outcome) error {
		ids, err := m.Box.Renew(ctx, relay, long)
		if err == nil && len(ids) == 0 && len(outcomes) > 0 {
			err = fmt.Errorf("nothing is leased to %s", relay)
		}
		return err
	}},

	"Wait returns late": {wait: func(m *mutant, ctx context.Context, most time.Duration) error {
		return m.Box.Wait(ctx, most+20*time.Second)
	}},
	"Wait only lets time pass": {wait: func(m *mutant, ctx context.Context, most time.Duration) error {
		select {
		case <-ctx.Done():
		case <-time.After(most):
		}
		return nil
	}},
	"Wait does not heed its context": {wait: func(m *mutant, ctx context.Context, most time.Duration) error {
		return m.Box.Wait(context.WithoutCancel(ctx), most)
	}},

	"pending has what is parked": {stats: func(s *outbox.Stats) { s.Pending += s.Parked }},
	"due is pending":             {stats: func(s *outbox.Stats) { s.Due = s.Pending }},
	"nothing is parked":          {stats: func(s *outbox.Stats) { s.Parked = 0 }},
	"nothing is old":             {stats: func(s *outbox.Stats) { s.Oldest = 0 }},
	"all is old":                 {stats: func(s *outbox.Stats) { s.Oldest += time.Minute }},

	"Sweep does nothing": {sweep: func(m *mutant, ctx context.Context, keep time.Duration, limit int) (int, error) { return 0, nil }},
	"Sweep keeps nothing": {sweep: func(m *mutant, ctx context.Context, _ time.Duration, limit int) (int, error) {
		return m.Box.Sweep(ctx, 0, limit)
	}},
	"Sweep has no limit": {sweep: func(m *mutant, ctx context.Context, keep time.Duration, _ int) (int, error) {
		return m.Box.Sweep(ctx, keep, 1000)
	}},
	"Sweep only counts": {sweep: sweepOnlyCounts},
	"Sweep takes parked ones": {sweep: func(m *mutant, ctx context.Context, keep time.Duration, limit int) (int, error) {
		parked, _ := m.Box.Parked(ctx, "", limit)
		for _, r := range parked {
			_, _ = m.Box.Discard(ctx, r.ID)
		}
		return m.Box.Sweep(ctx, keep, limit)
	}},

	"Parked forgets its place": {parked: func(m *mutant, ctx context.Context, _ string, limit int) ([]outbox.ParkedRow, error) {
		return m.Box.Parked(ctx, "", limit)
	}},
	"Parked has no limit": {parked: func(m *mutant, ctx context.Context, after string, _ int) ([]outbox.ParkedRow, error) {
		return m.Box.Parked(ctx, after, 1000)
	}},
	"Parked is backwards": {parked: func(m *mutant, ctx context.Context, after string, limit int) ([]outbox.ParkedRow, error) {
		rows, err := m.Box.Parked(ctx, after, limit)
		slices.Reverse(rows)
		return rows, err
	}},
	"Parked does not say when": {parked: func(m *mutant, ctx context.Context, after string, limit int) ([]outbox.ParkedRow, error) {
		rows, err := m.Box.Parked(ctx, after, limit)
		for i := range rows {
			rows[i].At = time.Time{}
		}
		return rows, err
	}},
	"Release does nothing": {release: func(m *mutant, ctx context.Context, ids []string) (int, error) { return len(ids), nil }},
	"Release counts all ids": {release: func(m *mutant, ctx context.Context, ids []string) (int, error) {
		_, err := m.Box.Release(ctx, ids...)
		return len(ids), err
	}},
	"Release takes one": {release: func(m *mutant, ctx context.Context, ids []string) (int, error) {
		return m.Box.Release(ctx, ids[:min(1, len(ids))]...)
	}},
	"Release keeps the place":    {release: releaseKeeps(func(was, is *memoryRow) { is.seq = was.seq })},
	"Release keeps the attempts": {release: releaseKeeps(func(was, is *memoryRow) { is.Attempts = was.Attempts })},
	"Discard does nothing":       {discard: func(m *mutant, ctx context.Context, ids []string) (int, error) { return 0, nil }},
	"Discard is Release":         {discard: func(m *mutant, ctx context.Context, ids []string) (int, error) { return m.Box.Release(ctx, ids...) }},
	"Discard takes all": {discard: func(m *mutant, ctx context.Context, ids []string) (int, error) {
		box := m.Box.(*Memory)
		box.mu.Lock()
		for _, id := range ids {
			delete(box.rows, id)
		}
		box.mu.Unlock()
		return m.Box.Discard(ctx, ids...)
	}},
}

func sweepOnlyCounts(m *mutant, ctx context.Context, keep time.Duration, limit int) (int, error) {
	box := m.Box.(*Memory)
	box.mu.Lock()
	defer box.mu.Unlock()
	n := 0
	for _, s := range box.sent {
		if time.Since(s.at) > keep && n < limit {
			n++
		}
	}
	return n, nil
}

// releaseKeeps releases rows and lets them keep something of what they were.
func releaseKeeps(keep func(was, is *memoryRow)) func(*mutant, context.Context, []string) (int, error) {
	return func(m *mutant, ctx context.Context, ids []string) (int, error) {
		box := m.Box.(*Memory)
		box.mu.Lock()
		before := make(map[string]memoryRow)
		for _, id := range ids {
			if r := box.rows[id]; r != nil {
				before[id] = *r
			}
		}
		box.mu.Unlock()
		n, err := box.Release(ctx, ids...)
		box.mu.Lock()
		defer box.mu.Unlock()
		for id, was := range before {
			keep(&was, box.rows[id])
		}
		return n, err
	}
}

// A judge is a test that may fail without consequences.
type judge struct {
	testing.TB
	mu    sync.Mutex
	wrong []string
}

func (j *judge) note(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wrong = append(j.wrong, s)
}

func (j *judge) Helper()                           {}
func (j *judge) Log(...any)                        {}
func (j *judge) Logf(string, ...any)               {}
func (j *judge) Error(args ...any)                 { j.note(fmt.Sprint(args...)) }
func (j *judge) Errorf(format string, args ...any) { j.note(fmt.Sprintf(format, args...)) }
func (j *judge) Fatal(args ...any)                 { j.note(fmt.Sprint(args...)); runtime.Goexit() }
func (j *judge) Fatalf(format string, args ...any) {
	j.note(fmt.Sprintf(format, args...))
	runtime.Goexit()
}
func (j *judge) Skip(...any) { runtime.Goexit() }

// convicts says which cases find something wrong with a box in memory that goes through wrap.
func convicts(t *testing.T, wrap func(outbox.Box) outbox.Box, most int) (by []string) {
	for _, c := range cases {
		if len(by) == most {
			break
		}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			j := &judge{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				e := newEnv(j, c.name, inMemory(wrap))
				e.ctx = ctx
				c.test(e)
			}()
			// A mistake may also make a case wait forever.
			select {
			case <-done:
			case <-time.After(time.Hour):
				j.note("it never ends")
				cancel()
				<-done
			}
			if len(j.wrong) > 0 {
				by = append(by, c.name+": "+j.wrong[0])
			}
		})
	}
	return by
}

// Every mistake is found by a case that does not rely on luck.
func TestMutants(t *testing.T) {
	proof.Unraced(t) // TestMemory runs the same cases
	if by := convicts(t, func(b outbox.Box) outbox.Box { return &mutant{Box: b, memory: new(memory)} }, 1); len(by) > 0 {
		t.Fatalf("a box without a mistake is found wrong: %q", by)
	}
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			shared := new(memory)
			var by []string
			for range 5 { // with -short a case does too little to be sure at once
				by = convicts(t, func(b outbox.Box) outbox.Box {
					wrong := m
					wrong.Box, wrong.memory = b, shared
					return &wrong
				}, 3)
				if len(by) > 0 || !testing.Short() {
					break
				}
			}
			if len(by) == 0 {
				t.Error("no case notices")
			}
			for _, s := range by {
				t.Logf("%.200s", s)
			}
		})
	}
}
