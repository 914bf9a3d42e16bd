package group

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// Broker time continues while no node leads. The last write of a leader that dies at once is
// applied by the next one only when that leads; it was stamped when the first one made it.
func TestTimeWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rand.New(rand.NewPCG(1, 1)))
		defer r.close()
		for _, n := range r.nodes {
			n.wall.Store(0)
		}
		r.create()
		r.send("s", 1)
		leader := r.leader()
		leader.cutPower()
		died := time.Now()
		r.leader()
		if away := time.Since(died); away < 1200*time.Millisecond {
			t.Fatalf("the next leader serves after %v, too early to mean anything", away)
		}
		if x := r.takeovers[len(r.takeovers)-1]; x.least < -100*time.Millisecond {
			t.Errorf("broker time is %v behind the true time at the takeover, want none", -x.least)
		}
	})
}
