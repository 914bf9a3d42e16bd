package outboxtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"tenaq/outbox"
)

// Parked rows are listed the oldest first, a page at a time.
func testParked(e *env) {
	b, other := e.Open(e), e.Open(e)
	e.parked(b, "", 10, "")
	m := e.message("x")
	m.Headers, m.Type, m.Dedup = map[string]string{"h": "é"}, "t", "d"
	e.enqueue(true, m)
	e.put("a1 y a2 z")
	e.claim(b, outbox.Claim{Relay: "r"}, "a1 a2, x, y, z")
	e.failed(b, "r", "x", 0)
	e.claim(b, outbox.Claim{Relay: "r"}, "x")
	from := time.Now().Add(e.jumped - slack)
	for _, word := range []string{"x", "a1", "y", "a2"} {
		e.park(b, "r", word)
		e.sleep(2 * time.Millisecond)
	}
	to := time.Now().Add(e.jumped + slack)
	e.parked(b, "", 10, "x a1 y a2")
	rows := e.parked(other, "", 2, "x a1")
	e.parked(other, "a1", 2, "y a2")
	e.parked(other, "a2", 2, "")
	e.parked(other, "x", 2, "a1 y")
	if r := rows[0]; r.Reason != "parked x" || r.At.Before(from) || r.At.After(to) ||
		r.Attempts != 1 || r.Stream != "" || r.CreatedAt.IsZero() {
		e.Errorf("a row is parked at %v for %q, with %d attempts, in stream %q, written at %v",
			r.At, r.Reason, r.Attempts, r.Stream, r.CreatedAt)
	}
	e.same(rows[0].Row, m)
	if rows[1].Stream == "" {
		e.Error("a row that is parked has lost its stream")
	}
	e.claim(b, outbox.Claim{Relay: "r2"}, "")
}

// Rows that are released are new again, and the last of their streams.
func testRelease(e *env) {
	b := e.Open(e)
	e.put("a1 a2 a3 x y")
	e.claim(b, outbox.Claim{Relay: "r"}, "a1 a2 a3, x, y")
	e.settle(b, "r", append(e.fates(outbox.Failed, 0, "a1 x"),
		e.fates(outbox.Back, 0, "a2 a3 y")...)...)
	e.claim(b, outbox.Claim{Relay: "r"}, "a1 a2 a3, x, y")
	e.park(b, "r", "a1 x")
	e.back(b, "r", "a2 a3", long/2)
	release := func(words string, want int) {
		e.Helper()
		n, err := b.Release(e.ctx, e.idsOf(words)...)
		if err != nil {
			e.Fatalf("release: %v", err)
		}
		if n != want {
			e.Fatalf("Release of %q found %d, want %d", words, n, want)
		}
	}
	release("", 0)
	release("a2 y", 0) // which are pending
	e.ids["nobody"] = outbox.NewID()
	release("nobody a1 x", 2)
	release("a1", 0)
	e.counts(b, 5, 2, 0) // x and y: a1 is behind a2, which waits
	rows, _ := e.claim(b, outbox.Claim{Relay: "r2"}, "x")
	if rows[0].Attempts != 0 {
		e.Errorf("a row that was released has %d attempts", rows[0].Attempts)
	}
	e.sent(b, "r2", "x")

	// Several of one stream keep their order, behind what is there.
	e.put("b1 b2 b3 b4")
	e.claim(b, outbox.Claim{Relay: "r", Stream: 3}, "b1 b2 b3")
	e.park(b, "r", "b1 b2")
	release("b1 b2", 2)
	e.claim(b, outbox.Claim{Relay: "r2"}, "")
	e.back(b, "r", "b3", 0)
	e.put("b5")
	e.claim(b, outbox.Claim{Relay: "r2"}, "b3 b4 b1 b2 b5")

	// Where nothing is before them, they are the first.
	e.park(b, "r2", "b3 b4 b1 b2 b5")
	release("b4 b5", 2)
	e.claim(b, outbox.Claim{Relay: "r2"}, "b4 b5")
	e.counts(b, 6, 3, 3)
}

// Rows that are discarded are gone.
func testDiscard(e *env) {
	b := e.Open(e)
	e.put("a1 a2 x y z")
	e.claim(b, outbox.Claim{Relay: "r"}, "a1 a2, x, y, z")
	e.park(b, "r", "a1 x y")
	e.sent(b, "r", "z")
	e.ids["nobody"] = outbox.NewID()
	for _, tt := range []struct {
		words string
		want  int
	}{{"", 0}, {"a2 z nobody", 0}, {"a1 x nobody a2", 2}, {"a1 x", 0}} {
		n, err := b.Discard(e.ctx, e.idsOf(tt.words)...)
		if err != nil {
			e.Fatalf("discard: %v", err)
		}
		if n != tt.want {
			e.Fatalf("Discard of %q found %d, want %d", tt.words, n, tt.want)
		}
	}
	e.parked(b, "", 10, "y")
	e.counts(b, 1, 1, 1)
	for word, want := range map[string]bool{"x": true, "y": false, "z": false, "a2": false} {
		err := e.Enqueue(e.ctx, true,
			outbox.Message{ID: e.ids[word], Queue: plainQueue, Key: "k", Body: word})
		if (err == nil) != want {
			e.Errorf("a row with the ID of %s: %v, want that it can be written to be %v", word, err,
				want)
		}
	}
	e.renew(b, "r", long, "a2")
}

// A decision about rows that a person has seen is carried out once, whatever comes twice or late:
// rows that were parked again meanwhile stay, and so do rows that are not parked. [V1-27]
func testSeen(e *env) {
	b, other := e.Open(e), e.Open(e)
	d, ok := b.(outbox.Decider)
	if !ok {
		return
	}
	late := other.(outbox.Decider)
	decide := func(
		do func(context.Context, ...outbox.Seen) (int, error), want int, rows ...outbox.Seen,
	) {
		e.Helper()
		n, err := do(e.ctx, rows...)
		if err != nil {
			e.Fatalf("decide about %v: %v", rows, err)
		}
		if n != want {
			e.Fatalf("a decision about %v found %d, want %d", rows, n, want)
		}
	}
	e.put("a1 a2 x y z")
	e.claim(b, outbox.Claim{Relay: "r"}, "a1 a2, x, y, z")
	park := func(relay string, words ...string) {
		for _, word := range words { // one by one, so that their times differ
			e.sleep(2 * time.Millisecond)
			e.park(b, relay, word)
		}
	}
	park("r", "a1", "x", "y", "z")
	seen := map[string]outbox.Seen{
		"nobody": {ID: outbox.NewID(), At: time.Now()}, "a2": {ID: e.ids["a2"], At: time.Now()},
		"odd": {ID: "no UUID '; DROP TABLE outbox; --\x00", At: time.Now()},
	}
	rows := e.parked(b, "", 10, "a1 x y z")
	for i, word := range []string{"a1", "x", "y", "z"} {
		seen[word] = rows[i].Seen()
	}
	ago := func(word string, d time.Duration) outbox.Seen {
		return outbox.Seen{ID: e.ids[word], At: seen[word].At.Add(d)}
	}
	for _, do := range []func(context.Context, ...outbox.Seen) (int, error){
		d.ReleaseSeen, d.DiscardSeen,
	} {
		decide(do, 0)
		decide(do, 0, seen["nobody"], seen["a2"], seen["odd"], outbox.Seen{ID: e.ids["x"]})
		decide(do, 0, ago("x", -time.Millisecond), ago("y", time.Millisecond), ago("z", time.Hour))
	}
	e.counts(b, 1, 1, 4)

	// Two relays get it at once, as a report says it: in another time zone.
	atOnce := func(
		do, again func(context.Context, ...outbox.Seen) (int, error), want int,
		rows ...outbox.Seen,
	) {
		e.Helper()
		var n, m int
		var err, other error
		var both sync.WaitGroup
		both.Go(func() { n, err = do(e.ctx, rows...) })
		both.Go(func() { m, other = again(e.ctx, rows...) })
		both.Wait()
		if err != nil || other != nil || n+m != want {
			e.Fatalf("two decisions about %v found %d and %d, want %d together: %v, %v", rows, n, m,
				want, err, other)
		}
	}
	atOnce(d.ReleaseSeen, late.ReleaseSeen, 2, seen["nobody"], seen["a1"],
		outbox.Seen{ID: e.ids["x"], At: seen["x"].At.In(time.FixedZone("east", 3600))})
	decide(late.ReleaseSeen, 0, seen["a1"], seen["x"])
	decide(late.DiscardSeen, 0, seen["a1"], seen["x"])
	e.sent(b, "r", "a2")
	claimed, _ := e.claim(b, outbox.Claim{Relay: "r2"}, "a1, x")
	if claimed[0].Attempts != 0 {
		e.Errorf("a row that was released has %d attempts", claimed[0].Attempts)
	}

	// Parked again: what was decided about the first time changes nothing.
	park("r2", "a1", "x")
	decide(late.ReleaseSeen, 0, seen["a1"], seen["x"])
	decide(late.DiscardSeen, 0, seen["a1"], seen["x"])
	decide(d.DiscardSeen, 1, seen["a1"], seen["y"])
	decide(d.DiscardSeen, 0, seen["y"])
	rows = e.parked(b, "", 10, "z a1 x")
	atOnce(d.DiscardSeen, late.DiscardSeen, 2, rows[1].Seen(), rows[2].Seen(), rows[2].Seen())
	e.parked(other, "", 10, "z")
	e.counts(b, 0, 0, 1)
}

// Wait ends when another connection commits a row.
func testWait(e *env) {
	b := e.Open(e)
	const most = 20 * time.Second
	wait := func() <-chan error {
		done := make(chan error, 1)
		go func() { done <- b.Wait(e.ctx, most) }()
		return done
	}
	ends := func(done <-chan error, within time.Duration) {
		e.Helper()
		timer := time.NewTimer(within)
		defer timer.Stop()
		select {
		case err := <-done:
			if err != nil {
				e.Errorf("wait: %v", err)
			}
		case <-timer.C:
			e.Errorf("Wait has not returned %v after a row was there", within)
			<-done
		}
	}
	for _, words := range []string{"x", "a1 a2", "a3"} {
		// It may return for nothing, but not forever.
		var done <-chan error
		for range 100 {
			e.ask(b, outbox.Claim{Relay: "r"})
			done = wait()
			quiet := time.NewTimer(100 * time.Millisecond)
			select {
			case <-done:
				quiet.Stop()
				continue
			case <-quiet.C:
			}
			break
		}
		e.put(words)
		ends(done, most*3/4)
	}

	// Rows that came between the last claim and the wait are new, too.
	e.ask(b, outbox.Claim{Relay: "r"})
	e.put("y")
	ends(wait(), most*3/4)
	e.claim(b, outbox.Claim{Relay: "r"}, "y")
}

// Wait ends after its time, and with its context.
func testWaitEnds(e *env) {
	b := e.Open(e)
	e.put("x")
	e.claim(b, outbox.Claim{Relay: "r"}, "x")
	from := e.now()
	if err := b.Wait(e.ctx, 50*time.Millisecond); err != nil {
		e.Errorf("wait: %v", err)
	}
	if took := e.now() - from; took > 15*time.Second {
		e.Errorf("a wait of 50ms took %v", took)
	}
	ctx, cancel := context.WithTimeout(e.ctx, 50*time.Millisecond)
	defer cancel()
	from = e.now()
	_ = b.Wait(ctx, 20*time.Second)
	if took := e.now() - from; took > 15*time.Second {
		e.Errorf("a wait with a context of 50ms took %v", took)
	}
}

// The rows of a piece of work are found by its name, and by the message that one was sent as, with
// what became of each.
func testFind(e *env) {
	b := e.Open(e)
	f, ok := b.(outbox.Finder)
	if !ok {
		return
	}
	named, again := e.message("x"), e.message("y")
	named.Dedup, again.Dedup = "order-17", "order-17"
	again.Generation = 1
	e.enqueue(true, named)
	e.sleep(2 * time.Millisecond)
	e.enqueue(true, again)
	e.put("z w")
	e.claim(b, outbox.Claim{Relay: "r"}, "w, x, y, z")
	e.settle(b, "r", outbox.Outcome{ID: e.idsOf("x")[0], Fate: outbox.Sent, SentTo: "orders",
		MessageID: "m1"})
	e.park(b, "r", "y z")
	find := func(works, messages []string, limit int, want string) (found []outbox.Found) {
		e.Helper()
		found, err := f.Find(e.ctx, works, messages, limit)
		if err != nil {
			e.Fatalf("find: %v", err)
		}
		var ids []string
		for i := range found {
			ids = append(ids, found[i].ID)
		}
		if !slices.Equal(ids, e.idsOf(want)) {
			e.Errorf("find %q and %q: got %q, want %q", works, messages, ids, e.idsOf(want))
		}
		return found
	}
	rows := find([]string{"order-17"}, nil, 10, "x y")
	if len(rows) == 2 {
		sent, parked := rows[0], rows[1]
		if sent.SentTo != "orders" || sent.MessageID != "m1" || sent.SentAt.IsZero() ||
			!sent.ParkedAt.IsZero() || sent.CreatedAt.IsZero() {
			e.Errorf("a row that was sent is found as %+v", sent)
		}
		if parked.ParkedAt.IsZero() || parked.Reason != "parked y" || !parked.SentAt.IsZero() ||
			parked.Generation != 1 {
			e.Errorf("a row that is parked is found as %+v", parked)
		}
	}
	find([]string{"order-17"}, nil, 1, "x")
	find(nil, []string{"m1"}, 10, "x")
	find(e.idsOf("x"), nil, 10, "") // its work has another name
	if w := find(append(e.idsOf("w"), "none"), nil, 10, "w"); len(w) == 1 &&
		(!w[0].SentAt.IsZero() || !w[0].ParkedAt.IsZero()) {
		e.Errorf("a row in hand is found as %+v", w[0])
	}
	find(nil, nil, 10, "")
}
