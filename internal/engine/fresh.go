package engine

// A freshWindow is the front of a queue's fresh messages in memory: those that were never handed
// out and entered without a delay. It covers every fresh message with cursor <= seq < end. Fresh
// messages become available in the order of their sends, so the window is a plain list.
type freshWindow struct {
	popList[*message]
	end uint64
}

// push takes up a new message, if the window reaches to the end of the queue and has room.
func (w *freshWindow) push(m *message, limit int) {
	if w.end != m.Seq || w.len() >= limit {
		return
	}
	w.compact()
	w.entries = append(w.entries, m)
	w.end = m.Seq + 1
}

// skip notes that the message with this number is not a fresh one.
func (w *freshWindow) skip(seq uint64) {
	if w.end == seq {
		w.end = seq + 1
	}
}

// drop forgets the entries before seq.
func (w *freshWindow) drop(seq uint64) {
	n := 0
	for n < w.len() && w.at(n).Seq < seq {
		n++
	}
	w.pop(n)
	w.end = max(w.end, seq)
}

// trim keeps the first limit entries.
func (w *freshWindow) trim(limit int) {
	if w.len() > limit {
		w.end = w.at(limit).Seq
		w.cut(limit)
	}
}

// loadFresh makes sure that entry i of the fresh window is there, unless there are no more fresh
// messages. While expiry is paused, the window begins behind the expired messages, so that receives
// do not walk through a backlog that they may not deliver. Receives then hand out messages that
// come after others that stay fresh, and only the delivery row distinguishes the two.
func (e *Engine) loadFresh(q *queue, i int) bool {
	w := &q.fresh
	for w.len() <= i {
		from := max(w.end, q.st.Cursor)
		if e.expiryPaused {
			from = max(from, e.firstUnexpired(q))
		}
		end := q.st.NextSeq
		if q.fair != nil {
			end = q.fair.From // the others have waiting rows
		}
		if from > q.st.LastFresh || from >= end {
			w.end = max(w.end, end)
			return false
		}
		n := max(e.cfg.Window, 1)
		for m := range e.metas(q, from, end) {
			w.end = m.Seq + 1
			if m.Scheduled() || m.Seq < q.st.Mixed && e.find(q, m.Seq) != nil {
				continue
			}
			w.entries = append(w.entries, &message{Meta: m, hasMeta: true})
			if n--; n == 0 {
				break
			}
		}
		if n > 0 {
			w.end = end
		}
	}
	return true
}
