package outboxtest

import (
	"tenaq/outbox"
)

// Of each stream a claim gets the oldest rows, and no other claim gets any until these are settled.
func testStreams(e *env) {
	b, other := e.Open(e), e.Open(e)
	e.put("a1 a2")
	e.put("b1 a3")
	e.put("b2 a4 a5")
	e.claim(b, outbox.Claim{Relay: "r1", Stream: 2}, "a1 a2, b1 b2")
	_, next := e.claim(other, outbox.Claim{Relay: "r2"}, "")
	e.is(next, outbox.NextMax, outbox.NextMax)
	e.claim(b, outbox.Claim{Relay: "r1"}, "")
	e.sent(b, "r1", "a1 b1 b2")
	e.claim(other, outbox.Claim{Relay: "r2"}, "") // a2 is on its way
	e.put("a6 b3")
	e.claim(other, outbox.Claim{Relay: "r2"}, "b3")
	e.sent(b, "r1", "a2")
	e.claim(other, outbox.Claim{Relay: "r2", Rows: 3}, "a3 a4 a5")
	e.claim(b, outbox.Claim{Relay: "r1"}, "")
	e.sent(b, "r2", "a3 a4 a5")
	e.claim(b, outbox.Claim{Relay: "r1"}, "a6")
	e.sent(b, "r1", "a6")
	e.put("a7")
	e.claim(b, outbox.Claim{Relay: "r1"}, "a7")
}

// A stream is a queue and a group, the key being the group of FIFO queues where none is given.
func testStreamNames(e *env) {
	b := e.Open(e)
	streams := [][]outbox.Message{
		{{Queue: "q.fifo", Key: "a", Body: "fifo a"},
			{Queue: "q.fifo", Key: "other", Group: "a", Body: "fifo a"}},
		{{Queue: "q.fifo", Key: "a", Group: "b", Body: "fifo b"},
			{Queue: "q.fifo", Key: "b", Body: "fifo b"}},
		{{Queue: "other.fifo", Key: "a", Body: "other a"}},
		{{Queue: "q", Key: "a", Group: "a", Body: "plain a"},
			{Queue: "q", Group: "a", Body: "plain a"}},
		{{Queue: "q.fifo", Key: "A", Body: "fifo A"}},
		{{Queue: "q.fifo", Key: "a ", Body: "fifo a and a space"}},
		{{Queue: "q.fifo", Key: "\u00e9", Body: "fifo composed"}},
		{{Queue: "q.fifo", Key: "e\u0301", Body: "fifo decomposed"}},
		{{Queue: "https://sqs/1/q.fifo", Key: "a", Body: "by its URL"}},
	}
	for _, stream := range streams {
		e.enqueue(true, stream...)
	}
	free := []outbox.Message{
		{Queue: "q", Key: "a", Body: "free"}, {Queue: "q", Key: "a", Body: "free"},
		{Queue: "q.fifo.x", Key: "a", Body: "free"}, {Queue: "q.FIFO", Key: "a", Body: "free"},
		{Queue: "qxfifo", Key: "a", Body: "free"},
	}
	e.enqueue(true, free...)
	rows, _ := e.ask(b, outbox.Claim{Relay: "r"})
	bodies := make(map[string]string)
	found := 0
	for _, r := range rows {
		if (r.Stream == "") != (r.Body == "free") {
			e.Errorf("%q is in stream %q", r.Body, r.Stream)
		}
		if r.Stream == "" {
			found++
			continue
		}
		if body, ok := bodies[r.Stream]; ok && body != r.Body {
			e.Errorf("%q and %q are in one stream", body, r.Body)
		}
		bodies[r.Stream] = r.Body
	}
	if len(bodies) != len(streams) || found != len(free) {
		e.Errorf("there are %d streams and %d rows without, want %d and %d", len(bodies), found,
			len(streams), len(free))
	}
}

// Nothing overtakes a row that is in the hands of a relay, its own neither.
func testStreamHeldByLease(e *env) {
	b := e.Open(e)
	e.put("a1 a2 a3 a4")
	e.claim(b, outbox.Claim{Relay: "r1", Stream: 3}, "a1 a2 a3")
	e.back(b, "r1", "a1", 0)
	e.claim(b, outbox.Claim{Relay: "r2"}, "a1") // a2 is the gap
	e.back(b, "r1", "a2", 0)
	e.claim(b, outbox.Claim{Relay: "r1"}, "")
	e.claim(b, outbox.Claim{Relay: "r2"}, "")
	e.sent(b, "r2", "a1")
	e.claim(b, outbox.Claim{Relay: "r2"}, "a2") // a3 is the gap
	e.sent(b, "r1", "a3")
	e.claim(b, outbox.Claim{Relay: "r1"}, "")
	e.sent(b, "r2", "a2")
	e.claim(b, outbox.Claim{Relay: "r1"}, "a4")

	// Nor one that the same relay gave back while it has those behind it.
	e.put("b1 b2")
	e.claim(b, outbox.Claim{Relay: "r1"}, "b1 b2")
	e.back(b, "r1", "b1", 0)
	e.claim(b, outbox.Claim{Relay: "r1"}, "b1")
	e.back(b, "r1", "b1 b2", 0)
	e.claim(b, outbox.Claim{Relay: "r1"}, "b1 b2")
}

// Nothing overtakes a row whose time has not come.
func testStreamHeldByTime(e *env) {
	b := e.Open(e)
	e.put("a1")
	e.putAfter("a2", short)
	e.put("a3")
	e.putAfter("b1", long)
	e.put("b2 c1")
	e.claim(b, outbox.Claim{Relay: "r", Stream: 1}, "a1, c1")
	e.sent(b, "r", "a1 c1")
	e.sleep(short + slack)
	_, next := e.claim(b, outbox.Claim{Relay: "r"}, "a2 a3")
	e.is(next, long-e.now()-slack, long)
	e.counts(b, 4, 2, 0)
	e.put("d1")
	e.putAfter("d2", long)
	e.put("d3")
	_, next = e.claim(b, outbox.Claim{Relay: "r"}, "d1")
	e.is(next, long-e.now()-slack, long)
}

// Nothing overtakes a row that is to be tried again.
func testStreamHeldByRetry(e *env) {
	b := e.Open(e)
	e.put("a1 a2 a3 b1 b2 x")
	e.claim(b, outbox.Claim{Relay: "r"}, "a1 a2 a3, b1 b2, x")
	from := e.now() // the pauses begin later
	e.settle(b, "r", append(e.fates(outbox.Failed, short, "a1"),
		e.fates(outbox.Back, 0, "a2 a3")...)...)
	e.settle(b, "r", append(e.fates(outbox.Back, 0, "b2"), e.fates(outbox.Back, long, "b1")...)...)
	e.put("a4")
	rows, next := e.ask(b, outbox.Claim{Relay: "r2"})
	if e.now()-from < short/2 && len(rows) > 0 {
		e.Fatalf("%s was claimed, want nothing", e.show(rows))
	}
	if len(rows) == 0 {
		e.is(next, 0, short+slack)
		e.sleep(short + slack)
		e.claim(b, outbox.Claim{Relay: "r2"}, "a1 a2 a3 a4")
	}
	// In the midst it holds what is behind it, and not what is before.
	e.settle(b, "r2", append(e.fates(outbox.Failed, long, "a2"),
		e.fates(outbox.Back, 0, "a1 a3 a4")...)...)
	e.claim(b, outbox.Claim{Relay: "r2"}, "a1")
	e.sent(b, "r2", "a1")
	_, next = e.claim(b, outbox.Claim{Relay: "r2"}, "")
	e.is(next, long-e.now()-slack, long)
	e.counts(b, 6, 1, 0) // x is in hand
}

// Rows that are parked do not count for the order.
func testStreamPassesParked(e *env) {
	b := e.Open(e)
	e.put("a1 a2 a3 a4 b1 b2")
	e.claim(b, outbox.Claim{Relay: "r", Stream: 2}, "a1 a2, b1 b2")
	e.park(b, "r", "a1")
	e.claim(b, outbox.Claim{Relay: "r2"}, "") // a2 is on its way
	e.settle(b, "r", append(e.fates(outbox.Parked, 0, "b1"), e.fates(outbox.Back, 0, "b2")...)...)
	e.claim(b, outbox.Claim{Relay: "r2"}, "b2")
	e.back(b, "r", "a2", 0)
	e.claim(b, outbox.Claim{Relay: "r2"}, "a2 a3 a4")
	e.park(b, "r2", "a3") // in the midst
	e.back(b, "r2", "a2 a4", 0)
	e.claim(b, outbox.Claim{Relay: "r2"}, "a2 a4")
	e.park(b, "r2", "a2 a4 b2")
	e.put("a5 b3")
	_, next := e.claim(b, outbox.Claim{Relay: "r2"}, "a5, b3")
	e.is(next, outbox.NextMax, outbox.NextMax)
	e.counts(b, 2, 2, 6)
}

// A lease that ends without a word frees the row.
func testLeaseEnds(e *env) {
	b, other := e.Open(e), e.Open(e)
	e.put("a1 a2 a3 x")
	e.claim(b, outbox.Claim{Relay: "r1", Stream: 2}, "a1 a2, x")
	e.claim(other, outbox.Claim{Relay: "r2"}, "")
	e.renew(b, "r1", short, "a1 a2 x")
	e.sleep(short + slack)
	e.claim(other, outbox.Claim{Relay: "r2"}, "a1 a2 a3, x")

	// The same relay, too, gets again what it had.
	e.sent(other, "r2", "a1 a2 x")
	e.back(other, "r2", "a3", 0)
	e.claim(b, outbox.Claim{Relay: "r1", Lease: short}, "a3")
	e.sleep(short + slack)
	e.claim(b, outbox.Claim{Relay: "r1"}, "a3")
}

// Renew holds on to all rows of the relay, and to nothing else.
func testRenew(e *env) {
	b, other := e.Open(e), e.Open(e)
	e.put("a1 a2 x y")
	e.renew(b, "r1", long, "")
	const lease = 6 * short
	e.claim(b, outbox.Claim{Relay: "r1"}, "a1 a2, x, y")
	e.put("b1 z")
	e.claim(b, outbox.Claim{Relay: "r2", Lease: lease}, "b1, z")
	e.sent(b, "r1", "x")
	e.park(b, "r1", "y")
	e.renew(b, "r1", lease, "a1 a2") // only now, because a slow machine would give them to r2
	e.renew(other, "r1", long, "a1 a2")
	e.sleep(lease + slack)
	e.claim(other, outbox.Claim{Relay: "r3"}, "b1, z")

	// A renewal may also shorten a lease.
	e.renew(b, "r1", short, "a1 a2")
	e.sleep(short + slack)
	e.claim(b, outbox.Claim{Relay: "r3", Stream: 1}, "a1")
	e.back(b, "r3", "b1", 0)
	e.renew(b, "r3", long, "a1 z")
}

// A row that another relay has leased is renewed and settled only by that relay.
func testTakenOver(e *env) {
	b := e.Open(e)
	e.put("a1 a2 u v w x y")
	e.claim(b, outbox.Claim{Relay: "dead", Lease: short}, "a1 a2, u, v, w, x, y")
	e.sleep(short + slack)
	e.claim(b, outbox.Claim{Relay: "r", Except: []string{plainQueue}}, "a1 a2")
	e.claim(b, outbox.Claim{Relay: "r"}, "u, v, w, x, y")
	e.renew(b, "dead", long, "")
	e.settle(b, "dead", e.fates(outbox.Sent, 0, "a1 u")...)
	e.settle(b, "dead", e.fates(outbox.Back, 0, "a2 v")...)
	e.settle(b, "dead", e.fates(outbox.Failed, 0, "w")...)
	e.settle(b, "dead", e.fates(outbox.Parked, 0, "x y")...)
	e.counts(b, 7, 7, 0)
	e.claim(b, outbox.Claim{Relay: "r2"}, "")
	e.renew(b, "r", long, "a1 a2 u v w x y")
	e.back(b, "r", "a1 a2 u v w x y", 0)
	rows, _ := e.claim(b, outbox.Claim{Relay: "r2"}, "a1 a2, u, v, w, x, y")
	for _, r := range rows {
		if r.Attempts != 0 {
			e.Errorf("%s has %d attempts, by a relay that had lost it", r.Body, r.Attempts)
		}
	}
	// Nor has the relay any more what it gave back itself.
	e.sent(b, "r", "a1 x")
	e.renew(b, "r", long, "")
	e.counts(b, 7, 7, 0)
}

// An outcome after the lease has run out counts, as long as no relay took the row over.
func testLateOutcome(e *env) {
	b := e.Open(e)
	e.put("a1 a2 v w x")
	e.claim(b, outbox.Claim{Relay: "late", Lease: short, Stream: 1}, "a1, v, w, x")
	e.sleep(short + slack)
	e.sent(b, "late", "a1")
	e.failed(b, "late", "v", 0)
	e.park(b, "late", "w")
	e.back(b, "late", "x", long)
	e.counts(b, 3, 2, 1)
	rows, _ := e.claim(b, outbox.Claim{Relay: "r"}, "a2, v")
	for _, r := range rows {
		if want := map[string]int{"v": 1}[r.Body]; r.Attempts != want {
			e.Errorf("%s has %d attempts, want %d", r.Body, r.Attempts, want)
		}
	}
}
