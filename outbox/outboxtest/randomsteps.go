package outboxtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tenaq/outbox"
)

// settle reports outcomes of a relay, which may be dead: of rows that it has, or once had, or never
// had.
func (m *model) settle() {
	relay := m.relays[m.rng.IntN(len(m.relays))]
	if m.rng.IntN(5) == 0 {
		relay = fmt.Sprint("relay ", m.rng.IntN(m.born))
	}
	var outcomes []outbox.Outcome
	for _, row := range m.sorted("pending", "sent", "parked", "gone") {
		if has := row.state == "pending" && row.relay == relay; has && m.rng.IntN(2) > 0 ||
			m.rng.IntN(50) == 0 {
			o := outbox.Outcome{ID: row.ID,
				Fate: outbox.Fate([]int{0, 0, 0, 1, 2, 3}[m.rng.IntN(6)])}
			switch {
			case o.Fate == outbox.Sent:
				o.SentTo, o.MessageID = "q", "m"
			case o.Fate != outbox.Parked && m.rng.IntN(3) == 0:
				o.After = upTo(m.rng, short)
			}
			outcomes = append(outcomes, o)
		}
	}
	at := m.during(func() { m.env.settle(m.box(), relay, outcomes...) })
	for _, o := range outcomes {
		row := m.rows[o.ID]
		if row.state != "pending" || row.relay != relay {
			continue
		}
		row.relay, row.until = "", span{}
		switch o.Fate {
		case outbox.Sent:
			row.state = "sent"
		case outbox.Parked:
			row.state = "parked"
		case outbox.Failed:
			row.attempts++
			fallthrough
		case outbox.Back:
			if o.After > 0 {
				row.due = at.plus(o.After)
			} else {
				row.due.to = max(row.due.to, at.to) // it is due now, and may be since long
			}
		}
	}
}

// renew holds on to what a relay has. A lease that has run out may be renewed too, if no relay took
// it over.
func (m *model) renew() {
	relay, lease := m.relays[m.rng.IntN(len(m.relays))], []time.Duration{short, long}[m.rng.IntN(2)]
	var ids []string
	at := m.during(func() {
		var err error
		if ids, err = m.box().Renew(m.ctx, relay, lease); err != nil {
			m.Fatalf("renew: %v", err)
		}
	})
	for _, row := range m.sorted("pending", "sent", "parked", "gone") {
		renewed := slices.Contains(ids, row.ID)
		has := row.state == "pending" && row.relay == relay
		if renewed && !has {
			m.Fatalf("%s renewed %.10q, which it has not: it is %s, in the hands of %q", relay,
				row.Body, row.state, row.relay)
		}
		if has && !renewed && row.until.from > at.to {
			m.Fatalf("%s did not renew %.10q at %v, which it has until %v", relay, row.Body, at,
				row.until)
		}
		if renewed {
			row.until = at.plus(lease)
		}
	}
}

// die ends a relay without a word. What it has for long its outcomes still decide, in settle and
// drain.
func (m *model) die() {
	i := m.rng.IntN(len(m.relays))
	m.relays = slices.Delete(m.relays, i, i+1)
	m.birth()
}

// pass lets short leases end.
func (m *model) pass() { m.sleep(short + slack) }

// pick returns the ids of some rows of any state, most of them parked ones.
func (m *model) pick() (ids []string) {
	for _, row := range m.sorted("pending", "sent", "parked", "gone") {
		if row.state == "parked" && m.rng.IntN(3) == 0 || m.rng.IntN(60) == 0 {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

func (m *model) release() {
	ids := m.pick()
	n, want := 0, 0
	at := m.during(func() {
		var err error
		if n, err = m.box().Release(m.ctx, ids...); err != nil {
			m.Fatalf("release: %v", err)
		}
	})
	for _, id := range ids {
		if row := m.rows[id]; row.state == "parked" {
			row.state, row.attempts, row.place = "pending", 0, m.places
			row.due = span{row.due.from, max(row.due.to, at.to+slack)}
			m.places++
			want++
		}
	}
	if n != want {
		m.Fatalf("Release found %d rows, want %d", n, want)
	}
}

func (m *model) discard() {
	ids := m.pick()
	n, err := m.box().Discard(m.ctx, ids...)
	want := 0
	for _, id := range ids {
		if row := m.rows[id]; row.state == "parked" {
			row.state = "gone"
			want++
		}
	}
	if err != nil || n != want {
		m.Fatalf("Discard found %d rows, %v, want %d", n, err, want)
	}
}

// sweep removes a few rows that were sent. What there is of them is seen when none is left.
func (m *model) sweep() {
	if n, err := m.box().Sweep(m.ctx, long, 10); n != 0 || err != nil {
		m.Fatalf("Sweep of what was sent long ago removed %d rows, %v", n, err)
	}
	n, err := m.box().Sweep(m.ctx, 0, 5)
	if err != nil {
		m.Fatalf("sweep: %v", err)
	}
	m.swept += n
	if sent := len(m.sorted("sent")); n > 5 || m.swept > sent {
		m.Fatalf("Sweep of 5 rows removed %d, of %d that were sent %d in all", n, sent, m.swept)
	}
}

func (m *model) stats() {
	var s outbox.Stats
	at := m.during(func() {
		var err error
		if s, err = m.box().Stats(m.ctx); err != nil {
			m.Fatalf("stats: %v", err)
		}
	})
	least, most := 0, 0
	mayNot, not := make(map[string]bool), make(map[string]bool)
	pending := m.sorted("pending")
	for _, row := range pending {
		if row.due.to <= at.from && !mayNot[row.stream] {
			least++
		} else if row.stream != "" {
			mayNot[row.stream] = true
		}
		if row.due.from <= at.to && !not[row.stream] {
			most++
		} else if row.stream != "" {
			not[row.stream] = true
		}
	}
	if parked := len(m.sorted("parked")); s.Pending != len(pending) || s.Parked != parked ||
		s.Due < least || s.Due > most {
		m.Fatalf("there are %+v, want %d pending, %d to %d due and %d parked", s, len(pending),
			least, most, parked)
	}
}

// drain sends all that is left: each row that was committed is sent, parked or discarded in the
// end, once.
func (m *model) drain() {
	for id := range m.born {
		relay := fmt.Sprint("relay ", id)
		var back []outbox.Outcome
		for _, row := range m.sorted("pending") {
			if row.relay == relay {
				back = append(back, outbox.Outcome{ID: row.ID, Fate: outbox.Back})
				row.relay = ""
			}
		}
		m.env.settle(m.box(), relay, back...)
	}
	m.pass()
	m.relays = []string{"the last"}
	for {
		m.stats()
		c := outbox.Claim{Relay: "the last", Lease: long, Rows: 7, Bytes: 1 << 30, Stream: 3}
		var rows []outbox.Row
		at := m.during(func() { rows, _ = m.ask(m.box(), c) })
		m.judge(c, rows, at)
		if len(rows) == 0 {
			break
		}
		var sent []outbox.Outcome
		for _, r := range rows {
			sent = append(sent, outbox.Outcome{ID: r.ID, Fate: outbox.Sent})
			m.rows[r.ID].state = "sent"
		}
		m.env.settle(m.box(), c.Relay, sent...)
	}
	if left := m.sorted("pending"); len(left) > 0 {
		m.Fatalf("%d rows are never handed out, %.10q among them", len(left), left[0].Body)
	}
	parked, err := m.box().Parked(m.ctx, "", 1000)
	if err != nil {
		m.Fatal(err)
	}
	if want := len(m.sorted("parked")); len(parked) != want {
		m.Fatalf("%d rows are parked, want %d", len(parked), want)
	}
	m.sleep(slack)
	n, err := m.box().Sweep(m.ctx, 0, 10_000)
	if want := len(m.sorted("sent")) - m.swept; err != nil || n != want {
		m.Fatalf("Sweep removed %d rows, %v, want the %d that are left of those sent", n, err, want)
	}
	m.Logf("%d rows, of which %s", len(m.rows), strings.Join([]string{
		fmt.Sprint(len(m.sorted("sent")), " were sent"), fmt.Sprint(len(parked), " parked"),
		fmt.Sprint(len(m.sorted("gone")), " discarded"),
	}, ", "))
}
