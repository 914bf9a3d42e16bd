package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"tenaq/internal/testing/proof"
	"tenaq/internal/work/extension"
	"testing"
)

// A caller that has made a survey and follows the news knows what another survey would report of
// every queue, whatever has left memory in the meantime. The news never mentions unused queues.
func TestNews(t *testing.T) {
	seed := proof.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, windowBytes := range []int{1, 20_000, 0} {
		r := newRig(t, Config{WindowBytes: windowBytes})
		r.do(&Start{})
		name := func() QueueName { return QueueName{Account: "a", Name: fmt.Sprintf("q%02d", rng.IntN(40))} }
		survey := func(watch bool) map[QueueName]Gauge {
			all := make(map[QueueName]Gauge)
			for after := (QueueName{}); ; {
				res := do(r, &Survey{After: after, Max: 7, Watch: watch})
				for _, g := range res.Gauges {
					all[g.Queue] = g
				}
				if !res.More {
					return all
				}
				after = res.Last
			}
		}
		known := survey(true)
		follow := func() (told int) {
			for {
				res := do(r, &News{Max: 7})
				for _, g := range res.Gauges {
					known[g.Queue] = g
				}
				for _, gone := range res.Gone {
					delete(known, gone)
				}
				told += len(res.Gauges) + len(res.Gone)
				if !res.More {
					return told
				}
			}
		}
		for range 300 {
			for range rng.IntN(20) {
				r.now += rng.Int64N(3000)
				q := name()
				switch rng.IntN(10) { // what is refused, because there is no such queue, changes nothing
				case 0, 1:
					_ = r.apply(&CreateQueue{Queue: q, NameSet: true})
				case 2:
					_ = r.apply(&DeleteQueue{Queue: q})
				case 3:
					_ = r.apply(&SetQueueAttributes{Queue: q, Values: map[string]string{"VisibilityTimeout": fmt.Sprint(rng.IntN(100))}})
				case 8:
					_ = r.apply(&TagQueue{Queue: q, Tags: []Tag{{Key: extension.Paused, Value: "true"}}})
				case 9:
					_ = r.apply(&UntagQueue{Queue: q, Keys: []string{extension.Paused}})
				case 4:
					_ = r.apply(&PurgeQueue{Queue: q})
				case 5, 6:
					_ = r.apply(&SendMessage{Queue: q, Draft: NewDraft(Entry{Body: Text{Value: "x", Set: true}})})
				case 7:
					op := &ReceiveMessage{Queue: q, Visibility: Int{Value: 5, Set: true}}
					_ = r.apply(op)
					for _, d := range op.Messages {
						h := Handle{Text: "h", Valid: true, Incarnation: op.Incarnation, Space: d.Space, Seq: d.Seq, Generation: d.Generation}
						r.do(&DeleteMessage{Queue: q, Handle: h})
					}
				}
			}
			follow()
			if want := survey(false); !maps.Equal(known, want) {
				t.Fatalf("windows of %d bytes: the news have told of\n%v\nand a survey tells of\n%v", windowBytes, known, want)
			}
		}
		for q := range known {
			r.do(&PurgeQueue{Queue: q})
		}
		follow()
		follow()
		survey(false)
		r.do(&Sweep{Max: 100})
		if told := follow(); told != 0 || len(r.news.has) != 0 || len(r.news.names) != 0 {
			t.Errorf("windows of %d bytes: the news tell of %d queues that nobody uses", windowBytes, told)
		}
	}
}
