package outboxtest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tenaq/outbox"
)

// Most cases name rows by words, which are their bodies. A word that ends in a digit is a row of a
// FIFO queue, in the group of the letters before: "a1 a2 b1" are two groups. Any other word is a
// row without an order.
const (
	fifoQueue  = "orders.fifo"
	plainQueue = "mails"
)

// message is the one that a word stands for, under an id by which the case knows it.
func (e *env) message(word string) outbox.Message {
	m := outbox.Message{ID: outbox.NewID(), Queue: plainQueue, Key: "k", Body: word}
	if group := strings.TrimRight(word, "0123456789"); group != word {
		m.Queue, m.Key = fifoQueue, group
	}
	e.know(m)
	return m
}

// know lets the case call a message by its body.
func (e *env) know(m outbox.Message) {
	e.ids[m.Body], e.words[m.ID] = m.ID, m.Body
}

// put commits rows, one transaction for all words.
func (e *env) put(words string) {
	e.Helper()
	var messages []outbox.Message
	for word := range strings.FieldsSeq(words) {
		messages = append(messages, e.message(word))
	}
	e.enqueue(true, messages...)
}

// putAfter commits one row that is due after a while.
func (e *env) putAfter(word string, d time.Duration) {
	e.Helper()
	m := e.message(word)
	m.After = time.Now().Add(e.jumped + d)
	e.enqueue(true, m)
}

func (e *env) enqueue(commit bool, messages ...outbox.Message) {
	e.Helper()
	if err := e.Enqueue(e.ctx, commit, messages...); err != nil {
		e.Fatalf("enqueue: %v", err)
	}
}

// show writes rows as words: those of one stream together in the order of the rows, and streams and
// rows without one in the order of the alphabet, with commas in between.
func (e *env) show(rows []outbox.Row) string {
	streams := make(map[string]string)
	var parts []string
	for _, r := range rows {
		switch s, ok := streams[r.Stream]; {
		case r.Stream == "":
			parts = append(parts, r.Body)
		case ok:
			streams[r.Stream] = s + " " + r.Body
		default:
			streams[r.Stream] = r.Body
		}
	}
	for _, s := range streams {
		parts = append(parts, s)
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// ask claims rows, and leaves no limit at zero.
func (e *env) ask(b outbox.Box, c outbox.Claim) (rows []outbox.Row, next time.Duration) {
	e.Helper()
	c.Lease = cmp.Or(c.Lease, long)
	c.Rows = cmp.Or(c.Rows, 1000)
	c.Bytes = cmp.Or(c.Bytes, 1<<30)
	c.Stream = cmp.Or(c.Stream, 1000)
	rows, next, err := b.Claim(e.ctx, c)
	if err != nil {
		e.Fatalf("claim for %s: %v", c.Relay, err)
	}
	return rows, next
}

// claim checks what a claim gets, as show writes it.
func (e *env) claim(
	b outbox.Box, c outbox.Claim, want string,
) (rows []outbox.Row, next time.Duration) {
	e.Helper()
	rows, next = e.ask(b, c)
	if got := e.show(rows); got != want {
		e.Fatalf("%s claimed %q, want %q", c.Relay, got, want)
	}
	return rows, next
}

// is checks what Claim says about the time until the next row, which lies between two times.
func (e *env) is(next, least, most time.Duration) {
	e.Helper()
	if next < least || next > most {
		e.Errorf("next is %v, want %v to %v", next, least, most)
	}
}

// fates are outcomes of the rows that words name, all with the same fate.
func (e *env) fates(fate outbox.Fate, after time.Duration, words string) []outbox.Outcome {
	var all []outbox.Outcome
	for word := range strings.FieldsSeq(words) {
		o := outbox.Outcome{ID: e.ids[word], Fate: fate}
		switch fate {
		case outbox.Sent:
			o.SentTo, o.MessageID = "the-queue", "m-"+word
		case outbox.Parked:
			o.Reason = "parked " + word
		default:
			o.After, o.Reason = after, "not "+word
		}
		all = append(all, o)
	}
	return all
}

func (e *env) settle(b outbox.Box, relay string, outcomes ...outbox.Outcome) {
	e.Helper()
	if err := b.Settle(e.ctx, relay, outcomes); err != nil {
		e.Fatalf("settle for %s: %v", relay, err)
	}
}

func (e *env) sent(b outbox.Box, relay, words string) {
	e.Helper()
	e.settle(b, relay, e.fates(outbox.Sent, 0, words)...)
}

func (e *env) back(b outbox.Box, relay, words string, after time.Duration) {
	e.Helper()
	e.settle(b, relay, e.fates(outbox.Back, after, words)...)
}

func (e *env) failed(b outbox.Box, relay, words string, after time.Duration) {
	e.Helper()
	e.settle(b, relay, e.fates(outbox.Failed, after, words)...)
}

func (e *env) park(b outbox.Box, relay, words string) {
	e.Helper()
	e.settle(b, relay, e.fates(outbox.Parked, 0, words)...)
}

// renew checks whose leases are renewed.
func (e *env) renew(b outbox.Box, relay string, lease time.Duration, want string) {
	e.Helper()
	got, err := b.Renew(e.ctx, relay, lease)
	if err != nil {
		e.Fatalf("renew for %s: %v", relay, err)
	}
	for i, id := range got {
		got[i] = cmp.Or(e.words[id], id)
	}
	slices.Sort(got)
	if s := strings.Join(got, " "); s != want {
		e.Fatalf("%s renewed %q, want %q", relay, s, want)
	}
}

// counts checks how many rows there are.
func (e *env) counts(b outbox.Box, pending, due, parked int) outbox.Stats {
	e.Helper()
	s, err := b.Stats(e.ctx)
	if err != nil {
		e.Fatalf("stats: %v", err)
	}
	if s.Pending != pending || s.Due != due || s.Parked != parked {
		e.Fatalf("there are %d pending, %d due and %d parked rows, want %d, %d and %d", s.Pending,
			s.Due, s.Parked, pending, due, parked)
	}
	return s
}

// parked checks which rows are parked, in their order.
func (e *env) parked(b outbox.Box, after string, limit int, want string) []outbox.ParkedRow {
	e.Helper()
	rows, err := b.Parked(e.ctx, e.ids[after], limit)
	if err != nil {
		e.Fatalf("parked behind %q: %v", after, err)
	}
	var words []string
	for _, r := range rows {
		words = append(words, r.Body)
	}
	if got := strings.Join(words, " "); got != want {
		e.Fatalf("parked behind %q are %q, want %q", after, got, want)
	}
	return rows
}

// idsOf are the ids of rows that words name.
func (e *env) idsOf(words string) (ids []string) {
	for word := range strings.FieldsSeq(words) {
		ids = append(ids, e.ids[word])
	}
	return ids
}
