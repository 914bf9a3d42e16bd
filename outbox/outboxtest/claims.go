package outboxtest

import (
	"maps"
	"strings"
	"time"

	"tenaq/outbox"
)

// A row is leased to one relay at a time, whichever process it is in.
func testClaim(e *env) {
	b, other := e.Open(e), e.Open(e)
	_, next := e.claim(b, outbox.Claim{Relay: "r1"}, "")
	e.is(next, outbox.NextMax, outbox.NextMax)
	e.put("a1 a2 b1 x y")
	rows, next := e.claim(b, outbox.Claim{Relay: "r1"}, "a1 a2, b1, x, y")
	e.is(next, outbox.NextMax, outbox.NextMax)
	for _, r := range rows {
		if r.Attempts != 0 {
			e.Errorf("%s has %d attempts before the first", r.Body, r.Attempts)
		}
	}
	e.claim(b, outbox.Claim{Relay: "r1"}, "")
	e.claim(b, outbox.Claim{Relay: "r2"}, "")
	_, next = e.claim(other, outbox.Claim{Relay: "r3"}, "")
	e.is(next, outbox.NextMax, outbox.NextMax)

	e.put("z")
	e.claim(other, outbox.Claim{Relay: "r3"}, "z")
	e.sent(b, "r1", "a1 a2 b1 x y")
	e.claim(b, outbox.Claim{Relay: "r1"}, "")
	e.counts(b, 1, 1, 0)
	e.sent(b, "r3", "z") // a relay, not a connection, has the lease
	e.counts(other, 0, 0, 0)
}

// Rows come back as they were written, whatever is in them.
func testContent(e *env) {
	b := e.Open(e)
	odd := "it's \"odd\" \\ $1 ? ; -- \n\r\t\x01 {\"a\": [1]} <&> €ßΩ 漢字 👩‍🚀 \u2028\u200b %s"
	messages := []outbox.Message{
		{Queue: "q", Body: "little"},
		{Queue: odd, Key: odd + "k", Type: odd + "t", Body: odd + "b", Group: odd + "g",
			Dedup: odd + "d", Headers: map[string]string{odd: odd, "b": " "}},
		{Queue: "https://sqs.eu-central-1.amazonaws.com/123456789012/orders.fifo", Key: "17", Body: strings.Repeat("0123456789abcdé\n", 1<<16)},
		{Queue: "q", Body: " ", Dedup: strings.Repeat("d", 512), Generation: 3},
		{Queue: "q", Body: "null", Key: "null", Type: "NULL",
			After: time.Date(1999, 2, 3, 4, 5, 6, 789e6, time.FixedZone("", -3*3600-1800))},
		{Queue: "q", Body: "12.50", Key: "007", Type: "1e3", Group: "0x10",
			Headers: map[string]string{"n": "1.0", "b": "true"}},
		{Queue: "q", Body: "many", Headers: map[string]string{"1": "a", "2": "b", "3": "c",
			"4": "d", "5": "e", "6": "f", "7": "g", "8": "h"}},
	}
	want := make(map[string]outbox.Message)
	for i := range messages {
		messages[i].ID = outbox.NewID()
		want[messages[i].ID] = messages[i]
	}
	before := time.Now().Add(e.jumped)
	e.enqueue(true, messages...)
	after := time.Now().Add(e.jumped)
	rows, _ := e.ask(b, outbox.Claim{Relay: "r"})
	for _, r := range rows {
		w, ok := want[r.ID]
		if !ok {
			e.Errorf("row %s was never written, or is there twice", r.ID)
			continue
		}
		delete(want, r.ID)
		e.same(r, w)
		if r.CreatedAt.Before(before.Add(-slack)) || r.CreatedAt.After(after.Add(slack)) {
			e.Errorf("%.40q was written at %v, want %v to %v", r.Body, r.CreatedAt, before, after)
		}
	}
	for _, m := range want {
		e.Errorf("%.40q is missing", m.Body)
	}

	e.enqueue(true, outbox.Message{Queue: "q", Body: "no id"})
	rows, _ = e.ask(b, outbox.Claim{Relay: "r"})
	if len(rows) != 1 || rows[0].Body != "no id" || len(rows[0].ID) != 36 {
		e.Errorf("a message without an ID came back as %.100v", rows)
	}
}

// same checks that a row has the message.
func (e *env) same(got outbox.Row, want outbox.Message) {
	e.Helper()
	if !got.After.Equal(want.After) {
		e.Errorf("%.40q is due after %v, want %v", want.Body, got.After, want.After)
	}
	if !maps.Equal(got.Headers, want.Headers) {
		e.Errorf("%.40q has headers %q, want %q", want.Body, got.Headers, want.Headers)
	}
	if got.ID != want.ID || got.Queue != want.Queue || got.Key != want.Key ||
		got.Type != want.Type || got.Body != want.Body ||
		got.Group != want.Group || got.Dedup != want.Dedup || got.Generation != want.Generation {
		e.Errorf("the row is\n%.600v\nwant\n%.600v", got.Message, want)
	}
}

// A row that was rolled back never existed.
func testRolledBack(e *env) {
	b := e.Open(e)
	e.put("a1 x")
	e.enqueue(false, e.message("a2"), e.message("y"), e.message("c1"))
	e.put("a3 z")
	e.enqueue(false, e.message("a4"))
	e.counts(b, 4, 4, 0)
	_, next := e.claim(b, outbox.Claim{Relay: "r"}, "a1 a3, x, z")
	e.is(next, outbox.NextMax, outbox.NextMax)
	e.sent(b, "r", "a1 a2 a3 a4 x y z c1")
	e.counts(b, 0, 0, 0)
	e.put("a5")
	e.claim(b, outbox.Claim{Relay: "r"}, "a5")
}

// The ID of a row is its own, as long as the row is there.
func testTwiceTheID(e *env) {
	b := e.Open(e)
	first := e.message("x")
	e.enqueue(true, first)
	second := first
	second.Body = "second"
	if err := e.Enqueue(e.ctx, true, e.message("y"), second); err == nil {
		e.Error("a second row with the same ID was written")
	}
	e.claim(b, outbox.Claim{Relay: "r"}, "x")
	e.sent(b, "r", "x")
	if err := e.Enqueue(e.ctx, true, second); err == nil {
		e.Error("a second row with the ID of one that was sent, and is there, was written")
	}
	e.claim(b, outbox.Claim{Relay: "r"}, "")
}

// A transaction that commits late is not passed over.
func testLateCommit(e *env) {
	if e.Begin == nil {
		e.Skip("transactions that write take turns")
	}
	b := e.Open(e)
	enqueue, end, err := e.Begin(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	dropped, drop, err := e.Begin(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	late := []outbox.Message{e.message("x"), e.message("a1")}
	for _, err := range []error{enqueue(late...), dropped(e.message("never"), e.message("c1"))} {
		if err != nil {
			e.Fatal(err)
		}
	}
	e.put("y b1")
	_, next := e.claim(b, outbox.Claim{Relay: "r"}, "b1, y")
	e.is(next, outbox.NextMax, outbox.NextMax)
	e.sent(b, "r", "b1 y")
	if err := end(true); err != nil {
		e.Fatal(err)
	}
	e.claim(b, outbox.Claim{Relay: "r"}, "a1, x")
	e.sent(b, "r", "a1 x")
	if err := drop(false); err != nil {
		e.Fatal(err)
	}
	e.claim(b, outbox.Claim{Relay: "r"}, "")
	e.counts(b, 0, 0, 0)
}

// Of two transactions that write to one stream the second waits for the first, and rows are in the
// order of the commits.
func testCommitOrder(e *env) {
	if e.Begin == nil {
		e.Skip("transactions that write take turns")
	}
	b := e.Open(e)
	for _, commit := range []bool{true, false} {
		enqueue, end, err := e.Begin(e.ctx)
		if err != nil {
			e.Fatal(err)
		}
		if err := enqueue(e.message("a1")); err != nil {
			e.Fatal(err)
		}
		second, third := e.message("a2"), e.message("b1")
		done := make(chan error, 1)
		go func() { done <- e.Enqueue(e.ctx, true, second) }()
		e.enqueue(true, third) // another stream does not wait
		select {
		case err := <-done:
			e.Fatalf("a transaction committed (%v) while an older one was open that had written to its stream", err)
		case <-time.After(short):
		}
		e.claim(b, outbox.Claim{Relay: "r"}, "b1")
		if err := end(commit); err != nil {
			e.Fatal(err)
		}
		if err := <-done; err != nil {
			e.Fatal(err)
		}
		want := map[bool]string{true: "a1 a2", false: "a2"}[commit]
		e.claim(b, outbox.Claim{Relay: "r"}, want)
		e.sent(b, "r", want+" b1")
	}
}

// A row is handed out when its time has come.
func testAfter(e *env) {
	b := e.Open(e)
	e.putAfter("y", long)
	delay := short
	for ; ; delay *= 4 {
		from := e.now()
		e.putAfter("x", delay)
		e.put("z")
		rows, next := e.ask(b, outbox.Claim{Relay: "r"})
		if e.now()-from >= delay { // the machine was too slow for it
			late, _ := e.ask(b, outbox.Claim{Relay: "r"})
			for _, r := range append(rows, late...) {
				e.sent(b, "r", r.Body)
			}
			continue
		}
		if got := e.show(rows); got != "z" {
			e.Fatalf("%q was claimed, want z alone", got)
		}
		e.is(next, delay-(e.now()-from)-slack, delay+slack)
		e.sent(b, "r", "z")
		break
	}
	e.sleep(delay + slack)
	_, next := e.claim(b, outbox.Claim{Relay: "r"}, "x")
	e.is(next, long-e.now()-slack, long)
	e.counts(b, 2, 1, 0)
}

// Next counts what could be handed out.
func testNext(e *env) {
	b := e.Open(e)
	least := func(d time.Duration) time.Duration { return d - e.now() - slack }
	e.put("w x")
	_, next := e.ask(b, outbox.Claim{Relay: "r", Rows: 1})
	e.is(next, -long, 0)
	_, next = e.ask(b, outbox.Claim{Relay: "r", Rows: 1})
	e.is(next, outbox.NextMax, outbox.NextMax)

	// Rows behind others of their stream do not count.
	e.put("a1 a2 a3")
	e.claim(b, outbox.Claim{Relay: "r", Stream: 2}, "a1 a2")
	_, next = e.claim(b, outbox.Claim{Relay: "r"}, "")
	e.is(next, outbox.NextMax, outbox.NextMax)
	e.putAfter("b1", 3*long)
	e.put("b2")
	_, next = e.claim(b, outbox.Claim{Relay: "r"}, "")
	e.is(next, least(3*long), 3*long+e.now()+slack)
	e.sent(b, "r", "a1")
	_, next = e.claim(b, outbox.Claim{Relay: "r"}, "")
	e.is(next, least(3*long), 3*long+e.now()+slack)
	e.sent(b, "r", "a2")
	_, next = e.claim(b, outbox.Claim{Relay: "r", Except: []string{fifoQueue}}, "")
	e.is(next, outbox.NextMax, outbox.NextMax)

	// The soonest counts, and what was handed out does not.
	e.putAfter("c1", 2*long)
	e.putAfter("y", long)
	_, next = e.claim(b, outbox.Claim{Relay: "r"}, "a3")
	e.is(next, least(long), long+e.now()+slack)
	_, next = e.claim(b, outbox.Claim{Relay: "r", Except: []string{plainQueue}}, "")
	e.is(next, least(2*long), 2*long+e.now()+slack)
	e.failed(b, "r", "a3", long/2)
	_, next = e.claim(b, outbox.Claim{Relay: "r"}, "")
	e.is(next, least(long/2), long/2+e.now()+slack)
	e.put("z")
	_, next = e.ask(b, outbox.Claim{Relay: "r", Except: []string{plainQueue}})
	e.is(next, least(long/2), long/2+e.now()+slack)
	e.claim(b, outbox.Claim{Relay: "r"}, "z")

	// A lease that has ended is free.
	e.back(b, "r", "z", 0)
	e.claim(b, outbox.Claim{Relay: "r", Lease: short}, "z")
	e.put("u")
	e.sleep(short + slack)
	_, next = e.ask(b, outbox.Claim{Relay: "r2", Rows: 1})
	e.is(next, -long, 0)
}

// A claim has no more rows than it may, and claims go on where others ended.
func testLimits(e *env) {
	b := e.Open(e)
	e.put("a1 a2 a3 a4 a5 b1 b2 c1 u v w x y z")
	seen := make(map[string]bool)
	for _, c := range []outbox.Claim{
		{Rows: 1}, {Rows: 3, Stream: 2}, {Rows: 4, Stream: 1}, {Rows: 2, Stream: 5}, {Stream: 3},
	} {
		c.Relay = "r"
		rows, _ := e.ask(b, c)
		perStream := make(map[string]int)
		for _, r := range rows {
			if seen[r.ID] {
				e.Errorf("%s was claimed twice", r.Body)
			}
			seen[r.ID] = true
			perStream[r.Stream]++
			if n := perStream[r.Stream]; r.Stream != "" && c.Stream > 0 && n > c.Stream {
				e.Errorf("a claim of %d rows per stream has %d of %q", c.Stream, n, r.Stream)
			}
		}
		if c.Rows > 0 && len(rows) > c.Rows {
			e.Errorf("a claim of %d rows got %d", c.Rows, len(rows))
		}
		if c.Rows > 0 && len(rows) == 0 {
			e.Errorf("a claim of %d rows got none", c.Rows)
		}
	}
	if n := len(seen); n < 9 {
		e.Errorf("%d rows were claimed, want three of streams and all others at least", n)
	}
	for rounds := 0; len(seen) < 14; rounds++ {
		if rounds > 14 {
			e.Fatalf("only %d of 14 rows were ever claimed", len(seen))
		}
		for word := range e.ids {
			e.sent(b, "r", word)
		}
		rows, _ := e.ask(b, outbox.Claim{Relay: "r", Stream: 1})
		for _, r := range rows {
			if seen[r.ID] {
				e.Fatalf("%s was claimed after it was sent", r.Body)
			}
			seen[r.ID] = true
		}
	}
}

// Bytes bounds bodies and headers, and a single row is handed out however large it is.
func testBytes(e *env) {
	b := e.Open(e)
	total := 0
	for i, body := range []int{100, 5000, 1000, 10, 900, 20, 3000} {
		m := e.message(strings.Repeat(string(rune('a'+i)), body))
		m.Headers = map[string]string{"h": strings.Repeat("h", 50)}
		e.enqueue(true, m)
		total++
	}
	for rounds := 0; total > 0; rounds++ {
		if rounds > 10 {
			e.Fatalf("%d rows are never handed out", total)
		}
		rows, next := e.ask(b, outbox.Claim{Relay: "r", Bytes: 1200})
		if total -= len(rows); total > 0 {
			e.is(next, -long, 0)
		}
		bytes := 0
		for _, r := range rows {
			bytes += len(r.Body) + 50
		}
		if bytes > 1200 && len(rows) > 1 {
			e.Errorf("a claim of 1200 bytes got %d rows of %d bytes", len(rows), bytes)
		}
	}

	// A stream is not torn: what is too large for the claim holds up what is behind it.
	for i, body := range []int{10, 5000, 10} {
		e.enqueue(true, outbox.Message{Queue: fifoQueue, Key: "s",
			Body: strings.Repeat(string(rune('1'+i)), body)})
	}
	for _, want := range []string{"1", "2", "3"} {
		rows, _ := e.ask(b, outbox.Claim{Relay: "r", Bytes: 1200})
		if len(rows) != 1 || rows[0].Body[:1] != want {
			e.Fatalf("a claim of 1200 bytes got %d rows, beginning with %.1s, want one with %s",
				len(rows), e.show(rows), want)
		}
		e.settle(b, "r", outbox.Outcome{ID: rows[0].ID, Fate: outbox.Sent})
	}
}

// Queues of which nothing is wanted stay untouched, and do not hold up others.
func testExcept(e *env) {
	b := e.Open(e)
	e.put("a1 a2 x")
	other := outbox.Message{ID: outbox.NewID(), Queue: "it's,\"other\"", Key: "k", Body: "o"}
	e.know(other)
	e.enqueue(true, other)
	_, next := e.claim(b, outbox.Claim{Relay: "r",
		Except: []string{plainQueue, fifoQueue, other.Queue, "unknown"}}, "")
	e.is(next, outbox.NextMax, outbox.NextMax)
	e.claim(b, outbox.Claim{Relay: "r", Except: []string{plainQueue, fifoQueue}}, "o")
	e.claim(b, outbox.Claim{Relay: "r", Rows: 1, Except: []string{fifoQueue}}, "x")
	e.put("y")
	_, next = e.claim(b, outbox.Claim{Relay: "r", Except: []string{plainQueue, ""}}, "a1 a2")
	e.is(next, outbox.NextMax, outbox.NextMax)
	e.claim(b, outbox.Claim{Relay: "r", Except: []string{"mail", "mails2", "%"}}, "y")

	// Neither do leases that ended make an exception.
	e.back(b, "r", "y a1 a2", 0)
	e.claim(b, outbox.Claim{Relay: "r", Lease: short}, "a1 a2, y")
	e.sleep(short + slack)
	e.claim(b, outbox.Claim{Relay: "r2", Except: []string{plainQueue}}, "a1 a2")
	e.claim(b, outbox.Claim{Relay: "r2"}, "y")
}
