package engine

import (
	"cmp"
	"slices"

	"tenaq/internal/engine/row"
)

// An Action is an entry of the action log.
type Action = row.Action

// loadActions finds the latest entry of the action log.
func (e *Engine) loadActions() {
	family := row.Family(row.FamilyAction)
	for k, v := range e.rows.store.Scan(family.Lo, family.Hi) {
		e.actions = max(e.actions, decoded(&e.rows, "action", k, v, row.DecodeAction).Number)
	}
}

// log writes an entry of the action log, in the place of the oldest one. [TASK-16]
func (e *Engine) log(account, by, name, about, text string) {
	e.actions++
	a := Action{Number: e.actions, At: e.now, Account: account, By: by, Name: name, About: about,
		Text: text}
	e.rows.set(row.ActionKey(a.Number), a.Encode(e.rows.scratch()))
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
