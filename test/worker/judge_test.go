package worker_test

import (
	"strings"

	"tenaq/claims"
)

// A letter is a message in the dead-letter queue.
type letter struct {
	order
	moved    bool // by the queue, which gives no reason
	reason   string
	attempts int
}

// An end is what is left when no worker runs any more and none has anything to do.
type end struct {
	entries map[string]claims.Entry // by effect key; nil without a ledger
	dead    []letter
	left    int // messages in the queue
}

// judge holds what happened, and what is left, to the rules, and returns all violations.
func (o *oracle) judge(e end) []violation {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.left > 0 {
		o.report(ruleLost, "%d messages are left in the queue, and nobody takes them", e.left)
	}
	letters := make(map[int][]letter)
	for _, l := range e.dead {
		letters[l.N] = append(letters[l.N], l)
	}
	named := make(map[string]int) // messages that name a key
	for _, s := range o.sent {
		named[s.Key]++
	}
	runs := make(map[string][]*run) // by message
	for _, r := range o.runs {
		runs[r.id] = append(runs[r.id], r)
	}
	for _, s := range o.sent {
		o.judgeMessage(s, runs[s.id], letters[s.N], o.completed(s.Key, e), named[s.Key] > 1)
		delete(letters, s.N)
	}
	for n := range letters {
		o.report(ruleLost, "a dead letter of a message %d that nobody sent", n)
	}
	for key, w := range o.keys {
		o.judgeWork(key, w, o.completed(key, e))
		if at := e.entries[key]; at.State == claims.Completed && w.register > at.Fence {
			o.report(ruleFence, "%s was completed under fence %d, and fence %d wrote", key, at.Fence, w.register)
		}
	}
	o.judgeOrder(runs, letters, e)
	return o.bad
}

// completed says whether the work of a key is recorded as completed.
func (o *oracle) completed(key string, e end) bool {
	if !o.ledger {
		return o.keys[key] != nil && o.keys[key].done > 0
	}
	return e.entries[key].State == claims.Completed
}

// judgeMessage says what is wrong with the end of one message. Shared says that its key is not its
// own.
func (o *oracle) judgeMessage(s *sent, runs []*run, letters []letter, completed, shared bool) {
	if !completed && len(letters) == 0 {
		o.report(ruleLost, "message %d (%s, %s) is neither completed nor a dead letter; it had %d handlers", s.N, s.id, s.Kind, len(runs))
	}
	counted, poison, heardOf := 0, false, true
	for _, r := range runs {
		heardOf = heardOf && (r.told == "done" || r.told == "failed" || r.told == "deferred")
		if o.counts(r, runs) {
			counted++
		}
		poison = poison || r.outcome == gaveUp
	}
	if counted > o.attempts && !shared {
		o.report(ruleAttempts, "message %d (%s) had %d attempts, %d are allowed:%s", s.N, s.Kind, counted, o.attempts, tale(runs))
	}
	for _, l := range letters {
		if !l.moved && !shared {
			o.unbegun += max(0, l.attempts-counted)
		}
		switch {
		case l.moved && o.native:
		case l.moved || l.reason == "":
			o.report(ruleReason, "message %d (%s) is a dead letter without a reason", s.N, s.Kind)
		case o.exact && heardOf && !strings.Contains(l.reason, s.reason()):
			o.report(ruleReason, "message %d (%s) is a dead letter because of %q, want %q in it", s.N, s.Kind, l.reason, s.reason())
		case completed && !shared:
			o.report(ruleOnce, "message %d (%s) is completed, and a dead letter: %s", s.N, s.Kind, l.reason)
		case shared: // attempts begin anew with every message of a key
		case l.attempts > o.attempts, l.attempts < o.attempts && !poison:
			o.report(ruleAttempts, "message %d (%s) is a dead letter after %d attempts, %d are allowed: %s", s.N, s.Kind, l.attempts, o.attempts, l.reason)
		case l.attempts < counted, l.attempts > counted && o.exact && heardOf:
			o.report(ruleAttempts, "message %d (%s) is a dead letter after %d attempts, but %d began:%s", s.N, s.Kind, l.attempts, counted, tale(runs))
		}
	}
}

// judgeWork says what is wrong with a key.
func (o *oracle) judgeWork(key string, w *work, completed bool) {
	if completed && w.charges == 0 {
		o.report(ruleOnce, "%s is completed without its effect", key)
	}
	for _, r := range w.runs {
		if r.outcome == succeeded && r.told == "" {
			o.report(ruleSilent, "%s succeeded, and that was the last that was heard of it", r)
		}
	}
	if !o.ledger && w.charges > 1 {
		o.report(ruleOnce, "%s had its effect %d times", key, w.charges)
	}
}

// judgeOrder says which messages overtook others of their group.
func (o *oracle) judgeOrder(runs map[string][]*run, letters map[int][]letter, e end) {
	type place struct {
		s    *sent
		over int // when its work was over
	}
	last := make(map[string]place) // of each group
	for _, s := range o.sent {
		if s.group == "" {
			continue
		}
		first, over := 0, 0
		for _, r := range runs[s.id] {
			if first == 0 {
				first = r.began
			}
			if o.shares { // it is at other messages of the group meanwhile
				first = r.ended
			}
			if r.told == "done" {
				over = r.ended
			}
		}
		if over == 0 { // a dead letter, or one whose completion was never reported
			continue
		}
		if before := last[s.group]; before.over > first {
			o.report(ruleOrder, "message %d of group %s began before %d was over:%s\nand:%s", s.N, s.group, before.s.N, tale(runs[s.id]), tale(runs[before.s.id]))
		}
		last[s.group] = place{s, over}
	}
}
