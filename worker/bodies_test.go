package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/internal/work/trail"
	"tenaq/offload"
	"tenaq/offload/offloadtest"
	"tenaq/worker"
)

// A library is a rig with a store of bodies.
type library struct {
	*rig
	bodies  *offloadtest.Memory
	offload *offload.Offloader
}

func withBodies(t *testing.T, suffix string, test func(t *testing.T, l *library)) {
	t.Helper()
	inBubble(t, suffix, func(t *testing.T, r *rig) {
		l := &library{rig: r, bodies: offloadtest.NewMemory("bodies")}
		var err error
		if l.offload, err = offload.New(offload.Config{Store: l.bodies, Threshold: -1}); err != nil {
			t.Fatal(err)
		}
		test(t, l)
	})
}

// config is that of a worker that fetches bodies.
func (l *library) config(handle worker.HandlerFunc) worker.Config {
	cfg := l.rig.config(handle)
	cfg.Offload = l.offload
	return cfg
}

// keep sends a message whose body is kept in the store, and returns the pointer.
func (l *library) keep(body string) (pointer string) { return l.sendPointer(body, "", false) }

// lose sends a message whose body is not in the store any more, and returns the pointer.
func (l *library) lose(body string) (pointer string) { return l.sendPointer(body, "", true) }

// sendPointer sends a message, of work that its producer named if there is a key.
func (l *library) sendPointer(body, key string, lost bool) (pointer string) {
	l.t.Helper()
	pointer, with, err := l.offload.Out(l.t.Context(), "", body, nil)
	if err == nil && lost {
		err = l.offload.Delete(l.t.Context(), pointer, with)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	if key != "" {
		with, _ = trail.Trail{Key: key}.Attach(with)
	}
	in := &sqs.SendMessageInput{QueueUrl: &l.url, MessageBody: &pointer, MessageAttributes: with}
	if strings.HasSuffix(l.url, ".fifo") {
		in.MessageGroupId, in.MessageDeduplicationId = aws.String("g"), aws.String(body)
	}
	if _, err := l.server.Client().SendMessage(l.t.Context(), in); err != nil {
		l.t.Fatal(err)
	}
	return pointer
}

// wantDead receives the dead letter, which has to have the pointer as it was sent.
func (l *library) wantDead(pointer, reason string) {
	l.t.Helper()
	got := l.receive(l.dead)
	if aws.ToString(got.Body) != pointer || !offload.IsPointer(got.MessageAttributes) {
		l.t.Errorf("the dead letter has the body %q, attributes %v; want the pointer %q", aws.ToString(got.Body), got.MessageAttributes, pointer)
	}
	if dead := l.lines("dead"); len(dead) != 1 || !strings.Contains(dead[0], reason) {
		l.t.Errorf("dead letters are %q, want one because %q", dead, reason)
	}
}

var errAway = errors.New("no route to the store")

// away makes the store fail until the test says otherwise.
func (l *library) away() (back func()) {
	l.bodies.SetFault(func(_ context.Context, operation, _ string) error {
		if operation == "get" {
			return errAway
		}
		return nil
	})
	return func() { l.bodies.SetFault(nil) }
}

// The handler gets the real body, and no attribute says that it was elsewhere. A message with its
// body in it is handled as ever, and without Config.Offload a pointer is a body.
func TestBodyIsFetched(t *testing.T) {
	for _, claimed := range []bool{true, false} {
		withBodies(t, "", func(t *testing.T, l *library) {
			handled := func(_ context.Context, m *worker.Message) error {
				l.note("body %s with %d", m.Body, len(m.Attributes))
				return nil
			}
			cfg := l.config(handled)
			if !claimed {
				cfg.Claims, cfg.NoClaims = nil, true
			}
			stop := l.start(cfg)
			l.keep("far")
			l.sleep(time.Second)
			l.send("near", "colour=blue")
			l.sleep(time.Second)
			l.wantLines([]string{"body far with 0", "done far 0s", "body near with 1", "done near 0s"}, "body", "done")
			l.mustStop(stop)
			if got := l.bodies.Len(); got != 1 {
				t.Errorf("%d bodies are left, want the one", got)
			}

			cfg = l.rig.config(handled)
			stop = l.start(cfg)
			pointer := l.keep("other")
			l.sleep(time.Second)
			if got, want := l.lines("body")[2], "body "+pointer+" with 1"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			l.wantCount(l.url, 0)
			l.mustStop(stop)
		})
	}
}

// A duplicate is found by its claim, before its body is fetched: it may not even be there any more.
func TestDuplicateIsNotFetched(t *testing.T) {
	withBodies(t, ".fifo", func(t *testing.T, l *library) {
		l.run(l.config(func(context.Context, *worker.Message) error { return nil }))
		l.keep("a")
		l.sleep(10 * time.Minute) // beyond the window of the queue
		second := l.lose("a")
		l.sleep(time.Minute)
		l.wantLines([]string{"done a 0s", "duplicate " + second + " "}, "done", "duplicate", "failed", "dead")
		if got := l.bodies.Calls("get"); got != 1 {
			t.Errorf("%d bodies were fetched, want one", got)
		}
		l.wantCount(l.url, 0)
	})
}

// Key and Memo may look into the body: it is there for them.
func TestKeyAndMemoSeeTheBody(t *testing.T) {
	withBodies(t, "", func(t *testing.T, l *library) {
		cfg := byBody(l.config(func(_ context.Context, m *worker.Message) error { return nil }))
		cfg.Memo = func(m *worker.Message) []byte { return []byte("memo of " + m.Body) }
		stop := l.start(cfg)
		l.keep("a")
		l.sleep(time.Second)
		l.keep("a")
		l.sleep(time.Second)
		l.wantLines([]string{"done a 0s", "duplicate a "}, "done", "duplicate")
		l.mustStop(stop)
		entry, err := l.ledger().Entry(t.Context(), "a")
		if err != nil || string(entry.Memo) != "memo of a" {
			t.Errorf("the ledger has the memo %q, error %v", entry.Memo, err)
		}
	})
}

// While the store cannot be reached no attempt is counted, and the queue is not emptied into
// failures. When it is back the work is done, as the first attempt.
func TestStoreOfBodiesAway(t *testing.T) {
	for _, early := range []bool{false, true} {
		withBodies(t, "", func(t *testing.T, l *library) {
			back := l.away()
			cfg := l.config(func(_ context.Context, m *worker.Message) error {
				if m.Attempt() != 1 {
					t.Errorf("attempt %d", m.Attempt())
				}
				return nil
			})
			if early {
				cfg = byBody(cfg)
			}
			l.run(cfg)
			l.keep("a")
			l.sleep(3 * time.Minute)
			if n := l.bodies.Calls("get"); n < 2 || n > 9 {
				t.Errorf("the store was asked %d times in three minutes", n)
			}
			if got := l.lines("deferred"); len(got) == 0 || !strings.Contains(got[0], errAway.Error()) {
				t.Errorf("deferred %q", got)
			}
			l.wantLines(nil, "failed", "dead", "started", "lost")
			back()
			l.sleep(15 * time.Minute)
			l.wantLines([]string{"done a 0s"}, "done", "failed", "dead", "lost")
			l.wantCount(l.url, 0)
		})
	}
}

// Trouble with the store holds receives up, as trouble with the ledger does: each would count at
// the queue.
func TestStoreOfBodiesAwayPausesReceives(t *testing.T) {
	withBodies(t, "", func(t *testing.T, l *library) {
		l.away()
		for i := range 50 {
			l.keep(fmt.Sprint(i))
		}
		cfg := l.config(nil)
		cfg.Handler = worker.HandlerFunc(func(context.Context, *worker.Message) error { return nil })
		l.run(cfg)
		l.sleep(10 * time.Minute)
		if got := l.client.Calls("ReceiveMessage"); got > 100 {
			t.Errorf("%d receives in ten minutes without the store, as many as with it", got)
		}
		l.wantCount(l.dead, 0)
	})
}

// A body that is not there is a failed attempt, and in the end a dead letter that still says where
// it should have been. When an operator puts it back the dead letter can be handled.
func TestBodyIsMissing(t *testing.T) {
	withBodies(t, "", func(t *testing.T, l *library) {
		pointer := l.lose("a")
		l.run(l.config(func(context.Context, *worker.Message) error { return nil }))
		l.sleep(10 * time.Minute)
		if got := l.lines("failed"); len(got) != 3 {
			t.Errorf("failed %q, want three attempts", got)
		}
		l.wantLines(nil, "started", "deferred", "lost")
		l.wantDead(pointer, offload.ErrNotFound.Error())
		l.wantCount(l.url, 0)
	})
}

// If the key is in the body, the work of the message is unknown without the body.
func TestBodyIsMissingAndHasTheKey(t *testing.T) {
	withBodies(t, "", func(t *testing.T, l *library) {
		pointer := l.lose("a")
		l.run(byBody(l.config(func(context.Context, *worker.Message) error { return nil })))
		l.sleep(time.Second)
		if got := l.lines("failed"); len(got) != 1 {
			t.Errorf("failed %q, want once", got)
		}
		l.wantDead(pointer, "it is unknown what work the message belongs to")
	})
}

// With Memo alone there is a claim without the body, so attempts are counted, and done work is
// found to be done.
func TestBodyIsMissingForMemo(t *testing.T) {
	withBodies(t, ".fifo", func(t *testing.T, l *library) {
		cfg := l.config(func(context.Context, *worker.Message) error { return nil })
		cfg.Memo = func(m *worker.Message) []byte { return []byte("memo of " + m.Body) }
		l.run(cfg)
		l.lose("a")
		l.sleep(30 * time.Minute)
		if got := l.lines("failed"); len(got) != 3 {
			t.Errorf("failed %q, want three attempts", got)
		}
		entry, err := l.ledger().Entry(t.Context(), "a")
		if err != nil || entry.State != claims.Exhausted || len(entry.Memo) > 0 {
			t.Errorf("the ledger says %+v, error %v", entry, err)
		}
		l.keep("b")
		l.sleep(10 * time.Minute)
		again := l.lose("b")
		l.sleep(time.Minute)
		l.wantLines([]string{"done b 0s", "duplicate " + again + " "}, "done", "duplicate")
	})
}

// A pointer that leads where the configuration does not allow is poison. Nothing is asked for it.
func TestForbiddenPointerIsPoison(t *testing.T) {
	withBodies(t, "", func(t *testing.T, l *library) {
		_, with, err := l.offload.Out(t.Context(), "k", "x", nil)
		if err != nil {
			t.Fatal(err)
		}
		pointer := `["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"secrets","s3Key":"k"}]`
		if _, err := l.server.Client().SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &l.url, MessageBody: &pointer, MessageAttributes: with}); err != nil {
			t.Fatal(err)
		}
		cfg := l.config(func(context.Context, *worker.Message) error { return nil })
		cfg.DeleteBodies = true
		l.run(cfg)
		l.sleep(time.Second)
		l.wantDead(pointer, `the bucket "secrets", which the configuration does not allow`)
		l.wantLines(nil, "started", "done")
		if n := l.bodies.Calls("get") + l.bodies.Calls("delete"); n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
	})
}

// A fetch may take longer than the lease and the claim: both are renewed, so no other worker
// begins, with this message or with another of the same work.
func TestSlowFetch(t *testing.T) {
	withBodies(t, "", func(t *testing.T, l *library) {
		l.bodies.SetFault(func(ctx context.Context, operation, _ string) error {
			if operation == "get" {
				return sleepOr(ctx, 4*time.Minute)
			}
			return nil
		})
		handle := func(_ context.Context, m *worker.Message) error { return nil }
		one := l.start(l.config(handle))
		two := l.start(l.config(handle))
		l.sendPointer("a", "work", false)
		l.sendPointer("a", "work", false)
		l.sleep(20 * time.Minute)
		l.wantLines([]string{"started a", "done a 0s"}, "started", "done", "lost", "failed", "deferred")
		if got := l.lines("duplicate"); len(got) != 1 {
			t.Errorf("duplicates %q", got)
		}
		if got := l.bodies.Calls("get"); got != 1 {
			t.Errorf("fetched %d times", got)
		}
		l.mustStop(one)
		l.mustStop(two)
	})
}

// A body that is slow to come before the claims costs no other message of its batch the claim:
// another worker that is given the same work meanwhile either does it or finds it done.
func TestSlowFetchForKey(t *testing.T) {
	withBodies(t, "", func(t *testing.T, l *library) {
		cfg := byBody(l.config(nil))
		cfg.Handler = batchFunc(func(_ context.Context, batch []*worker.Message) error { return nil })
		for _, body := range []string{"a", "b", "c"} {
			l.keep(body)
		}
		var gets atomic.Int64
		l.bodies.SetFault(func(ctx context.Context, operation, _ string) error {
			if operation == "get" && gets.Add(1) == 3 {
				return sleepOr(ctx, 4*time.Minute)
			}
			return nil
		})
		one := l.start(cfg)
		l.sleep(time.Minute)
		for _, body := range []string{"a", "b", "c"} {
			l.keep(body)
		}
		two := l.start(cfg)
		l.sleep(20 * time.Minute)
		l.wantLines(nil, "lost", "failed", "deferred")
		if got := l.lines("duplicate"); len(got) != 3 {
			t.Errorf("duplicates %q, want one for each", got)
		}
		l.wantCount(l.url, 0)
		l.mustStop(one)
		l.mustStop(two)
	})
}

// A store that says nothing is one that cannot be reached, after a while.
func TestStoreOfBodiesHangs(t *testing.T) {
	withBodies(t, "", func(t *testing.T, l *library) {
		l.bodies.SetFault(func(ctx context.Context, operation, _ string) error {
			if operation != "get" {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		l.run(l.config(func(context.Context, *worker.Message) error { return nil }))
		l.keep("a")
		l.sleep(6 * time.Minute)
		if got := l.lines("deferred"); len(got) != 1 || !strings.Contains(got[0], context.DeadlineExceeded.Error()) {
			t.Errorf("deferred %q", got)
		}
		l.wantLines(nil, "failed", "lost", "dead")
		l.bodies.SetFault(nil)
		l.sleep(10 * time.Minute)
		l.wantLines([]string{"done a 0s"}, "done")
	})
}

// A stubborn store takes its time for the first body, and returns it to a caller that does not want
// it any more.
type stubborn struct {
	*offloadtest.Memory
	first chan struct{}
}

func (s *stubborn) Get(ctx context.Context, key string, most int) ([]byte, error) {
	select {
	case <-s.first:
		time.Sleep(4 * time.Minute)
	default:
	}
	return s.Memory.Get(context.WithoutCancel(ctx), key, most)
}

// A worker that loses the lease during the fetch runs no handler.
func TestLeaseIsLostDuringFetch(t *testing.T) {
	withBodies(t, "", func(t *testing.T, l *library) {
		slow := &stubborn{Memory: l.bodies, first: make(chan struct{}, 1)}
		slow.first <- struct{}{}
		cfg := l.config(func(context.Context, *worker.Message) error { return nil })
		var err error
		if cfg.Offload, err = offload.New(offload.Config{Store: slow}); err != nil {
			t.Fatal(err)
		}
		l.client.SetFault(func(operation string) sqstest.Fault {
			if operation == "ChangeMessageVisibilityBatch" {
				return sqstest.Dropped
			}
			return sqstest.None
		})
		l.run(cfg)
		l.keep("a")
		l.sleep(90 * time.Second)
		l.client.SetFault(nil)
		l.sleep(20 * time.Minute)
		if got := l.lines("lost"); len(got) != 1 {
			t.Errorf("lost %q, want once", got)
		}
		l.wantLines([]string{"started a", "done a 0s"}, "started", "done")
	})
}

// In a batch, the messages whose bodies are there are handled.
func TestBatchWithMissingBodies(t *testing.T) {
	withBodies(t, "", func(t *testing.T, l *library) {
		cfg := l.config(nil)
		cfg.Handler = batchFunc(func(_ context.Context, batch []*worker.Message) error {
			var bodies []string
			for _, m := range batch {
				bodies = append(bodies, m.Body)
			}
			slices.Sort(bodies)
			l.note("batch %s", strings.Join(bodies, ","))
			return nil
		})
		l.keep("a")
		l.lose("b")
		l.send("c")
		l.keep("d")
		l.run(cfg)
		l.sleep(time.Second)
		l.wantLines([]string{"batch a,c,d"}, "batch")
		if got := l.lines("failed"); len(got) != 1 {
			t.Errorf("failed %q", got)
		}
		l.sleep(10 * time.Minute)
		l.wantCount(l.url, 0)
		l.wantCount(l.dead, 1)
	})
}

// On a FIFO queue nothing of a group overtakes a message whose body cannot be fetched, whatever is
// in a batch with it.
func TestOrderWithoutBodies(t *testing.T) {
	withBodies(t, ".fifo", func(t *testing.T, l *library) {
		cfg := l.config(nil)
		cfg.Handler = batchFunc(func(_ context.Context, batch []*worker.Message) error {
			for _, m := range batch {
				l.note("handled %s", m.Body)
			}
			return nil
		})
		l.keep("1")
		second := l.keep("2")
		l.send("3")
		l.keep("4")
		_, secret, _ := strings.Cut(second, `"s3Key":"`)
		l.bodies.SetFault(func(_ context.Context, operation, key string) error {
			if operation == "get" && strings.HasPrefix(secret, key) {
				return errAway
			}
			return nil
		})
		l.run(cfg)
		l.sleep(5 * time.Minute)
		l.wantLines([]string{"handled 1"}, "handled", "dead", "failed")
		l.bodies.SetFault(nil)
		l.sleep(20 * time.Minute)
		l.wantLines([]string{"handled 1", "handled 2", "handled 3", "handled 4"}, "handled", "dead", "failed")
		l.wantCount(l.url, 0)
	})
}

// A body is deleted when its work is done and its message gone, and not before: a message that
// comes back finds it, and a dead letter too.
func TestDeleteBodies(t *testing.T) {
	withBodies(t, "", func(t *testing.T, l *library) {
		cfg := l.config(func(_ context.Context, m *worker.Message) error {
			if m.Body == "sick" {
				return errSick
			}
			return nil
		})
		cfg.DeleteBodies = true
		l.run(cfg)
		l.keep("sick")
		l.sleep(10 * time.Minute)
		l.wantCount(l.dead, 1)
		if l.bodies.Len() != 1 {
			t.Errorf("%d bodies, want that of the dead letter", l.bodies.Len())
		}

		l.client.SetFault(func(operation string) sqstest.Fault {
			if operation == "DeleteMessageBatch" {
				return sqstest.Broken
			}
			return sqstest.None
		})
		l.keep("a")
		l.sleep(20 * time.Second)
		l.wantLines([]string{"done a 0s"}, "done")
		if l.bodies.Len() != 2 || l.bodies.Calls("delete") != 0 {
			t.Errorf("%d bodies after %d deletes, while a message is there that has one", l.bodies.Len(), l.bodies.Calls("delete"))
		}
		l.client.SetFault(nil)
		l.sleep(10 * time.Minute)
		l.wantCount(l.url, 0)
		if l.bodies.Len() != 1 {
			t.Errorf("%d bodies, want that of the dead letter", l.bodies.Len())
		}
	})
}

// A body that cannot be deleted is left to expire. The work is done all the same.
func TestBodyIsLeft(t *testing.T) {
	withBodies(t, "", func(t *testing.T, l *library) {
		l.bodies.SetFault(func(_ context.Context, operation, _ string) error {
			if operation == "delete" {
				return errAway
			}
			return nil
		})
		cfg := l.config(func(context.Context, *worker.Message) error { return nil })
		cfg.DeleteBodies = true
		l.run(cfg)
		l.keep("a")
		l.sleep(time.Minute)
		l.wantLines([]string{"done a 0s"}, "done", "failed", "deferred")
		l.wantCount(l.url, 0)
	})
}

func TestDeleteBodiesNeedsOffload(t *testing.T) {
	_, err := worker.New(worker.Config{DeleteBodies: true})
	if err == nil || !strings.Contains(err.Error(), "DeleteBodies is set, and Offload is missing") {
		t.Errorf("got error %v", err)
	}
}
