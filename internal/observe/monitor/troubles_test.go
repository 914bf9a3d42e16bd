package monitor

import (
	"strings"
	"sync"
	"testing"

	"tenaq/internal/observe/alarm"
)

// reports is what a cluster reports.
type reports struct {
	mu       sync.Mutex
	troubles []Trouble
}

func (r *reports) set(troubles ...Trouble) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.troubles = troubles
}

func (r *reports) get() []Trouble {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.troubles
}

// An alarm of the cluster is raised while its trouble is reported, with the report as reason, and
// goes to the actions of the built-in alarms. [ALARM-52]
func TestTroubles(t *testing.T) {
	cluster := &reports{}
	cfg := toQueue()
	cfg.Troubles = cluster.get
	bubble(t, cfg, func(w *world) {
		w.create(noticeQueue)
		w.minutes(2)
		w.wantChanges("")
		cluster.set(Trouble{"cluster/follower-behind", "Node 1 is behind."}, Trouble{"cluster/follower-behind", "Node 2 is behind."},
			Trouble{"cluster/unheard-of", "It is of another version."})
		w.minutes(2)
		w.wantChanges("cluster/follower-behind=ALARM")
		notices := w.notices()
		if len(notices) != 1 || !strings.Contains(notices[0], `"reason":"Node 1 is behind. Node 2 is behind."`) ||
			!strings.Contains(notices[0], "tenaq alarms ack cluster/follower-behind") {
			t.Errorf("got the notices %q", notices)
		}
		cluster.set(Trouble{"cluster/follower-behind", "Node 2 is behind."})
		w.minutes(1)
		if got := w.Status(); len(got) != 1 || got[0].Reason != "Node 2 is behind." || !got[0].Shipped {
			t.Errorf("got %+v, want the newest report", got)
		}

		// A new leader has its own view only after a while, and does not end the alarm before.
		w.stop()
		w.stop = nil
		cluster.set()
		w.start()
		w.minutes(1)
		w.wantChanges("cluster/follower-behind=ALARM")
		cluster.set(Trouble{"cluster/follower-behind", "Node 2 is behind."})
		w.minutes(2)
		w.wantChanges("cluster/follower-behind=ALARM")
		cluster.set()
		w.minutes(1)
		w.wantChanges("cluster/follower-behind=ALARM cluster/follower-behind=OK")
		if got := w.notices(); len(got) != 1 || !strings.Contains(got[0], "no longer reports it") {
			t.Errorf("got the notices %q, want the end", got)
		}
	})
}

// If the troubles come from a cluster that no longer exists, their alarms end. Without built-in
// alarms there are none.
func TestTroublesEnd(t *testing.T) {
	cluster := &reports{troubles: []Trouble{{"cluster/replica-stopped", "Node 1 has stopped."}}}
	bubble(t, Config{Troubles: cluster.get}, func(w *world) {
		w.minutes(2)
		w.wantChanges("cluster/replica-stopped=ALARM")
		w.cfg.Troubles = nil
		w.restart()
		w.minutes(3)
		for _, s := range w.Status() {
			if s.State != alarm.OK {
				t.Errorf("%s is %s on a single server", s.Name, s.State)
			}
		}
		w.cfg.Troubles, w.cfg.NoShipped = cluster.get, true
		w.restart()
		w.minutes(3)
		if got := w.Status(); len(got) != 0 {
			t.Errorf("without built-in alarms: got %+v", got)
		}
	})
}
