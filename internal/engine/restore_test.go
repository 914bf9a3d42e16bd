package engine

import "testing"

// A copy of a store whose server had stopped in order starts as after a crash, so that what is in
// flight in it is given the grace. [DUR-32]
func TestNoteInterrupted(t *testing.T) {
	for _, clean := range []bool{true, false} {
		r := newRig(t, Config{})
		r.do(&Start{})
		r.do(&Stamp{Clean: clean})
		boot := r.sys.Boot
		b := r.store.NewBatch()
		NoteInterrupted(r.store, b)
		b.Force()()
		r.Engine = Open(r.store, r.cfg)
		r.now += 5000
		r.do(&Start{Grace: 60_000})
		if r.sys.Boot != boot+1 || r.sys.GraceUntil <= r.now {
			t.Errorf("after a clean stop, %v: boot %d after %d, grace until %d, now %d", clean, r.sys.Boot, boot, r.sys.GraceUntil, r.now)
		}
	}
}
