package enginetest

import "tenaq/internal/engine"

// A modelAnswer is what was answered to an attempt of a call.
type modelAnswer struct {
	at   int64
	late bool // it was not the first attempt
	sent []engine.Sent
}

// answered returns what an earlier attempt of a call was answered: a first attempt repeats only one
// that came before it although it is a later one. [AGAIN-1, AGAIN-3, AGAIN-4]
func (m *Model) answered(q *modelQueue, call engine.Invocation) (a modelAnswer, ok bool) {
	a, ok = q.calls[call.Hash]
	return a, ok && (call.Later || a.late) && !m.over(a.at, 300_000)
}

// sendAll sends the entries of a request that were not sent by an earlier attempt of its call.
// [AGAIN-6]
func (m *Model) sendAll(
	q *modelQueue, call engine.Invocation, entries []engine.Entry, wrong string,
) []engine.Sent {
	first, again := m.answered(q, call)
	answer, stored := modelAnswer{at: m.now, late: call.Later}, false
	for i, e := range entries {
		if again && first.sent[i].Err == nil {
			m.of(q).Deduplicated.Add(1)
			s := first.sent[i]
			s.Duplicate, s.Again = true, true
			answer.sent = append(answer.sent, s)
			continue
		}
		s := m.send(q, e, wrong)
		stored = stored || s.Err == nil && !s.Duplicate
		answer.sent = append(answer.sent, s)
	}
	if again {
		answer.at = first.at
	}
	if stored && call != (engine.Invocation{}) && !q.fifo() {
		if q.calls == nil {
			q.calls = make(map[[16]byte]modelAnswer)
		}
		q.calls[call.Hash] = answer
	}
	return answer.sent
}
