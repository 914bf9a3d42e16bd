package order

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/recordstest"
	"tenaq/worker"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The row of a later holder stays, and there is one mail however often an order is recorded.
func TestFenceKeepsTheRow(t *testing.T) {
	ctx := t.Context()
	for _, fences := range []bool{true, false} {
		orders, err := openTable(filepath.Join(t.TempDir(), "orders.db"), time.Second)
		must(t, err)
		defer orders.close()
		must(t, orders.record(ctx, row{"order-1", "ch-1", "first", 1}, fences))
		must(t, orders.record(ctx, row{"order-1", "ch-1", "second", 2}, fences))
		must(t, orders.record(ctx, row{"order-1", "ch-1", "second", 2}, fences))
		err = orders.record(ctx, row{"order-1", "ch-1", "zombie", 1}, fences)
		if stale := errors.Is(err, errStale); stale != fences {
			t.Errorf("with fences %t: the zombie is told %v", fences, err)
		}
		rows, err := orders.rows(ctx)
		must(t, err)
		want := row{"order-1", "ch-1", "second", 2}
		if !fences {
			want = row{"order-1", "ch-1", "zombie", 1}
		}
		if len(rows) != 1 || rows[0] != want {
			t.Errorf("with fences %t: got %v, want %v", fences, rows, want)
		}
		m := newMails(orders)
		must(t, m.relay(ctx))
		must(t, m.relay(ctx))
		if m.sent["order-1"] != 1 {
			t.Errorf("with fences %t: %d mails, want 1", fences, m.sent["order-1"])
		}
	}
}

// The bank charges once for a key, until it forgets the key, and always without one; charges it does not
// forget.
func TestBank(t *testing.T) {
	ctx := t.Context()
	b := newBank(ctx, func(string) plan { return plan{} })
	mux := http.NewServeMux()
	b.serve(mux)
	server := httptest.NewServer(mux)
	defer server.Close()
	client := newBankClient(server.URL)

	if _, err := client.find(ctx, "order-1"); err != errNoCharge {
		t.Errorf("before: error %v, want %v", err, errNoCharge)
	}
	var ids []string
	charge := func(key string) {
		id, err := client.charge(ctx, key, "order-1", 100)
		must(t, err)
		ids = append(ids, id)
	}
	charge("order-1")
	charge("order-1")
	charge("")
	b.forget()
	charge("order-1")
	if want := []string{"ch-1", "ch-1", "ch-2", "ch-3"}; !slices.Equal(ids, want) {
		t.Errorf("charges %v, want %v", ids, want)
	}
	if id, err := client.find(ctx, "order-1"); id != "ch-1" || err != nil {
		t.Errorf("afterwards: %q and error %v, want ch-1", id, err)
	}
	if n := b.count("order-1"); n != 3 {
		t.Errorf("counted %d charges, want 3", n)
	}
}

// A card without money is not charged and can be tried again; a charge without an answer is one.
func TestBankRefusesAndHangsUp(t *testing.T) {
	ctx := t.Context()
	next := plan{refuse: true}
	b := newBank(ctx, func(string) plan { return next })
	mux := http.NewServeMux()
	b.serve(mux)
	server := httptest.NewServer(mux)
	defer server.Close()
	client := newBankClient(server.URL)

	if id, err := client.charge(ctx, "k", "order-1", 100); err == nil || b.count("order-1") != 0 {
		t.Errorf("without money: charge %q, counted %d", id, b.count("order-1"))
	}
	next = plan{hangUp: true}
	if id, err := client.charge(ctx, "k", "order-1", 100); err == nil || b.count("order-1") != 1 {
		t.Errorf("without an answer: charge %q, counted %d", id, b.count("order-1"))
	}
	if id, err := client.charge(ctx, "k", "order-1", 100); err != nil || id != "ch-1" {
		t.Errorf("asked again: charge %q and error %v, want ch-1", id, err)
	}
}

// A deaf store lets a holder believe that it renews its claim: it goes on, and somebody else takes over. With
// an honest store nobody can.
func TestDeafStore(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			store := recordstest.NewMemory()
			ledger := func(deaf bool) *claims.Ledger {
				var s records.Store = store
				if deaf {
					s = deafStore{store}
				}
				l, err := claims.New(s, claims.Config{Lease: lease})
				must(t, err)
				return l
			}
			claim, err := ledger(deaf).Acquire(ctx, "order-1")
			must(t, err)
			held, stop := claim.Hold(ctx)
			var busy *claims.Busy
			if _, err := ledger(false).Acquire(ctx, "order-1"); !errors.As(err, &busy) {
				t.Errorf("deaf %t: at first another one is told %v", deaf, err)
			}
			time.Sleep(3 * lease)
			if held.Err() != nil {
				t.Errorf("deaf %t: the holder was told %v", deaf, context.Cause(held))
			}
			_, err = ledger(false).Acquire(ctx, "order-1")
			if errors.As(err, &busy) == deaf || deaf && err != nil {
				t.Errorf("deaf %t: another one is told %v", deaf, err)
			}
			stop()
			if err := claim.Complete(ctx, nil); errors.Is(err, claims.ErrLost) != deaf {
				t.Errorf("deaf %t: in the end the holder is told %v", deaf, err)
			}
		})
	}
}

// A deaf queue answers renewals and passes on what gives a message back.
func TestDeafQueue(t *testing.T) {
	q := &recorder{}
	deaf := deafQueue{q}
	entry := func(id string, after time.Duration) types.ChangeMessageVisibilityBatchRequestEntry {
		return types.ChangeMessageVisibilityBatchRequestEntry{Id: &id, VisibilityTimeout: int32(after / time.Second)}
	}
	_, err := deaf.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{
		Entries: []types.ChangeMessageVisibilityBatchRequestEntry{entry("a", lease), entry("b", 0), entry("c", lease)},
	})
	must(t, err)
	_, err = deaf.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{
		Entries: []types.ChangeMessageVisibilityBatchRequestEntry{entry("d", lease)},
	})
	must(t, err)
	if want := []string{"b"}; !slices.Equal(q.ids, want) {
		t.Errorf("passed on %v, want %v", q.ids, want)
	}
}

// A recorder is a queue that remembers of what the visibility was changed.
type recorder struct {
	worker.SQS
	ids []string
}

func (r *recorder) ChangeMessageVisibilityBatch(
	_ context.Context, in *sqs.ChangeMessageVisibilityBatchInput, _ ...func(*sqs.Options),
) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	for _, e := range in.Entries {
		r.ids = append(r.ids, *e.Id)
	}
	return &sqs.ChangeMessageVisibilityBatchOutput{}, nil
}
