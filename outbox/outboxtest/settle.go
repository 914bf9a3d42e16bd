package outboxtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/outbox"
)

// Each fate has its end.
func testSettle(e *env) {
	b, other := e.Open(e), e.Open(e)
	e.put("a1 a2 v w x y")
	e.claim(b, outbox.Claim{Relay: "r"}, "a1 a2, v, w, x, y")
	outcomes := e.fates(outbox.Sent, 0, "a1 v")
	outcomes = append(outcomes, e.fates(outbox.Failed, 0, "a2")...)
	outcomes = append(outcomes, e.fates(outbox.Back, long, "w")...)
	outcomes = append(outcomes, e.fates(outbox.Parked, 0, "x")...)
	// which no relay has
	outcomes = append(outcomes, outbox.Outcome{ID: outbox.NewID(), Fate: outbox.Sent})
	e.settle(other, "r", outcomes...)
	e.counts(b, 3, 2, 1) // y is still in hand
	rows, next := e.claim(b, outbox.Claim{Relay: "r2"}, "a2")
	e.is(next, long-e.now()-slack, long)
	if len(rows) == 1 && rows[0].Attempts != 1 {
		e.Errorf("a row that failed once has %d attempts", rows[0].Attempts)
	}
	e.renew(b, "r", long, "y")

	// A settled row stays settled.
	e.settle(b, "r", e.fates(outbox.Failed, 0, "a1 v w x")...)
	e.sent(b, "r", "a2 w x")
	e.counts(b, 3, 2, 1)
	e.claim(b, outbox.Claim{Relay: "r3"}, "")

	// A reason may be anything.
	reason := "it's \"\\odd\" 👩‍🚀 \n" + strings.Repeat("é", 2000)
	e.settle(b, "r", outbox.Outcome{ID: e.ids["y"], Fate: outbox.Parked, Reason: reason})
	if got := e.parked(b, "", 10, "x y"); got[0].Reason != "parked x" || got[1].Reason != reason {
		e.Errorf("rows are parked for %.50q and %.50q", got[0].Reason, got[1].Reason)
	}
}

// Without outcomes nothing happens.
func testSettleNothing(e *env) {
	b := e.Open(e)
	e.put("x")
	e.claim(b, outbox.Claim{Relay: "r"}, "x")
	e.settle(b, "r")
	e.renew(b, "r", long, "x")
}

// A row that was sent stays sent, whatever else the same call or a later one says about it.
func testSettleTwice(e *env) {
	b := e.Open(e)
	e.put("w x y z")
	e.claim(b, outbox.Claim{Relay: "r"}, "w, x, y, z")
	outcomes := append(e.fates(outbox.Sent, 0, "x y x"), e.fates(outbox.Back, 0, "y")...)
	for range 2 {
		e.settle(b, "r", outcomes...)
		e.counts(b, 2, 2, 0)
	}
	e.settle(b, "r", append(e.fates(outbox.Failed, 0, "z"), e.fates(outbox.Sent, 0, "w y")...)...)
	e.claim(b, outbox.Claim{Relay: "r"}, "z")
	e.sent(b, "r", "z")
	e.counts(b, 0, 0, 0)
}

// However a call ends, it has done all or nothing.
func testSettleAllOrNone(e *env) {
	b, other := e.Open(e), e.Open(e)
	const n = 60
	var words []string
	for i := range n {
		words = append(words, "x"+strings.Repeat("y", i))
	}
	for round := range proof.Few(15) {
		if round == 0 {
			e.put(strings.Join(words, " "))
		}
		rows, _ := e.ask(b, outbox.Claim{Relay: "r"})
		if len(rows) != n {
			e.Fatalf("%d rows can be claimed, want %d", len(rows), n)
		}
		ctx, cancel := context.WithTimeout(e.ctx,
			time.Duration(e.rng.Int64N(int64(4*time.Millisecond))))
		done, watched := make(chan error, 1), 0
		go func() {
			done <- b.Settle(ctx, "r", e.fates(outbox.Back, 0, strings.Join(words, " ")))
		}()
		var err error
		for running := true; running; watched++ {
			select {
			case err = <-done:
				running = false
			default:
			}
			// Renew shows what the relay has, in one statement.
			ids, errRenew := other.Renew(e.ctx, "r", long)
			if errRenew != nil {
				e.Fatalf("renew: %v", errRenew)
			}
			if len(ids) != 0 && len(ids) != n {
				e.Fatalf("%d of %d outcomes are done (%v)", n-len(ids), n, err)
			}
			if !running && err == nil && len(ids) != 0 {
				e.Fatal("Settle returned and has done nothing")
			}
		}
		cancel()
		e.settle(b, "r", e.fates(outbox.Back, 0, strings.Join(words, " "))...)
	}
}

// Failed counts as an attempt, and nothing else does.
func testAttempts(e *env) {
	b := e.Open(e)
	e.put("a1 x")
	attempts := 0
	for i, fate := range []outbox.Fate{outbox.Failed, outbox.Back, outbox.Failed, outbox.Failed,
		outbox.Back, outbox.Parked} {
		rows, _ := e.claim(b, outbox.Claim{Relay: fmt.Sprint("r", i)}, "a1, x")
		for _, r := range rows {
			if r.Attempts != attempts {
				e.Fatalf("%s has %d attempts, want %d", r.Body, r.Attempts, attempts)
			}
		}
		if fate == outbox.Failed {
			attempts++
		}
		e.settle(b, fmt.Sprint("r", i), e.fates(fate, 0, "a1 x")...)
	}
	parked, err := b.Parked(e.ctx, "", 10)
	if err != nil || len(parked) != 2 {
		e.Fatalf("%d rows are parked, %v, want 2", len(parked), err)
	}
	for _, r := range parked {
		if r.Attempts != attempts {
			e.Errorf("%s is parked with %d attempts, want %d", r.Body, r.Attempts, attempts)
		}
	}

	// Neither does a lease that ends.
	e.put("y")
	e.claim(b, outbox.Claim{Relay: "r", Lease: short}, "y")
	e.sleep(short + slack)
	if rows, _ := e.claim(b, outbox.Claim{Relay: "r2"}, "y"); rows[0].Attempts != 0 {
		e.Errorf("a row has %d attempts after its lease ended", rows[0].Attempts)
	}
}

// Stats counts what is there, and how long it has been waiting.
func testStats(e *env) {
	b, other := e.Open(e), e.Open(e)
	if s := e.counts(b, 0, 0, 0); s.Oldest != 0 {
		e.Errorf("the oldest of no rows is %v old", s.Oldest)
	}
	from := e.now()
	e.put("a1 x")
	e.sleep(short)
	e.put("y")
	old := func(s outbox.Stats, least, most time.Duration) {
		e.Helper()
		if s.Oldest < least || s.Oldest > most {
			e.Errorf("the oldest row is %v old, want %v to %v", s.Oldest, least, most)
		}
	}
	old(e.counts(other, 3, 3, 0), short-slack, e.now()-from+slack)
	e.claim(b, outbox.Claim{Relay: "r"}, "a1, x, y")
	old(e.counts(b, 3, 3, 0), short-slack, e.now()-from+slack)
	e.sent(b, "r", "a1 x")
	if s := e.counts(b, 1, 1, 0); s.Oldest > e.now()-from-short+slack {
		e.Errorf("the oldest row is %v old, want %v at most", s.Oldest, e.now()-from-short)
	}
	e.putAfter("z", long)
	e.put("b1 b2")
	e.putAfter("c1", long)
	e.put("c2")
	e.counts(b, 6, 3, 0)
	e.park(b, "r", "y")
	e.counts(other, 5, 2, 1)
	e.claim(b, outbox.Claim{Relay: "r"}, "b1 b2")
	e.settle(b, "r", append(e.fates(outbox.Failed, long, "b1"),
		e.fates(outbox.Back, 0, "b2")...)...)
	if s := e.counts(b, 5, 0, 1); s.Oldest != 0 {
		e.Errorf("the oldest of no rows that are due is %v old", s.Oldest)
	}
}

// Sweep removes rows that were sent long enough ago, a few at a time, and no others. That a row is
// gone is seen by its ID, which is free again.
func testSweep(e *env) {
	b := e.Open(e)
	sweep := func(keep time.Duration, limit, want int) {
		e.Helper()
		n, err := b.Sweep(e.ctx, keep, limit)
		if err != nil {
			e.Fatalf("sweep: %v", err)
		}
		if n != want {
			e.Fatalf("Sweep of what is older than %v, %d rows at most, removed %d, want %d", keep,
				limit, n, want)
		}
	}
	free := func(word string) bool {
		id := e.ids[word]
		m := e.message(word)
		m.ID = id
		e.know(m)
		return e.Enqueue(e.ctx, true, m) == nil
	}
	words := []string{"u", "v", "w", "x", "y", "a1", "a2"}
	e.put(strings.Join(words, " "))
	sweep(0, 100, 0)
	e.claim(b, outbox.Claim{Relay: "r"}, "a1 a2, u, v, w, x, y")
	e.sent(b, "r", "u v w")
	e.park(b, "r", "x a1")
	e.failed(b, "r", "y", 0)
	e.back(b, "r", "a2", 0)
	e.sleep(2 * slack)
	sweep(long, 100, 0)
	if free("u") {
		e.Error("a row that was sent is not kept")
	}
	sweep(0, 2, 2)
	sweep(0, 2, 1)
	sweep(0, 2, 0)
	for _, word := range words {
		if got, want := free(word), strings.Contains("u v w", word); got != want {
			e.Errorf("that the id of %s is free again is %v, want %v", word, got, want)
		}
	}
	e.counts(b, 5, 5, 2)
	e.claim(b, outbox.Claim{Relay: "r"}, "a2, u, v, w, y")
}
