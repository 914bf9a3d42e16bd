package recordstest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/records"
	"tenaq/records/recordstest"
)

// put is a Put whose answer is judged by its version; version zero means an error.
func put(t *testing.T, s records.Store, key string, version records.Version) (records.Version, error) {
	t.Helper()
	r, err := s.Put(t.Context(), records.Write{Key: key, Value: []byte("v"), If: version})
	if (r.Version == 0) != (err != nil) {
		t.Errorf("put %s = version %d, %v", key, r.Version, err)
	}
	return r.Version, err
}

// there says whether a store has a record.
func there(t *testing.T, s records.Store, key string) bool {
	t.Helper()
	_, err := s.Get(t.Context(), key)
	if err != nil && !errors.Is(err, records.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

func TestFaults(t *testing.T) {
	own := errors.New("of my own")
	for _, tt := range []struct {
		name  string
		fault recordstest.Fault
		err   error
		takes time.Duration // until the answer
		soon  bool          // it has taken effect by then
		ever  bool          // and this long after all
	}{
		{"Works", recordstest.Fault{}, nil, 0, true, true},
		{"Slow", recordstest.Fault{Delay: time.Minute}, nil, time.Minute, true, true},
		{"Before", recordstest.Fault{How: recordstest.Before}, recordstest.ErrInjected, 0, false, false},
		{"After", recordstest.Fault{How: recordstest.After, Err: own}, own, 0, true, true},
		{"SlowAfter", recordstest.Fault{How: recordstest.After, Delay: time.Second}, recordstest.ErrInjected, time.Second, true, true},
		{"Late", recordstest.Fault{How: recordstest.Late, LateBy: time.Hour}, recordstest.ErrInjected, 0, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := recordstest.NewMemory()
				s := &recordstest.Faulty{Store: m, Fault: recordstest.Script(map[int]recordstest.Fault{1: tt.fault})}
				start := time.Now()
				if _, err := put(t, s, "a", 0); !errors.Is(err, tt.err) {
					t.Errorf("put: %v, want %v", err, tt.err)
				}
				if took := time.Since(start); took != tt.takes {
					t.Errorf("put took %v, want %v", took, tt.takes)
				}
				if got := there(t, m, "a"); got != tt.soon {
					t.Errorf("the record is there when the call returns: %v, want %v", got, tt.soon)
				}
				if _, err := put(t, s, "b", 0); err != nil {
					t.Errorf("the second call: %v, want no fault", err)
				}
				if err := s.Close(); err != nil { // which waits
					t.Error(err)
				}
				if got := there(t, m, "a"); got != tt.ever {
					t.Errorf("the record is there in the end: %v, want %v", got, tt.ever)
				}
				if got := s.Calls(); got != 2 {
					t.Errorf("%d calls, want 2", got)
				}
			})
		})
	}
}

// Every method fails before and after, and after means that it has taken effect.
func TestEveryMethodFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, m := t.Context(), recordstest.NewMemory()
		var how recordstest.How
		var calls []recordstest.Call
		s := &recordstest.Faulty{Store: m, Fault: func(c recordstest.Call) recordstest.Fault {
			calls = append(calls, c)
			return recordstest.Fault{How: how}
		}}
		for _, how = range []recordstest.How{recordstest.Before, recordstest.After} {
			kept, err := m.Put(ctx, records.Write{Key: "kept", If: version(m, "kept")})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Put(ctx, records.Write{Key: "expired", TTL: 1}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			calls = nil
			for op, call := range map[recordstest.Op]func() error{
				recordstest.Get:    func() error { _, err := s.Get(ctx, "kept"); return err },
				recordstest.Put:    func() error { _, err := s.Put(ctx, records.Write{Key: "new"}); return err },
				recordstest.Delete: func() error { return s.Delete(ctx, "kept", kept.Version) },
				recordstest.List:   func() error { _, err := s.List(ctx, "k", "", 0); return err },
				recordstest.Sweep:  func() error { _, err := s.Sweep(ctx, 10); return err },
			} {
				if err := call(); !errors.Is(err, recordstest.ErrInjected) {
					t.Errorf("%s: %v, want %v", op, err, recordstest.ErrInjected)
				}
				last := calls[len(calls)-1]
				if last.Op != op || last.N != s.Calls() {
					t.Errorf("%s was call %+v", op, last)
				}
			}
			applied := how == recordstest.After
			if got := there(t, m, "new"); got != applied {
				t.Errorf("%v: the new record is there: %v", how, got)
			}
			if got := there(t, m, "kept"); got == applied {
				t.Errorf("%v: the deleted record is there: %v", how, got)
			}
			if n, _ := m.Sweep(ctx, 10); (n == 0) != applied {
				t.Errorf("%v: %d expired records were left", how, n)
			}
		}
	})
}

func version(s records.Store, key string) records.Version {
	r, _ := s.Get(context.Background(), key)
	return r.Version
}

// A slow call gives up with its context, and a call whose context has ended does nothing however it
// is to fail.
func TestFaultsAndContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := recordstest.NewMemory()
		s := &recordstest.Faulty{Store: m, Fault: recordstest.Script(map[int]recordstest.Fault{
			1: {Delay: time.Hour},
			2: {How: recordstest.After},
			3: {How: recordstest.Late},
		})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		for range 3 {
			_, err := s.Put(ctx, records.Write{Key: "a"})
			if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
				t.Errorf("put: %v after %v, want %v after a minute", err, took, context.DeadlineExceeded)
			}
		}
		s.Close()
		if there(t, m, "a") {
			t.Error("a put took effect whose context had ended")
		}
	})
}

// A late call finds what others wrote in the meantime, and carries the value from when it was made.
func TestLateLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := recordstest.NewMemory()
		s := &recordstest.Faulty{Store: m, Fault: recordstest.Script(map[int]recordstest.Fault{
			1: {How: recordstest.Late, LateBy: time.Second},
			2: {How: recordstest.Late, LateBy: time.Second},
		})}
		value := []byte("mine")
		for _, key := range []string{"lost", "won"} {
			if _, err := s.Put(t.Context(), records.Write{Key: key, Value: value}); !errors.Is(err, recordstest.ErrInjected) {
				t.Error(err)
			}
		}
		copy(value, "gone")
		if _, err := put(t, m, "lost", 0); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		for key, want := range map[string]string{"lost": "v", "won": "mine"} {
			if r, err := m.Get(t.Context(), key); err != nil || string(r.Value) != want {
				t.Errorf("%s = %q, %v, want %q", key, r.Value, err, want)
			}
		}
		s.Close()
	})
}

// Every answer that has an age has it by the clock of the wrapper.
func TestSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := recordstest.NewMemory()
		v, err := put(t, m, "a", 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, tt := range []struct {
			store *recordstest.Faulty
			want  time.Duration
		}{
			{&recordstest.Faulty{Store: m}, time.Minute},
			{&recordstest.Faulty{Store: m, Skew: time.Hour}, time.Hour + time.Minute},
			{&recordstest.Faulty{Store: m, Skew: -time.Second}, 59 * time.Second},
			{&recordstest.Faulty{Store: m, Skew: -time.Hour}, 0},
			{&recordstest.Faulty{Store: m, NoClock: true, Skew: time.Hour}, records.AgeUnknown},
			{&recordstest.Faulty{Store: &recordstest.Faulty{Store: m, NoClock: true}, Skew: time.Hour}, records.AgeUnknown},
		} {
			s := tt.store
			ages := map[string]time.Duration{}
			r, _ := s.Get(t.Context(), "a")
			ages["get"] = r.Age
			rs, _ := s.List(t.Context(), "", "", 0)
			ages["list"] = rs[0].Age
			var c *records.Conflict
			_, err := s.Put(t.Context(), records.Write{Key: "a"})
			if errors.As(err, &c) {
				ages["put"] = c.Current.Age
			}
			if errors.As(s.Delete(t.Context(), "a", v+1), &c) {
				ages["delete"] = c.Current.Age
			}
			for _, call := range []string{"get", "list", "put", "delete"} {
				if got, ok := ages[call]; !ok || got != tt.want {
					t.Errorf("skew %v, no clock %v: %s answers age %v, want %v", s.Skew, s.NoClock, call, got, tt.want)
				}
			}
			if errors.As(s.Delete(t.Context(), "none", 1), &c); c.Current.Age != 0 {
				t.Errorf("nothing has age %v", c.Current.Age)
			}
		}
	})
}

// Each trouble comes about as often as it was asked for, and the same again with the same seed.
func TestSometimes(t *testing.T) {
	t.Setenv("TENAQ_SEED", "7")
	chances := recordstest.Chances{Before: 0.1, After: 0.2, Late: 0.3, Slow: 0.5, DelayMax: time.Second}
	first, second := recordstest.Sometimes(t, chances), recordstest.Sometimes(t, chances)
	const n = 10_000
	count, slow := map[recordstest.How]int{}, 0
	for range n {
		f := first(recordstest.Call{})
		if again := second(recordstest.Call{}); f != again {
			t.Fatalf("the same seed gives %+v and %+v", f, again)
		}
		count[f.How]++
		if f.Delay > 0 {
			slow++
		}
		if f.Delay < 0 || f.Delay >= time.Second || f.LateBy < 0 || f.LateBy >= time.Second {
			t.Fatalf("fault %+v is out of bounds", f)
		}
	}
	for how, want := range map[recordstest.How]float64{
		recordstest.Works: 0.4, recordstest.Before: 0.1, recordstest.After: 0.2, recordstest.Late: 0.3,
	} {
		if got := float64(count[how]) / n; got < want-0.03 || got > want+0.03 {
			t.Errorf("%.3f of the calls fail in way %d, want %.1f", got, how, want)
		}
	}
	if got := float64(slow) / n; got < 0.47 || got > 0.53 {
		t.Errorf("%.3f of the calls are slow, want 0.5", got)
	}
}
