package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"tenaq/claims"
	"tenaq/internal/engine"
	"tenaq/records"
)

// Stores are stores of records outside the server whose claims its operator wants to see. The
// server knows their names, and the program that configures a Handler opens them.
type Stores interface {
	// Stores returns them in the order in which they are shown.
	Stores() []ClaimStore

	// Open returns the store of a name. It may be asked for again with every request.
	Open(ctx context.Context, name string) (records.Store, error)

	// Explain says of an error of Open, or of a store that it returned, where that store is and
	// what to do.
	Explain(name string, err error) error
}

// A ClaimStore is a store outside the server.
type ClaimStore struct {
	Name     string `json:"name"`
	Records  string `json:"records" doc:"where it is, as --records takes it, without a password"`
	ReadsAll bool   `json:"readsAll" doc:"a list reads the whole table, which costs money"`
}

type storeList struct {
	Stores []ClaimStore `json:"stores"`
}

// stores answers GET /v1/stores. It asks none of them. [REC-18]
func (c *call) stores(none) (storeList, error) {
	return storeList{append([]ClaimStore{}, c.cfg.Stores.Stores()...)}, nil
}

// Bounds of what is asked of stores outside.
const (
	storesAtOnce = 4
	storeWait    = 5 * time.Second
	storeLooks   = 32 // claims in a step of a list, of up to records.ValueMax
)

var errStoreSlow = errors.New("it did not answer within 5 seconds")

// An outside is a store outside the server, for one request.
type outside struct {
	records.Store
	ClaimStore
	stores Stores
	next   string // where the step after the latest List begins
}

// explain turns an error of the store into one of /v1, unless it is an answer.
func (s *outside) explain(ctx context.Context, err error) error {
	_, conflict := errors.AsType[*records.Conflict](err)
	if err == nil || conflict || errors.Is(err, records.ErrNotFound) {
		return err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else {
		err = s.stores.Explain(s.Name, err)
	}
	return &Error{http.StatusServiceUnavailable, "StoreUnavailable", fmt.Sprintf(
		"The store %s, which is %s, cannot be used now: %v. Check that it runs, that this server reaches it, and its address under claims: in the configuration; then try again.",
		s.Name, s.Records, err)}
}

func (s *outside) Get(ctx context.Context, key string) (records.Record, error) {
	r, err := s.Store.Get(ctx, key)
	return r, s.explain(ctx, err)
}

func (s *outside) Put(ctx context.Context, w records.Write) (records.Record, error) {
	r, err := s.Store.Put(ctx, w)
	return r, s.explain(ctx, err)
}

// List reads one step. Where each list reads the whole table, a step is as large as it can be.
func (s *outside) List(
	ctx context.Context, prefix, after string, limit int,
) (list []records.Record, err error) {
	limit = min(limit, storeLooks)
	if s.ReadsAll {
		limit = records.ListMax
	}
	list, err = s.Store.List(ctx, prefix, after, limit)
	if s.next = ""; len(list) == limit {
		s.next = list[limit-1].Key
	}
	return list, s.explain(ctx, err)
}

func (s *outside) nextKey() string { return s.next }

// steps is how many steps a page has at most.
func (s *outside) steps() int {
	if s.ReadsAll {
		return 1
	}
	return claimSteps
}

// inStore does something with the store of a name. [REC-18]
func (c *call) inStore(name string, do func(context.Context, *outside) error) error {
	i := -1
	if c.cfg.Stores != nil {
		i = slices.IndexFunc(c.cfg.Stores.Stores(), func(s ClaimStore) bool {
			return s.Name == name
		})
	}
	if i < 0 {
		return &Error{http.StatusNotFound, "NotFound", fmt.Sprintf(
			"This server knows no store %q. GET /v1/stores lists those that its configuration names under claims:.",
			name)}
	}
	// The claims there are of no account, so they are as much of the server as its redrivers.
	if err := c.cfg.Policies.Allow(c.principal, c.request, c.route.right(),
		engine.QueueName{Account: c.cfg.Door.Account()}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(c, storeWait, errStoreSlow)
	defer cancel()
	s := &outside{ClaimStore: c.cfg.Stores.Stores()[i], stores: c.cfg.Stores}
	select {
	case c.reached <- struct{}{}:
		defer func() { <-c.reached }()
	case <-ctx.Done():
		return s.explain(ctx, ctx.Err())
	}
	var err error
	if s.Store, err = c.cfg.Stores.Open(ctx, name); err != nil {
		return s.explain(ctx, err)
	}
	return do(ctx, s)
}

// withLedger does something with the ledger of a prefix, in the records of the server or in a store
// outside, for requests about a key.
func (c *call) withLedger(
	store, prefix, key string, do func(context.Context, *claims.Ledger) error,
) error {
	if store == "" {
		l, err := c.ledger(prefix, key, "", 0)
		if err != nil {
			return err
		}
		return do(c, l)
	}
	return c.inStore(store, func(ctx context.Context, s *outside) error {
		l, err := c.ledgerIn(s, prefix, key, "", 0)
		if err != nil {
			return err
		}
		return do(ctx, l)
	})
}
