package engine

import (
	"fmt"
	"testing"
)

// attempt sends one message, as an attempt of a call. It submits the operation as often as that is
// asked for, and returns how often.
func (r *rig) attempt(call int, later bool) (s Sent, times int) {
	r.t.Helper()
	op := &SendMessage{Queue: testQueue, Draft: NewDraft(Entry{Body: Text{Value: "x", Set: true}}),
		Call: Invocation{Hash: HashInvocation(fmt.Append(nil, call)), Later: later}}
	for {
		times++
		switch err := r.apply(op); {
		case err == nil:
			return op.Sent, times
		case err != ErrAgain || times > 10_000:
			r.t.Fatal(err)
		}
	}
}

// After a restart, the first retry reads the earlier answers, in pieces, and other sends wait for
// none of it. Each retry finds its own answer. [AGAIN-1, AGAIN-4]
func TestRetriesAfterRestart(t *testing.T) {
	const calls, window = 5000, 100
	r := newRig(t, Config{Window: window})
	r.do(&CreateQueue{Queue: testQueue, NameSet: true})
	sent := make([]MessageID, calls)
	for i := range sent {
		r.now += 40 // 200 seconds in all
		s, _ := r.attempt(i, false)
		sent[i] = s.ID
	}
	r.reopen()
	if s, times := r.attempt(calls, false); s.Again || times != 1 {
		t.Errorf("a first attempt is submitted %d times, and was answered before: %v", times, s.Again)
	}
	for i := range 3 {
		call := i * (calls - 1) / 2
		s, times := r.attempt(call, true)
		if !s.Again || s.ID != sent[call] {
			t.Errorf("the retry of call %d was answered %+v, want the id %v again", call, s, sent[call])
		}
		if first := i == 0; first != (times > 1) || times > calls/window+2 {
			t.Errorf("the retry of call %d was submitted %d times", call, times)
		}
	}
	for i, id := range sent {
		if s, _ := r.attempt(i, true); s.ID != id {
			t.Fatalf("the retry of call %d was answered %+v, want the id %v again", i, s, id)
		}
	}
	if s, _ := r.attempt(calls+1, true); s.Again {
		t.Error("a call was recognized that was never made")
	}
	r.now += againWindow
	if s, _ := r.attempt(calls-1, true); s.Again {
		t.Error("a call was recognized whose window is over")
	}
}

// However many retries precede their first attempts, each first attempt is recognized, even those
// that do not fit into memory. [AGAIN-3]
func TestManyEarlyRetries(t *testing.T) {
	r := newRig(t, Config{})
	r.do(&CreateQueue{Queue: testQueue, NameSet: true})
	const calls = againLateMax + 2
	for i := range calls {
		if s, _ := r.attempt(i, true); s.Again {
			t.Fatalf("call %d was recognized before it was made", i)
		}
		r.now += 10
	}
	if n := len(r.queues[testQueue].again.late); n == 0 || n > againLateMax {
		t.Errorf("%d hashes are in memory, want a few", n)
	}
	for _, i := range []int{0, calls / 2, calls - 1} {
		if s, _ := r.attempt(i, false); !s.Again {
			t.Errorf("the first attempt of call %d is stored again", i)
		}
	}
	if s, _ := r.attempt(calls, false); s.Again {
		t.Error("a call was recognized that was never made")
	}
	r.now += againWindow + 60_000
	r.attempt(calls+1, false)
	if q := r.queues[testQueue]; q.st.AgainLate != 0 || len(q.again.late) != 0 {
		t.Errorf("hashes of %d retries are kept for longer than the window", len(q.again.late))
	}
}

// A message is followed by the mark in the answer to a retry, as by the one in the first answer.
// [AGAIN-7, PEEK-9]
func TestRetryIsFollowed(t *testing.T) {
	r := newRig(t, Config{})
	r.do(&CreateQueue{Queue: testQueue, NameSet: true})
	var marks [2]string
	for i := range marks {
		r.now += 1000
		marks[i] = do(r, &SendMessage{Queue: testQueue, Draft: NewDraft(Entry{Body: Text{Value: "x", Set: true}}), Follow: true,
			Call: Invocation{Hash: HashInvocation(nil), Later: i > 0}}).Sent.Mark
	}
	if marks[0] == "" || marks[0] != marks[1] {
		t.Errorf("the marks are %q and %q, want the same", marks[0], marks[1])
	}
}
