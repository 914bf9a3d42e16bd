package recordstest_test

import (
	"testing"

	"tenaq/records"
	"tenaq/records/recordstest"
)

// inMemory opens one Memory again and again, through wrap if that is not nil.
func inMemory(wrap func(m *recordstest.Memory) records.Store) func(t testing.TB) recordstest.Backend {
	return func(testing.TB) recordstest.Backend {
		m := recordstest.NewMemory()
		return recordstest.Backend{Open: func(testing.TB) records.Store {
			if wrap == nil {
				return m
			}
			return wrap(m)
		}}
	}
}

func TestMemory(t *testing.T)        { recordstest.RunVirtual(t, inMemory(nil)) }
func TestFaultyWithout(t *testing.T) { recordstest.RunVirtual(t, inMemory(wrapped(false))) }

func TestMemoryInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for records to expire")
	}
	recordstest.Run(t, inMemory(nil))
}

// A store without a clock is one too, and the suite knows.
func TestNoClock(t *testing.T) {
	fresh := inMemory(wrapped(true))
	recordstest.RunVirtual(t, func(t testing.TB) recordstest.Backend {
		b := fresh(t)
		b.NoClock = true
		return b
	})
}

func wrapped(noClock bool) func(m *recordstest.Memory) records.Store {
	return func(m *recordstest.Memory) records.Store {
		return &recordstest.Faulty{Store: m, NoClock: noClock}
	}
}
