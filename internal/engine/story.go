package engine

import (
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// Stories. What a consumer says when it gives a message back is kept in a row of its own, because
// most messages are deleted at their first receive and say nothing. The delivery row knows whether
// there is a story. A message that a task moved has no delivery row yet, so its story is looked up:
// only messages with redrives take that read. [NACK-12, NACK-13]

// storyOf returns the story of a message, nil if it has none.
func (e *Engine) storyOf(q *queue, m *message) *row.Story {
	if m.story != nil || !m.Story && (m.hasDelivery || m.Redrives == 0) {
		return m.story
	}
	k := row.SeqKey(q.row.Space, row.KindStory, m.Seq)
	s, ok := read(&e.rows, "story", k, row.DecodeStory)
	switch {
	case ok:
		q.keepStory(m, &s)
	case m.Story:
		e.rows.damaged("story", k)
	}
	return m.story
}

// keepStory keeps a story in memory until the turn ends, since the store may not show it earlier.
func (q *queue) keepStory(m *message, s *row.Story) {
	m.story, m.Story = s, true
	q.told = append(q.told, m)
}

// setStory writes the story of a message. The caller writes the delivery row afterwards.
func (e *Engine) setStory(q *queue, m *message, s *row.Story) {
	q.keepStory(m, s)
	e.rows.set(row.SeqKey(q.row.Space, row.KindStory, m.Seq), s.Encode(e.rows.scratch()))
}

// tell records how the newest receive of a message ended.
func (e *Engine) tell(q *queue, m *message, how row.Ending, class, text string) {
	s := e.storyOf(q, m)
	if s == nil {
		s = &row.Story{}
	}
	s.Add(m.Delivery.Generation, row.Attempt{How: how, Receive: m.Receives,
		Received: m.LastReceive, Ended: e.now, Class: class, Text: text})
	e.setStory(q, m, s)
}

// tellReturned records that a consumer gave a message back with ChangeMessageVisibility: it made
// the message visible earlier than it would have been. What a Nack said about the same receive
// stays. [NACK-10]
func (e *Engine) tellReturned(q *queue, m *message, h *Handle, until int64) {
	if m.Delivery.Generation != h.Generation || m.At <= e.now || until >= m.At ||
		e.nackOf(q, m) != 0 {
		return
	}
	e.tell(q, m, row.EndReturned, "", "")
}

// nackOf returns the verdict with which the newest receive of a message was ended, 0 if it was not.
func (e *Engine) nackOf(q *queue, m *message) row.Ending {
	s := e.storyOf(q, m)
	if last := s.Last(); last != nil && s.Generation == m.Delivery.Generation &&
		last.How != row.EndReturned {
		return last.How
	}
	return 0
}

// ReadStory reads the story of a message; false if it has none. Like ReadContent, it may be called
// on any goroutine, after the turn that showed the message is committed.
func ReadStory(store kv.Store, space, seq uint64, fault func(string)) (Story, bool) {
	r := rows{store: store, fault: fault}
	return read(&r, "story", row.SeqKey(space, row.KindStory, seq), row.DecodeStory)
}
