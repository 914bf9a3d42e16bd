package engine

import (
	"cmp"
	"slices"

	"tenaq/internal/engine/row"
)

// An Action is an entry of the action log.
type Action = row.Action

// An actionLog is what memory has of the action log: who made the entry at each place, and the
// number of the latest one.
type actionLog struct {
	last    uint64
	entries []loggedBy // by place, at most row.ActionsKept
	made    map[maker]int
}

type loggedBy struct {
	number uint64 // 0 for none
	maker
}

type maker struct{ account, by string }

// loadActions reads who made the entries of the action log.
func (e *Engine) loadActions() {
	e.actions = actionLog{entries: make([]loggedBy, row.ActionsKept), made: make(map[maker]int)}
	family := row.Family(row.FamilyAction)
	for k, v := range e.rows.store.Scan(family.Lo, family.Hi) {
		a := decoded(&e.rows, "action", k, v, row.DecodeAction)
		place, ok := row.ActionPlace(k)
		if !ok {
			e.rows.damaged("action", k)
		}
		e.actions.put(place, a.Number, maker{a.Account, a.By})
		e.actions.last = max(e.actions.last, a.Number)
	}
}

func (l *actionLog) put(place, number uint64, by maker) {
	if old := &l.entries[place]; old.number > 0 {
		if l.made[old.maker]--; l.made[old.maker] == 0 {
			delete(l.made, old.maker)
		}
	}
	l.entries[place] = loggedBy{number, by}
	l.made[by]++
}

// room returns the place of the next entry: one that is free, or that of the oldest entry of those
// who made the most. So a key that may do one thing, a thousand times, removes no entry of others.
func (l *actionLog) room() (place uint64) {
	most, oldest := 0, uint64(0)
	for _, n := range l.made { // order does not matter: it looks for the largest
		most = max(most, n)
	}
	for i, entry := range l.entries {
		switch {
		case entry.number == 0:
			return uint64(i)
		case l.made[entry.maker] == most && (oldest == 0 || entry.number < oldest):
			place, oldest = uint64(i), entry.number
		}
	}
	return place
}

// log writes an entry of the action log. [TASK-16]
func (e *Engine) log(account, by, name, about, text string) {
	l := &e.actions
	l.last++
	a := Action{Number: l.last, At: e.now, Account: account, By: by, Name: name, About: about,
		Text: text}
	place := l.room()
	l.put(place, a.Number, maker{account, by})
	e.rows.set(row.ActionKey(place), a.Encode(e.rows.scratch()))
}

// LogAction writes an entry for what an operator did elsewhere than in a command that logs itself:
// to an alarm, or through a page. The caller bounds the texts. [TASK-16]
type LogAction struct {
	Account, By, Name, About, Text string
}

// Class gives it the highest priority: what it logs has been done.
func (*LogAction) Class() Class { return ClassDelete }

func (op *LogAction) apply(e *Engine, _ *Command) *Error {
	e.log(op.Account, op.By, op.Name, op.About, op.Text)
	return nil
}

// ListActions lists what operators of an account did, the latest action first.
type ListActions struct {
	Account string
	Before  uint64 // number of the last one of the page before; zero to begin
	Max     int    // at most ActionsPage

	// The answer: a page, and Before of the next one; zero after the last.
	Actions []Action
	Next    uint64
}

// ActionsPage is how many actions a page may have.
const ActionsPage = 100

func (op *ListActions) apply(e *Engine, _ *Command) *Error {
	if op.Max < 1 || op.Max > ActionsPage {
		return errNumber(int64(op.Max), "limit", "Must be between 1 and 100.")
	}
	op.Actions, op.Next = nil, 0
	for k, v := range e.scan(row.Family(row.FamilyAction)) {
		a := decoded(&e.rows, "action", k, v, row.DecodeAction)
		if a.Account == op.Account && (op.Before == 0 || a.Number < op.Before) {
			op.Actions = append(op.Actions, a)
		}
	}
	slices.SortFunc(op.Actions, func(a, b Action) int { return cmp.Compare(b.Number, a.Number) })
	if len(op.Actions) > op.Max {
		op.Actions = op.Actions[:op.Max]
		op.Next = op.Actions[op.Max-1].Number
	}
	return nil
}
