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

// claims answers GET /v1/claims. [REC-16]
func (c *call) claims(in claimsIn) (list claimList, err error) {
	if _, err := records.CheckList(in.Limit, in.Ledger+in.Prefix, in.After); err != nil {
		return list, errRecord(err)
	}
	page := &claimPage{serverRecords: serverRecords{c.cfg.Broker, c.principal.Account()}}
	l, err := claims.New(claims.Config{Store: page, Prefix: in.Ledger, Owner: c.principal.ARN()})
	if err != nil {
		return list, errRecord(err)
	}
	c.room = c.cfg.Intake.Answers.Hold(c.principal.Account())
	if err := c.room.Wait(c, intake.AnswerCost*(recordsBytes+records.ValueMax),
		intake.WaitMax); err != nil {
		return list, err
	}
	list.Claims = []claimView{}
	looks := claimLooks
	if in.State == "" {
		looks = in.Limit + 1
	}
	for range claimSteps {
		entries, err := l.List(c, in.Prefix, in.After, looks)
		if err != nil {
			return list, err
		}
		for i := range entries {
			e := &entries[i]
			if len(list.Claims) == in.Limit {
				return list, nil // Next is the key before
			}
			list.Looked++
			list.Next = e.Key
			if in.wants(e) {
				view := othersView(e)
				view.Result, view.ResultBase64, view.Memo, view.MemoBase64 = nil, nil, nil, nil
				list.Claims = append(list.Claims, *view)
			}
		}
		in.After = strings.TrimPrefix(page.next, in.Ledger)
		if list.Next = in.After; in.After == "" {
			break
		}
	}
	return list, nil
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
	Reason string `json:"reason" doc:"for people who look at the entry later"`
	Force  bool   `json:"force,omitempty" doc:"even if a lease runs or the work is done"`
}

type settleIn struct {
	Key    string `path:"key"`
	Ledger string `json:"ledger,omitempty" doc:"key prefix of the ledger; claim/ if empty"`
	Reason string `json:"reason" doc:"for people who look at the entry later"`
	Force  bool   `json:"force,omitempty" doc:"even if a lease runs or the work is done"`
	Result string `json:"result,omitempty" doc:"for later callers; at most 128 KiB"`
}

// settleClaim answers POST /v1/claims/{key}/settle. [REC-17]
func (c *call) settleClaim(in settleIn) (*claimView, error) {
	if err := checkSize("result", len(in.Result), claims.ResultMax); err != nil {
		return nil, err
	}
	return c.decide(decideIn{in.Key, in.Ledger, in.Reason, in.Force},
		func(l *claims.Ledger, seen claims.Entry) error {
			return l.SettleSeen(c, seen, []byte(in.Result), in.Reason)
		})
}

// reopenClaim answers POST /v1/claims/{key}/reopen. [REC-17]
func (c *call) reopenClaim(in decideIn) (*claimView, error) {
	return c.decide(in, func(l *claims.Ledger, seen claims.Entry) error {
		return l.ReopenSeen(c, seen, in.Reason)
	})
}

// decide carries out the decision of a person about a key.
func (c *call) decide(
	in decideIn, do func(l *claims.Ledger, seen claims.Entry) error,
) (*claimView, error) {
	if strings.TrimSpace(in.Reason) == "" {
		return nil, errRecord(errors.New("the reason is missing: people who look at the entry later need it"))
	}
	l, err := c.ledger(in.Ledger, in.Key, "", 0)
	if err != nil {
		return nil, err
	}
	e, err := l.Entry(c, in.Key)
	if err == nil && !in.Force {
		err = objection(&e)
	}
	if err == nil {
		err = do(l, e)
	}
	if err == nil {
		e, err = l.Entry(c, in.Key)
	}
	if err != nil {
		return nil, asClaimError(err)
	}
	return othersView(&e), nil
}

// objection returns why an entry should stay as it is, or nil.
func objection(e *claims.Entry) error {
	left, _ := e.Remaining()
	code, why := "", ""
	switch {
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
		return cmp.Or(settle.Ledger, claimPrefix) + settle.Key, "settled: " + settle.Reason
	}
	reopen := in.(decideIn)
	return cmp.Or(reopen.Ledger, claimPrefix) + reopen.Key, "reopened: " + reopen.Reason
}
