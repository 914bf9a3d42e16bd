package v1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"tenaq/claims"
	"tenaq/internal/api/intake"
	"tenaq/records"
)

// Claims over HTTP are those of package claims, over the records of the server: a script and a
// worker that claim the same key keep each other out. A client names its claim by its fence, so it
// needs to remember nothing else.

// A claimView is an entry of a ledger.
type claimView struct {
	Key         string       `json:"key"`
	State       claims.State `json:"state" enum:"held,completed,failed,exhausted,released,parked,unreadable"`
	Fence       uint64       `json:"fence,omitempty" doc:"names the claim, and rises with every claim; absent for that of another holder"`
	Attempts    int          `json:"attempts"`
	Owner       string       `json:"owner"`
	AgeMS       *int64       `json:"ageMs" doc:"since the last write; null if the store has no clock, as DynamoDB"`
	LeaseMS     int64        `json:"leaseMs,omitempty"`
	RemainingMS int64        `json:"remainingMs,omitempty" doc:"of the lease, if it is known"`
	Message     string       `json:"messageId,omitempty"`
	Reason      string       `json:"reason,omitempty"`

	Result       *string `json:"result,omitempty"`
	ResultBase64 []byte  `json:"resultBase64,omitempty" doc:"a result that is not text"`
	Memo         *string `json:"memo,omitempty"`
	MemoBase64   []byte  `json:"memoBase64,omitempty" doc:"a memo that is not text"`

	Undo uint64 `json:"undo,omitempty" doc:"names the decision that was taken, for undo; absent if it cannot be taken back"`

	TakenOver *claimView `json:"takenOver,omitempty" doc:"of the holder that was lost before"`
}

func viewOf(e *claims.Entry) *claimView {
	v := &claimView{
		Key: e.Key, State: e.State, Fence: e.Fence, Attempts: e.Attempts, Owner: e.Owner,
		LeaseMS: e.Lease.Milliseconds(), Message: e.Message, Reason: e.Reason,
	}
	if e.Age != records.AgeUnknown {
		left, _ := e.Remaining()
		age := e.Age.Milliseconds()
		v.AgeMS, v.RemainingMS = &age, left.Milliseconds()
	}
	v.Result, v.ResultBase64 = textOrBytes(e.Result)
	v.Memo, v.MemoBase64 = textOrBytes(e.Memo)
	return v
}

// othersView is the view of an entry for a caller that does not hold its claim. Without the fence,
// a careless script cannot end what another holder has begun.
func othersView(e *claims.Entry) *claimView {
	v := viewOf(e)
	v.Fence = 0
	return v
}

func textOrBytes(b []byte) (text *string, other []byte) {
	if len(b) == 0 || !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}

// claimPrefix is the ledger of workers, where none is named.
const claimPrefix = "claim/"

// claimBytes is the memory that a request about a claim takes: its record as it is stored, as an
// entry, as it is shown, and as the answer. [WIRE-29]
const claimBytes = 4 * records.ValueMax

// ledger returns the ledger that a prefix names, for requests about a key. It waits for the memory
// that they take.
func (c *call) ledger(prefix, key, owner string, lease time.Duration) (*claims.Ledger, error) {
	return c.ledgerIn(serverRecords{c.cfg.Broker, c.principal.Account()}, prefix, key, owner, lease)
}

func (c *call) ledgerIn(
	store records.Store, prefix, key, owner string, lease time.Duration,
) (*claims.Ledger, error) {
	prefix = cmp.Or(prefix, claimPrefix)
	err := records.CheckKey(prefix + key)
	var l *claims.Ledger
	if err == nil {
		l, err = claims.New(claims.Config{
			Store: store, Prefix: prefix, Owner: cmp.Or(owner, c.principal.ARN()), Lease: lease,
		})
	}
	if err != nil {
		return nil, errRecord(err)
	}
	c.room = c.cfg.Intake.Answers.Hold(c.principal.Account())
	return l, c.room.Wait(c, claimBytes, intake.WaitMax)
}

// checkSize refuses what is too large for an entry.
func checkSize(name string, has, most int) error {
	if has <= most {
		return nil
	}
	return errRecord(fmt.Errorf("%s has %d bytes, and at most %d are allowed: store it elsewhere, and its name here",
		name, has, most))
}

type claimIn struct {
	Key    string `path:"key"`
	Ledger string `query:"ledger" default:"claim/" doc:"key prefix of the ledger"`
	Store  string `query:"store" doc:"name of a store outside the server; its own records if absent"`
}

// claim answers GET /v1/claims/{key}. [REC-14, REC-18]
func (c *call) claim(in claimIn) (view *claimView, err error) {
	err = c.withLedger(in.Store, in.Ledger, in.Key, func(
		ctx context.Context, l *claims.Ledger,
	) error {
		e, err := l.Entry(ctx, in.Key)
		view = viewOf(&e)
		return asClaimError(err)
	})
	return view, err
}

type acquireIn struct {
	Key     string `path:"key"`
	Ledger  string `json:"ledger,omitempty" doc:"key prefix of the ledger; claim/ if empty"`
	Owner   string `json:"owner,omitempty" doc:"names the holder, for people"`
	LeaseMS int64  `json:"leaseMs,omitempty" range:"0,648000000" doc:"60000 if absent; at least 1000"`
	Message string `json:"messageId,omitempty" doc:"id of the message that brought the work"`
	Memo    string `json:"memo,omitempty" doc:"what it takes to do the work again"`
}

// ownerMax bounds the name of a holder, in bytes: other holders are shown it.
const ownerMax = 1024

// acquireClaim answers POST /v1/claims/{key}/acquire. [REC-12]
func (c *call) acquireClaim(in acquireIn) (*claimView, error) {
	if err := cmp.Or(checkSize("memo", len(in.Memo), claims.MemoMax),
		checkSize("messageId", len(in.Message), claims.MessageMax),
		checkSize("owner", len(in.Owner), ownerMax)); err != nil {
		return nil, err
	}
	l, err := c.ledger(in.Ledger, in.Key, in.Owner, time.Duration(in.LeaseMS)*time.Millisecond)
	if err != nil {
		return nil, err
	}
	claim, err := l.AcquireWith(c, in.Key, claims.Note{Message: in.Message, Memo: []byte(in.Memo)})
	if err != nil {
		return nil, asClaimError(err)
	}
	e := claim.Entry()
	view := viewOf(&e)
	if before := claim.TakenOver(); before != nil {
		view.TakenOver = othersView(before)
	}
	return view, nil
}

// onClaim does something with a claim that a client names by its fence. [REC-13]
func (c *call) onClaim(
	key, prefix string, fence uint64, do func(*claims.Claim) error,
) (*claimView, error) {
	if fence == 0 {
		return nil, errRecord(errNoFence)
	}
	l, err := c.ledger(prefix, key, "", 0)
	if err != nil {
		return nil, err
	}
	claim, err := l.Resume(c, key, fence)
	if err == nil {
		err = do(claim)
	}
	if err != nil {
		return nil, asClaimError(err)
	}
	e := claim.Entry()
	return viewOf(&e), nil
}

var errNoFence = errors.New("the fence is missing: pass the fence from the answer to acquire")

type holdIn struct {
	Key    string `path:"key"`
	Ledger string `json:"ledger,omitempty" doc:"key prefix of the ledger; claim/ if empty"`
	Fence  uint64 `json:"fence" doc:"of the claim"`
}

// renewClaim answers POST /v1/claims/{key}/renew.
func (c *call) renewClaim(in holdIn) (*claimView, error) {
	return c.onClaim(in.Key, in.Ledger, in.Fence, func(claim *claims.Claim) error {
		return claim.Renew(c)
	})
}

// releaseClaim answers POST /v1/claims/{key}/release.
func (c *call) releaseClaim(in holdIn) (*claimView, error) {
	return c.onClaim(in.Key, in.Ledger, in.Fence, func(claim *claims.Claim) error {
		return claim.Release(c)
	})
}

type completeIn struct {
	Key    string `path:"key"`
	Ledger string `json:"ledger,omitempty" doc:"key prefix of the ledger; claim/ if empty"`
	Fence  uint64 `json:"fence" doc:"of the claim"`
	Result string `json:"result,omitempty" doc:"for later callers; at most 128 KiB"`
}

// completeClaim answers POST /v1/claims/{key}/complete.
func (c *call) completeClaim(in completeIn) (*claimView, error) {
	if err := checkSize("result", len(in.Result), claims.ResultMax); err != nil {
		return nil, err
	}
	return c.onClaim(in.Key, in.Ledger, in.Fence, func(claim *claims.Claim) error {
		return claim.Complete(c, []byte(in.Result))
	})
}

type failIn struct {
	Key    string `path:"key"`
	Ledger string `json:"ledger,omitempty" doc:"key prefix of the ledger; claim/ if empty"`
	Fence  uint64 `json:"fence" doc:"of the claim"`
	Reason string `json:"reason,omitempty" doc:"for people; the first 4 KiB are kept"`
}

// failClaim answers POST /v1/claims/{key}/fail.
func (c *call) failClaim(in failIn) (*claimView, error) {
	return c.onClaim(in.Key, in.Ledger, in.Fence, func(claim *claims.Claim) error {
		return claim.Fail(c, in.Reason)
	})
}

// A refusedClaim is the refusal of a claim, with the entry that stands in its way.
type refusedClaim struct {
	refusal *Error
	entry   *claimView
	retryIn time.Duration
}

func (e *refusedClaim) Error() string { return e.refusal.Error() }
func (e *refusedClaim) Unwrap() error { return e.refusal }

var refusalCodes = map[claims.Refusal]string{claims.Busy: "Busy", claims.Done: "Done",
	claims.UsedUp: "UsedUp", claims.NeedsPerson: "NeedsPerson"}

// asClaimError turns an error of a ledger into one of /v1.
func asClaimError(err error) error {
	refused, ok := errors.AsType[*claims.Refused](err)
	switch {
	case ok:
		refusal := &Error{http.StatusConflict, refusalCodes[refused.Why], refused.Error()}
		return &refusedClaim{refusal, othersView(&refused.Entry), refused.RetryIn}
	case errors.Is(err, claims.ErrLost):
		return &Error{http.StatusConflict, "Lost",
			"The claim is no longer current: stop the work, since another holder may have begun it."}
	case errors.Is(err, claims.ErrEnded):
		return &Error{http.StatusConflict, "Ended",
			"The claim has been ended in another way: GET shows how."}
	case errors.Is(err, claims.ErrChanged):
		return &Error{http.StatusConflict, "Changed", err.Error()}
	case errors.Is(err, claims.ErrFinal):
		return &Error{http.StatusConflict, "Final", err.Error() +
			". If its lease may have run, its holder has lost the claim for good: settle or reopen it again."}
	case errors.Is(err, claims.ErrUnreadable):
		return &Error{http.StatusConflict, "Unreadable", err.Error()}
	case errors.Is(err, claims.ErrNoEntry):
		return &Error{http.StatusNotFound, "NotFound", err.Error()}
	}
	return err
}
