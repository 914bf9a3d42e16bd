package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// Stores that a test has made up. One is away if it has an error, and hangs if it is slow.
type madeStores struct {
	list  []ClaimStore
	store map[string]records.Store
	away  map[string]error
	slow  map[string]bool
	asked atomic.Int64
}

// A madeStore is a store that a test has made up.
type madeStore struct {
	records.Store
	*madeStores
	name string
}

func (s *madeStore) ready(ctx context.Context) error {
	s.asked.Add(1)
	if s.slow[s.name] {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.away[s.name]
}

func (s *madeStore) Get(ctx context.Context, key string) (records.Record, error) {
	if err := s.ready(ctx); err != nil {
		return records.Record{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s *madeStore) Put(ctx context.Context, w records.Write) (records.Record, error) {
	if err := s.ready(ctx); err != nil {
		return records.Record{}, err
	}
	return s.Store.Put(ctx, w)
}

func (s *madeStore) List(ctx context.Context, prefix, after string, limit int) ([]records.Record, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return s.Store.List(ctx, prefix, after, limit)
}

func (m *madeStores) Stores() []ClaimStore { return m.list }

func (m *madeStores) Open(_ context.Context, name string) (records.Store, error) {
	if m.store[name] == nil {
		return nil, errors.New("it was never there")
	}
	return &madeStore{m.store[name], m, name}, nil
}

func (m *madeStores) Explain(name string, err error) error {
	return fmt.Errorf("%w (in %s)", err, name)
}

// clockless is a store that has no clock, as DynamoDB.
type clockless struct{ records.Store }

func (s clockless) Get(ctx context.Context, key string) (records.Record, error) {
	r, err := s.Store.Get(ctx, key)
	r.Age = records.AgeUnknown
	return r, err
}

func (s clockless) List(ctx context.Context, prefix, after string, limit int) ([]records.Record, error) {
	list, err := s.Store.List(ctx, prefix, after, limit)
	for i := range list {
		list[i].Age = records.AgeUnknown
	}
	return list, err
}

func newMadeStores() *madeStores {
	return &madeStores{
		list: []ClaimStore{{Name: "shop", Records: "postgres://app@db/shop"}, {Name: "table", Records: "dynamodb:claims", ReadsAll: true},
			{Name: "gone", Records: "sqlite:/gone.db"}},
		store: map[string]records.Store{"shop": recordstest.NewMemory(), "table": clockless{recordstest.NewMemory()}},
		away:  make(map[string]error), slow: make(map[string]bool),
	}
}

// hold claims keys in a store, as a worker does.
func (m *madeStores) hold(t *testing.T, name string, lease time.Duration, keys ...string) *claims.Ledger {
	t.Helper()
	l, err := claims.New(claims.Config{Store: m.store[name], Owner: "w1", Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if _, err := l.Acquire(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// Claims in other stores are listed, shown and decided about as those of the server, and never
// mixed with them. [REC-18]
func TestStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if status, _ := w.ask("GET", "/v1/stores", "", ""); status != http.StatusNotFound {
			t.Errorf("without stores: got %d", status)
		}
		made := newMadeStores()
		w.cfg.Stores = made
		w.claim(t, "POST", "own/acquire", `{}`, 200, "")
		work := made.hold(t, "shop", time.Minute, "a", "b")
		made.hold(t, "table", time.Minute, "c")
		var stores storeList
		if w.json(t, "GET", "/stores", "", 200, &stores); len(stores.Stores) != 3 || stores.Stores[0].Name != "shop" || made.asked.Load() > 0 {
			t.Errorf("got %+v, and %d requests to stores", stores, made.asked.Load())
		}
		for query, want := range map[string]string{"": "own", "store=shop": "a b", "store=shop&prefix=b": "b", "store=shop&ledger=other/": "",
			"store=table": "c", "store=table&state=stuck": ""} {
			var list claimList
			w.json(t, "GET", "/claims?"+query, "", 200, &list)
			if got := strings.Join(keysOf(list), " "); got != want || list.Next != "" {
				t.Errorf("%s: got %s, next %q, want %s", query, got, list.Next, want)
			}
		}
		if got := w.claim(t, "GET", "a?store=shop", "", 200, ""); got.RemainingMS != 60_000 || got.AgeMS == nil || *got.AgeMS != 0 {
			t.Errorf("got %+v", got)
		}
		w.claim(t, "GET", "own?store=shop", "", 404, "NotFound")
		w.claim(t, "GET", "a", "", 404, "NotFound")
		w.claim(t, "GET", "a?store=shops", "", 404, "NotFound")

		w.claim(t, "POST", "a/settle", `{"reason":"x","store":"shop"}`, 409, "Busy")
		time.Sleep(2 * time.Minute)
		if got := w.claim(t, "POST", "a/settle", `{"reason":"the bank has it","store":"shop","result":"ch_1"}`, 200, ""); got.State != "completed" {
			t.Errorf("got %+v", got)
		}
		if e, err := work.Entry(t.Context(), "a"); err != nil || string(e.Result) != "ch_1" || e.Owner != "arn:aws:iam::000000000000:root" {
			t.Errorf("the worker sees %+v, %v", e, err)
		}
		w.claim(t, "POST", "b/reopen", `{"reason":"again","store":"shop"}`, 200, "")
		if c, err := work.Acquire(t.Context(), "b"); err != nil || c.Attempts() != 1 {
			t.Errorf("the worker claims %+v, %v", c, err)
		}
		// A store without a clock cannot tell whether a lease has expired.
		if got := w.claim(t, "GET", "c?store=table", "", 200, ""); got.AgeMS != nil || got.RemainingMS != 0 || got.LeaseMS != 60_000 {
			t.Errorf("got %+v", got)
		}
		w.claim(t, "POST", "c/reopen", `{"reason":"x","store":"table"}`, 409, "Busy")
		w.claim(t, "POST", "c/reopen", `{"reason":"x","store":"table","force":true}`, 200, "")
		_, log := w.ask("GET", "/v1/actions", "", "")
		for _, text := range []string{"settled in shop: the bank has it", "reopened in table: x"} {
			if !strings.Contains(log, text) {
				t.Errorf("the action log lacks %q: %s", text, log)
			}
		}
	})
}

// A long list is read in pages of bounded steps, with none left out. [REC-18]
func TestStorePages(t *testing.T) {
	w := newWorld(t)
	made := newMadeStores()
	w.cfg.Stores = made
	const n = storeLooks*claimSteps + 2*storeLooks // more than a page looks at
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("k-%05d", i))
	}
	made.hold(t, "shop", time.Hour, want...)
	made.hold(t, "table", time.Hour, want...)
	for _, query := range []string{"store=shop", "store=shop&limit=100", "store=shop&limit=32", "store=shop&limit=1&prefix=k-0000", "store=table&limit=100", "store=table&state=held"} {
		var all []string
		for after := ""; ; {
			var page claimList
			w.json(t, "GET", "/claims?"+query+"&after="+after, "", 200, &page)
			if all = append(all, keysOf(page)...); page.Next == "" {
				break
			}
			if page.Next <= after {
				t.Fatalf("%s: the page after %q goes on after %q", query, after, page.Next)
			}
			after = page.Next
		}
		if most := n; strings.Contains(query, "prefix") {
			if len(all) != 10 {
				t.Errorf("%s: got %d claims, want 10", query, len(all))
			}
		} else if len(all) != most || strings.Join(all, " ") != strings.Join(want, " ") {
			t.Errorf("%s: got %d claims, want %d in their order", query, len(all), most)
		}
	}
	var page claimList
	if w.json(t, "GET", "/claims?store=shop&state=completed", "", 200, &page); page.Looked != storeLooks*claimSteps || page.Next != want[page.Looked-1] {
		t.Errorf("a search looked at %d claims, and goes on after %q", page.Looked, page.Next)
	}
	made.asked.Store(0)
	if w.json(t, "GET", "/claims?store=table&state=completed", "", 200, &page); made.asked.Load() != 1 || page.Looked != n {
		t.Errorf("a search read a whole table %d times, and looked at %d claims", made.asked.Load(), page.Looked)
	}
}

// A store that is away or hangs is refused with where it is and what to do. Others are not
// affected, and neither are the claims of the server. [REC-18]
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		made := newMadeStores()
		w.cfg.Stores = made
		made.hold(t, "shop", time.Minute, "a")
		made.away["shop"] = errors.New("connection refused")
		unavailable := func(method, path, body string, says ...string) {
			t.Helper()
			status, text := w.ask(method, "/v1/claims"+path, map[bool]string{true: "application/json"}[body != ""], body)
			for _, said := range append(says, `"StoreUnavailable"`, "under claims: in the configuration") {
				if status != http.StatusServiceUnavailable || !strings.Contains(text, said) {
					t.Errorf("%s %s: got %d %s, want %q in it", method, path, status, text, said)
				}
			}
		}
		unavailable("GET", "?store=shop", "", "postgres://app@db/shop", "connection refused (in shop)")
		unavailable("GET", "/a?store=shop", "", "connection refused")
		unavailable("POST", "/a/settle", `{"reason":"x","store":"shop","force":true}`, "connection refused")
		unavailable("GET", "?store=gone", "", "it was never there")
		if status, text := w.ask("GET", "/v1/actions", "", ""); status != 200 || strings.Contains(text, "settled") {
			t.Errorf("a decision that failed is in the action log: %d %s", status, text)
		}
		made.slow["shop"] = true
		begun := time.Now()
		answers := make(chan int)
		for range 2 * storesAtOnce {
			go func() {
				status, _ := w.ask("GET", "/v1/claims?store=shop", "", "")
				answers <- status
			}()
		}
		synctest.Wait()
		w.json(t, "GET", "/claims", "", 200, &claimList{})
		if took := time.Since(begun); took > 0 {
			t.Errorf("the claims of the server took %v while a store hangs", took)
		}
		for range 2 * storesAtOnce {
			if status := <-answers; status != http.StatusServiceUnavailable {
				t.Errorf("a store that hangs answers %d", status)
			}
		}
		if took := time.Since(begun); took != storeWait {
			t.Errorf("requests to a store that hangs took %v", took)
		}
		unavailable("GET", "/a?store=shop", "", "did not answer within 5 seconds")
		made.slow["shop"], made.away["shop"] = false, nil
		w.json(t, "GET", "/claims?store=shop", "", 200, &claimList{})
	})
}

// Other stores take the rights that the claims of the server take, and are for keys of its account
// only. [REC-18]
func TestStoreRights(t *testing.T) {
	k := newKeyed(t,
		`{"id": "TQWORKER", "secret": "the-secret-of-TQWORKER", "allow": ["tenaq:*Claim"]}`,
		`{"id": "TQLOOKER", "secret": "the-secret-of-TQLOOKER", "allow": ["tenaq:ListClaims", "tenaq:GetClaim"]}`,
		`{"id": "TQPERSON", "secret": "the-secret-of-TQPERSON", "allow": ["tenaq:ListClaims", "tenaq:ManageClaims"]}`,
		`{"id": "TQOTHER", "secret": "the-secret-of-TQOTHER", "account": "111111111111", "allow": ["tenaq:*"]}`)
	made := newMadeStores()
	k.cfg.Stores = made
	made.hold(t, "shop", time.Minute, "a")
	for _, tt := range []struct {
		who, method, path, body string
		status                  int
	}{
		{"TQWORKER", "GET", "/stores", "", 403},
		{"TQWORKER", "GET", "/claims?store=shop", "", 403},
		{"TQWORKER", "GET", "/claims/a?store=shop", "", 200},
		{"TQWORKER", "POST", "/claims/a/settle", `{"reason":"x","force":true,"store":"shop"}`, 403},
		{"TQLOOKER", "GET", "/stores", "", 200},
		{"TQLOOKER", "GET", "/claims?store=shop", "", 200},
		{"TQLOOKER", "POST", "/claims/a/reopen", `{"reason":"x","force":true,"store":"shop"}`, 403},
		{"TQOTHER", "GET", "/stores", "", 403},
		{"TQOTHER", "GET", "/claims?store=shop", "", 403},
		{"TQOTHER", "GET", "/claims/a?store=shop", "", 403},
		{"TQOTHER", "POST", "/claims/a/settle", `{"reason":"x","force":true,"store":"shop"}`, 403},
		{"TQOTHER", "GET", "/claims", "", 200},
		{"TQPERSON", "POST", "/claims/a/settle", `{"reason":"x","force":true,"store":"shop"}`, 200},
		{"TQPERSON", "POST", "/claims/a/acquire", `{"store":"shop"}`, 403},
	} {
		if status, text := k.as(t, "key "+tt.who, tt.method, "/v1"+tt.path, tt.body); status != tt.status {
			t.Errorf("%s %s %s: got %d %s, want %d", tt.who, tt.method, tt.path, status, text, tt.status)
		}
	}
}
