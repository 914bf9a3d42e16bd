package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/internal/testing/proof"
	"tenaq/outbox"
	"tenaq/records/recordstest"
)

// A plan counts pieces of work, not rows: twelve rows about six jobs are six messages.
func TestPlanCountsWorks(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.server.Queue(t, "jobs")
		r.start(nil)
		for range 2 {
			for i := range 6 {
				r.enqueue(outbox.Message{Queue: "jobs", Body: fmt.Sprint(i), Dedup: fmt.Sprint("job-", i)})
			}
		}
		r.sleep(time.Minute)
		plan, err := r.replayer(nil).Plan(t.Context(), 9)
		if err != nil || plan.Count != 12 || plan.Works != 6 || plan.Written != 6 || plan.Same() != 6 {
			t.Errorf("the plan is %+v, %v; want 6 messages from 12 rows", plan, err)
		}
		wantSamples(t, plan, "0", "1", "2", "3", "4", "5")
		if done := r.replay(nil); done.Written != 6 {
			t.Errorf("the run has written %d messages", done.Written)
		}
	})
}

// The samples of a plan are messages that a run would send: none that is completed, and none twice.
func TestPlanSamplesWhatIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.server.Queue(t, "jobs")
		r.start(nil)
		for range 2 {
			for i := range 6 {
				r.enqueue(outbox.Message{Queue: "jobs", Body: fmt.Sprint(i), Dedup: fmt.Sprint("job-", i)})
			}
		}
		r.sleep(time.Minute)
		store := recordstest.NewMemory()
		ledger := r.ledger(store)
		for _, key := range []string{"job-0", "job-2", "job-3"} {
			claim, err := ledger.Acquire(t.Context(), key)
			if err == nil {
				err = claim.Complete(t.Context(), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for most, want := range map[int][]string{0: nil, 2: {"1", "4"}, 9: {"1", "4", "5"}} {
			plan, err := r.replayer(func(c *outbox.ReplayConfig) { c.MissingOnly, c.Ledger = true, ledger }).Plan(t.Context(), most)
			if err != nil {
				t.Fatal(err)
			}
			wantSamples(t, plan, want...)
		}
	})
}

func wantSamples(t *testing.T, plan outbox.Plan, want ...string) {
	t.Helper()
	var got []string
	for _, past := range plan.First {
		got = append(got, past.Body)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the samples are %q, want %q", got, want)
	}
}

// A run does what the plan said, for any rows and any ledger.
func TestPlanIsWhatRunDoes(t *testing.T) {
	seed := proof.Seed(t)
	for i := range uint64(20) {
		inBubble(t, func(t *testing.T, r *rig) {
			dice := rand.New(rand.NewPCG(seed, i))
			for _, queue := range []string{"jobs", "other", "jobs.fifo", "lane"} {
				r.server.Queue(t, queue)
			}
			r.start(nil)
			store := recordstest.NewMemory()
			begun := time.Now()
			for n := range 4 {
				var messages []outbox.Message
				for range dice.IntN(60) {
					m := outbox.Message{
						Queue: []string{"jobs", "other", "jobs.fifo"}[dice.IntN(3)], Key: fmt.Sprint("k", dice.IntN(5)), Body: "b",
						Generation: max(0, dice.IntN(5)-2),
					}
					if dice.IntN(3) > 0 {
						m.Dedup = fmt.Sprint("job-", dice.IntN(8))
					}
					messages = append(messages, m)
				}
				r.enqueue(messages...)
				r.sleep(time.Minute)
				r.learn(dice, store)
				change := func(c *outbox.ReplayConfig) {
					if c.MissingOnly = n%2 == int(i%2); c.MissingOnly {
						c.Ledger = r.ledger(store)
					} else if dice.IntN(2) == 0 {
						c.Generation = dice.IntN(9)
					}
					if dice.IntN(2) == 0 {
						c.Lane = "lane"
					}
					if dice.IntN(2) == 0 {
						c.Source.Queues = []string{"jobs", "jobs.fifo"}
					}
					if dice.IntN(2) == 0 {
						c.Source.From = begun.Add(time.Duration(dice.IntN(3)) * time.Minute)
					}
				}
				var same outbox.ReplayConfig
				plan, err := r.replayer(func(c *outbox.ReplayConfig) { change(c); same = *c }).Plan(t.Context(), 3)
				if err != nil {
					t.Fatal(err)
				}
				done := r.replay(func(c *outbox.ReplayConfig) { *c = same })
				if plan.Count != done.Found || plan.Tally != done.Tally || plan.Works > plan.Count || plan.Written > plan.Count {
					t.Errorf("case %d, replay %d: the plan is %+v, and the run has found %d and done %+v", i, n, plan, done.Found, done.Tally)
				}
				if same := plan.Same(); same < 0 {
					t.Errorf("case %d: %d rows are about the same work", i, same)
				}
				r.sleep(time.Minute)
			}
		})
	}
}

// learn has the ledger know something about some of the works that TestPlanIsWhatRunDoes sends.
func (r *rig) learn(dice *rand.Rand, store *recordstest.Memory) {
	r.t.Helper()
	parking, err := claims.New(claims.Config{Store: store, Lost: func(context.Context, claims.Entry) (claims.Decision, error) { return claims.Park("no idea"), nil }})
	if err != nil {
		r.t.Fatal(err)
	}
	for range 8 {
		key := claims.EffectKey(fmt.Sprint("job-", dice.IntN(8)), max(0, dice.IntN(5)-2))
		claim, err := parking.Acquire(r.t.Context(), key)
		if err != nil {
			continue // it is completed, or parked
		}
		switch dice.IntN(4) {
		case 0:
			err = claim.Fail(r.t.Context(), "not this time")
		case 1:
			r.sleep(2 * time.Minute) // it is lost
			if _, err = parking.Acquire(r.t.Context(), key); errors.Is(err, claims.NeedsPerson) {
				err = nil
			}
		default:
			err = claim.Complete(r.t.Context(), nil)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}
