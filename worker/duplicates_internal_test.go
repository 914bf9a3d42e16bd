package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

// Knowledge about a duplicate ends with its pause, however long the holder works.
func TestDuplicatesForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d duplicates
		for range 3 {
			d.hidden("a", d.expect("a", "handle"), time.Now().Add(time.Minute))
		}
		d.forget("b", d.expect("b", "handle"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(d.keys) != 0 {
			t.Errorf("left: %v", d.keys)
		}
		if got := d.complete("a"); len(got) != 0 {
			t.Errorf("to be shown: %q", got)
		}
	})
}
