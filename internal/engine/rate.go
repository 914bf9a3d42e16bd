package engine

import "tenaq/internal/work/extension"

// The rate of a queue is a bucket of tokens in its state. Each delivery takes a token, and tokens
// come with time. The bucket is written by receives that deliver something, which write the state
// anyway. In between, what it holds follows from the time of the command. So the rate survives a
// restart, and costs a queue without one nothing. [EXT-12 to EXT-15]

// tokens returns how many units the bucket of a queue with a rate holds now.
func (e *Engine) tokens(q *queue) (level int64) {
	return q.ext.Rate.Refill(q.st.Tokens, e.now-q.st.Tokened)
}

// affords returns how many messages, at most want, the rate of a queue lets a receive deliver now.
// If it is none, next is when there will be one.
func (e *Engine) affords(q *queue, want int64) (n, next int64) {
	rate := q.ext.Rate
	if rate == (extension.Rate{}) || want == 0 {
		return want, 0
	}
	level := e.tokens(q)
	if n = min(want, level/rate.Period); n == 0 {
		next = e.now + rate.Wait(level)
	}
	return n, next
}

// spend takes the tokens of n deliveries.
func (e *Engine) spend(q *queue, n int) {
	if rate := q.ext.Rate; rate != (extension.Rate{}) {
		level := e.tokens(q) - int64(n)*rate.Period
		if level < 0 {
			broken("queue %s: %d deliveries exceed its rate %s", q.name.Name, n, rate)
		}
		q.st.Tokens, q.st.Tokened, q.stDirty = level, e.now, true
	}
}

// beginTokens begins a new bucket, with one token, because tokens of one rate are not those of
// another. [EXT-13, EXT-15]
func (e *Engine) beginTokens(q *queue) {
	q.st.Tokens, q.st.Tokened, q.stDirty = 0, 0, true
	if rate := q.ext.Rate; rate != (extension.Rate{}) {
		q.st.Tokens, q.st.Tokened = rate.Period, e.now
	}
}
