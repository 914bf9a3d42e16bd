package v1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"tenaq/claims"
	"tenaq/internal/api/intake"
	"tenaq/internal/engine"
	"tenaq/records"
)

// Claims are listed for people, who also decide about those that no holder can end.

// Bounds of a page of claims. [REC-16]
const (
	claimSteps = 16  // a step reads up to recordsBytes
	claimLooks = 256 // in a step
)

type claimsIn struct {
	Ledger string `query:"ledger" default:"claim/" doc:"key prefix of the ledger"`
	Store  string `query:"store" doc:"name of a store outside the server; its own records if absent"`
	Prefix string `query:"prefix" doc:"of the keys"`
	State  string `query:"state" enum:"held,completed,failed,exhausted,released,parked,unreadable,stuck" doc:"stuck: not done, and no holder works on it"`
	After  string `query:"after" doc:"next of the page before"`
	Limit  int    `query:"limit" range:"1,100" default:"50"`
}

// A claimList is a page of claims in the order of their keys, without fences, results and memos.
type claimList struct {
	Claims []claimView `json:"claims"`
	Looked int         `json:"looked" doc:"claims that were read for this page"`
	Next   string      `json:"next,omitempty" doc:"there may be more, also if this page is empty"`
}

// claimPage is a store whose List reads one step and keeps where the next one begins.
type claimPage struct {
	serverRecords
	next string
}

func (p *claimPage) List(
	ctx context.Context, prefix, after string, limit int,
) (list []records.Record, err error) {
	op := &engine.ListRecords{Account: p.account, Prefix: prefix, After: after, Max: limit,
		Bytes: recordsBytes}
	if err := p.broker.Do(ctx, op); err != nil {
		return nil, err
	}
	for i := range op.Records {
		list = append(list, storedRecord(&op.Records[i]))
	}
	p.next = op.Next
	return list, nil
}

func (p *claimPage) nextKey() string { return p.next }
func (p *claimPage) steps() int      { return claimSteps }

// claims answers GET /v1/claims. [REC-16, REC-18]
func (c *call) claims(in claimsIn) (list claimList, err error) {
	if _, err := records.CheckList(in.Limit, in.Ledger+in.Prefix, in.After); err != nil {
		return list, errRecord(err)
	}
	list.Claims = []claimView{}
	if in.Store == "" {
		page := &claimPage{serverRecords: serverRecords{c.cfg.Broker, c.principal.Account()}}
		err := c.listClaims(c, in, page, intake.AnswerCost*(recordsBytes+records.ValueMax), &list)
		return list, err
	}
	err = c.inStore(in.Store, func(ctx context.Context, s *outside) error {
		return c.listClaims(ctx, in, s, storeLooks*records.ValueMax, &list)
	})
	return list, err
}

// A stepped store reads lists in steps.
type stepped interface {
	records.Store
	nextKey() string // where the next step begins; empty after the last one
	steps() int
}

// listClaims adds a page of claims to a list. A step takes some bytes.
func (c *call) listClaims(
	ctx context.Context, in claimsIn, page stepped, bytes int64, list *claimList,
) error {
	l, err := claims.New(claims.Config{Store: page, Prefix: in.Ledger, Owner: c.principal.ARN()})
	if err != nil {
		return errRecord(err)
	}
	c.room = c.cfg.Intake.Answers.Hold(c.principal.Account())
	if err := c.room.Wait(ctx, bytes, intake.WaitMax); err != nil {
		return err
	}
	looks := claimLooks
	if in.State == "" {
		looks = in.Limit + 1
	}
	for range page.steps() {
		entries, err := l.List(ctx, in.Prefix, in.After, looks)
		if err != nil {
			return err
		}
		for i := range entries {
			e := &entries[i]
			if len(list.Claims) == in.Limit {
				return nil // Next is the key before
			}
			list.Looked++
			list.Next = e.Key
			if in.wants(e) {
				view := othersView(e)
				view.Result, view.ResultBase64, view.Memo, view.MemoBase64 = nil, nil, nil, nil
				list.Claims = append(list.Claims, *view)
			}
		}
		in.After = strings.TrimPrefix(page.nextKey(), in.Ledger)
		if list.Next = in.After; in.After == "" {
			break
		}
	}
	return nil
}

func (in *claimsIn) wants(e *claims.Entry) bool {
	switch in.State {
	case "":
		return true
	case "stuck":
		return e.Stranded() || e.State == claims.Parked
	}
	return in.State == string(e.State)
}

type decideIn struct {
	Key    string `path:"key"`
	Ledger string `json:"ledger,omitempty" doc:"key prefix of the ledger; claim/ if empty"`
	Store  string `json:"store,omitempty" doc:"name of a store outside the server; its own records if empty"`
	Reason string `json:"reason" doc:"for people who look at the entry later"`
	Force  bool   `json:"force,omitempty" doc:"even if a lease runs or the work is done"`
}

type settleIn struct {
	Key    string `path:"key"`
	Ledger string `json:"ledger,omitempty" doc:"key prefix of the ledger; claim/ if empty"`
	Store  string `json:"store,omitempty" doc:"name of a store outside the server; its own records if empty"`
	Reason string `json:"reason" doc:"for people who look at the entry later"`
	Force  bool   `json:"force,omitempty" doc:"even if a lease runs or the work is done"`
	Result string `json:"result,omitempty" doc:"for later callers; at most 128 KiB"`
}

// settleClaim answers POST /v1/claims/{key}/settle. [REC-17]
func (c *call) settleClaim(in settleIn) (*claimView, error) {
	if err := checkSize("result", len(in.Result), claims.ResultMax); err != nil {
		return nil, err
	}
	return c.decide(decideIn{in.Key, in.Ledger, in.Store, in.Reason, in.Force},
		func(ctx context.Context, l *claims.Ledger, seen claims.Entry) error {
			return l.SettleSeen(ctx, seen, []byte(in.Result), in.Reason)
		})
}

// reopenClaim answers POST /v1/claims/{key}/reopen. [REC-17]
func (c *call) reopenClaim(in decideIn) (*claimView, error) {
	return c.decide(in, func(ctx context.Context, l *claims.Ledger, seen claims.Entry) error {
		return l.ReopenSeen(ctx, seen, in.Reason)
	})
}

type undoIn struct {
	Key    string `path:"key"`
	Ledger string `json:"ledger,omitempty" doc:"key prefix of the ledger; claim/ if empty"`
	Store  string `json:"store,omitempty" doc:"name of a store outside the server; its own records if empty"`
	Undo   uint64 `json:"undo" doc:"of the answer to the decision"`
}

// undoClaim answers POST /v1/claims/{key}/undo. [REC-19]
func (c *call) undoClaim(in undoIn) (view *claimView, err error) {
	err = c.withLedger(in.Store, in.Ledger, in.Key, func(
		ctx context.Context, l *claims.Ledger,
	) error {
		err := l.Undo(ctx, in.Key, in.Undo)
		if err != nil {
			return asClaimError(err)
		}
		e, err := l.Entry(ctx, in.Key)
		view = othersView(&e)
		return asClaimError(err)
	})
	return view, err
}

// decide carries out the decision of a person about a key.
func (c *call) decide(
	in decideIn, do func(ctx context.Context, l *claims.Ledger, seen claims.Entry) error,
) (view *claimView, err error) {
	if strings.TrimSpace(in.Reason) == "" {
		return nil, errRecord(errors.New("the reason is missing: people who look at the entry later need it"))
	}
	err = c.withLedger(in.Store, in.Ledger, in.Key, func(
		ctx context.Context, l *claims.Ledger,
	) error {
		e, err := l.Entry(ctx, in.Key)
		if err == nil && !in.Force {
			err = objection(&e)
		}
		if err == nil {
			err = do(ctx, l, e)
		}
		if err == nil {
			e, err = l.Entry(ctx, in.Key)
		}
		view = othersView(&e)
		if e.Undoable {
			view.Undo = e.Fence
		}
		return asClaimError(err)
	})
	return view, err
}

// objection returns why an entry should stay as it is, or nil.
func objection(e *claims.Entry) error {
	left, known := e.Remaining()
	code, why := "", ""
	switch {
	case !known:
		code, why = "Busy", "%s holds the claim, and it is unknown whether its lease has expired, because the store has no clock: if the holder is dead, set force."
	case e.State == claims.Completed:
		code, why = "Done", "The work is completed by %s: to change that anyway, set force."
	case left > 0:
		code, why = "Busy", "%s holds the claim, and its lease runs: wait, or if the holder is dead, set force."
	default:
		return nil
	}
	refusal := &Error{http.StatusConflict, code, fmt.Sprintf(why, e.Owner)}
	return &refusedClaim{refusal, othersView(e), left}
}

func aboutClaim(_ *call, in any) (about, text string) {
	if settle, ok := in.(settleIn); ok {
		return cmp.Or(settle.Ledger, claimPrefix) + settle.Key,
			"settled" + inNamed(settle.Store) + ": " + settle.Reason
	}
	if undo, ok := in.(undoIn); ok {
		return cmp.Or(undo.Ledger, claimPrefix) + undo.Key,
			"took back the decision" + inNamed(undo.Store)
	}
	reopen := in.(decideIn)
	return cmp.Or(reopen.Ledger, claimPrefix) + reopen.Key,
		"reopened" + inNamed(reopen.Store) + ": " + reopen.Reason
}

// inNamed says of a decision in which store it was taken; of those in the records of the server
// nothing.
func inNamed(store string) string {
	if store == "" {
		return ""
	}
	return " in " + store
}
