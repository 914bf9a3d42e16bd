package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/claims"
	"tenaq/internal/testing/proof"
	"tenaq/outbox"
	"tenaq/outbox/outboxtest"
	"tenaq/records/recordstest"
	"tenaq/worker"
)

// allOfIt is a source of everything that was ever sent.
var allOfIt = outbox.Source{From: time.Unix(0, 0), To: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}

// replayer makes one, of everything unless the test says otherwise.
func (r *rig) replayer(change func(*outbox.ReplayConfig)) *outbox.Replayer {
	r.t.Helper()
	cfg := outbox.ReplayConfig{Box: r.box, Source: allOfIt, Rate: 1000, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	replayer, err := outbox.NewReplayer(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return replayer
}

// replay runs one to its end.
func (r *rig) replay(change func(*outbox.ReplayConfig)) outbox.Replay {
	r.t.Helper()
	done, err := r.replayer(change).Run(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return done
}

// work runs a worker on a queue, which notes what its handler is called with.
func (r *rig) work(url string, ledger *claims.Ledger) {
	r.t.Helper()
	w, err := worker.New(worker.Config{
		Client: r.server.Client(), QueueURL: url, Claims: ledger, Logger: slog.New(slog.DiscardHandler),
		Handler: worker.HandlerFunc(func(_ context.Context, m *worker.Message) error {
			r.note("worked %s #%d", m.Body, m.Generation)
			if strings.HasPrefix(m.Body, "hard") && r.count("worked "+m.Body) == 1 {
				return errors.New("not this time")
			}
			return nil
		}),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

func (r *rig) ledger(store *recordstest.Memory) *claims.Ledger {
	r.t.Helper()
	l, err := claims.New(claims.Config{Store: store})
	if err != nil {
		r.t.Fatal(err)
	}
	return l
}

// noted are the events of a kind since the last time, sorted.
func (r *rig) noted(kind string) (what []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = slices.DeleteFunc(r.log, func(l string) bool {
		rest, is := strings.CutPrefix(l, kind+" ")
		if is {
			what = append(what, rest)
		}
		return is
	})
	slices.Sort(what)
	return what
}

func (r *rig) wantNoted(kind string, want ...string) {
	r.t.Helper()
	if got := r.noted(kind); !slices.Equal(got, want) {
		r.t.Errorf("%s %q, want %q", kind, got, want)
	}
}

// Workers with a ledger skip a job that is inserted once more. They do the work of a replay, and
// again for each further replay; work of one generation is done once.
func TestReplayRuns_FD6(t *testing.T) {
	for _, queue := range []string{"jobs", "jobs.fifo"} {
		inBubble(t, func(t *testing.T, r *rig) {
			url := r.server.Queue(t, queue)
			r.start(nil)
			r.work(url, r.ledger(recordstest.NewMemory()))
			job := func(name string) outbox.Message {
				return outbox.Message{Queue: queue, Key: name, Body: name, Dedup: "job-" + name}
			}
			r.enqueue(job("a"), job("b"))
			r.sleep(time.Minute)
			r.wantNoted("worked", "a #0", "b #0")

			r.sleep(10 * time.Minute) // for the FIFO queue to have forgotten
			r.enqueue(job("a"), job("b"))
			r.sleep(time.Minute)
			r.wantNoted("worked") // which is the flaw

			done := r.replay(nil)
			r.sleep(time.Minute)
			r.wantNoted("worked", "a #1", "b #1")
			if done.State != outbox.Done || done.Found != 4 || done.Written != 2 || done.Read != 4 {
				t.Errorf("the replay is %+v", done)
			}
			r.replay(nil) // of what was replayed, too, which is the same work
			r.sleep(time.Minute)
			r.wantNoted("worked", "a #2", "b #2")

			r.enqueue(outbox.Message{Queue: queue, Key: "c", Body: "c", Generation: 7})
			r.sleep(time.Minute)
			r.wantNoted("worked", "c #7")
			r.replay(nil)
			r.sleep(time.Minute)
			r.wantNoted("worked", "a #8", "b #8", "c #8") // later than all of them
			r.replay(nil)
			r.sleep(time.Minute)
			r.wantNoted("worked", "a #9", "b #9", "c #9")
			r.replay(func(c *outbox.ReplayConfig) { c.Generation = 20 })
			r.sleep(time.Minute)
			r.wantNoted("worked", "a #20", "b #20", "c #20")
		})
	}
}

// Work that was never completed is sent with its old identity, and the rest is left alone.
func TestReplayMissing_FD6(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs")
		store := recordstest.NewMemory()
		ledger := r.ledger(store)
		r.start(nil)
		for i := range 10 {
			r.enqueue(outbox.Message{Queue: "jobs", Key: fmt.Sprint(i), Body: fmt.Sprint("job ", i), Dedup: fmt.Sprint("job-", i)})
		}
		r.enqueue(outbox.Message{Queue: "jobs", Key: "h", Body: "hard", Dedup: "hard-1", Generation: 2})
		r.sleep(time.Second)
		r.received(url) // an accident: no worker handles the first ones
		r.work(url, ledger)
		r.enqueue(outbox.Message{Queue: "jobs", Key: "x", Body: "fine", Dedup: "fine-1", Generation: 4})
		r.sleep(time.Minute)
		r.wantNoted("worked", "fine #4")

		plan, err := r.replayer(func(c *outbox.ReplayConfig) { c.MissingOnly, c.Ledger = true, ledger }).Plan(t.Context(), 3)
		if err != nil || plan.Count != 12 || len(plan.First) != 3 || plan.Works != 12 || plan.Read != 12 || plan.Completed != 1 || plan.Written != 11 {
			t.Errorf("the plan is %+v, %v", plan, err)
		}
		done := r.replay(func(c *outbox.ReplayConfig) { c.MissingOnly, c.Ledger = true, ledger })
		if done.Written != 11 || done.Completed != 1 {
			t.Errorf("the replay is %+v", done)
		}
		r.sleep(10 * time.Minute)
		got := r.noted("worked")
		if len(got) != 12 || got[0] != "hard #2" || got[1] != "hard #2" || got[2] != "job 0 #0" {
			t.Errorf("worked %q", got)
		}
		if done := r.replay(func(c *outbox.ReplayConfig) { c.MissingOnly, c.Ledger = true, ledger }); done.Written != 0 || done.Completed != done.Found {
			t.Errorf("another replay is %+v", done)
		}
		r.sleep(time.Minute)
		r.wantNoted("worked")

		// Work that a replay completed in a new generation does not count as missing in the old
		// one.
		r.enqueue(outbox.Message{Queue: "lost", Key: "l", Body: "lost", Dedup: "lost-1"}, outbox.Message{Queue: "lost", Key: "m", Body: "lost too", Dedup: "lost-2"})
		lost := r.server.Queue(t, "lost")
		r.sleep(2 * time.Minute)
		r.received(lost)
		only := func(c *outbox.ReplayConfig) { c.Source.Queues, c.Lane = []string{"lost"}, "jobs" }
		r.replay(only)
		r.sleep(time.Minute)
		r.noted("worked")
		if done := r.replay(func(c *outbox.ReplayConfig) { only(c); c.MissingOnly, c.Ledger = true, ledger }); done.Written != 0 || done.Completed != 2 {
			t.Errorf("after a replay the gap is %+v", done)
		}

		// Work that is missing in both generations is sent in the later one only.
		r.enqueue(outbox.Message{Queue: "lost", Key: "n", Body: "twice", Dedup: "lost-3"})
		r.sleep(2 * time.Minute)
		r.received(lost)
		r.replay(func(c *outbox.ReplayConfig) { c.Source.Queues, c.Source.Keys = []string{"lost"}, []string{"n"} })
		r.sleep(time.Minute)
		r.received(lost)
		again := func(c *outbox.ReplayConfig) {
			only(c)
			c.Source.Keys, c.MissingOnly, c.Ledger = []string{"n"}, true, ledger
		}
		plan, err = r.replayer(again).Plan(t.Context(), 3)
		if err != nil || plan.Count != 2 || plan.Written != 1 || plan.Later != 1 || len(plan.First) != 1 || plan.First[0].Generation == 0 {
			t.Errorf("the plan is %+v, %v", plan, err)
		}
		if done := r.replay(again); done.Written != 1 || done.Later != 1 {
			t.Errorf("the replay is %+v", done)
		}
		r.sleep(time.Minute)
		if got := r.noted("worked"); len(got) != 1 || got[0] == "twice #0" {
			t.Errorf("worked %q", got)
		}
	})
}

// A FIFO queue does not drop a replay, even within five minutes of the first send or of another
// replay.
func TestReplayInWindow_FD7(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs.fifo")
		stop := r.start(nil)
		r.enqueue(outbox.Message{Queue: "jobs.fifo", Key: "k", Body: "a"}, outbox.Message{Queue: "jobs.fifo", Key: "k", Body: "b", Dedup: "d"})
		r.sleep(time.Second)
		for i := range 3 {
			if got := bodies(r.received(url)); !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("received %q the time after %d replays", got, i)
			}
			r.replay(nil)
			r.sleep(time.Second)
		}

		// In another lane the order is the same one.
		stop()
		r.replay(func(c *outbox.ReplayConfig) { c.Lane = "lane"; c.Source.To = time.Now() })
		rows, _, err := r.box.Claim(t.Context(), outbox.Claim{Relay: "r", Lease: time.Minute, Rows: 10, Bytes: 100, Stream: 10})
		if err != nil || len(rows) == 0 || rows[0].Queue != "lane" || rows[0].Group != "k" {
			t.Errorf("in another lane there is %+v, %v", rows, err)
		}
	})
}

// A replay sends the messages as they were sent, in their order, not the present state of business
// tables, and marks them as a replay.
func TestReplayIsWhatWasSent_FD8(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "orders.fifo")
		r.server.Queue(t, "mails")
		r.start(func(c *outbox.Config) { c.Queues = map[string]string{"orders": url} })
		var want []string
		for i := range 500 {
			body := fmt.Sprintf(`{"version": %d}`, i)
			want = append(want, body)
			m := outbox.Message{
				Queue: "orders", Key: "17", Group: "g", Type: "changed", Body: body,
				Headers: map[string]string{"traceparent": "00-1", "tenant": "t"}, After: time.Now().Add(time.Minute),
			}
			r.enqueue(m, outbox.Message{Queue: "mails", Body: body})
		}
		r.sleep(2 * time.Minute)
		if got := bodies(r.received(url)); !slices.Equal(got, want) {
			t.Fatalf("received %d messages, want %d in order", len(got), len(want))
		}
		plan, err := r.replayer(func(c *outbox.ReplayConfig) { c.Source.Queues = []string{"orders"} }).Plan(t.Context(), 2)
		if err != nil || plan.Count != 500 || len(plan.First) != 2 || plan.First[1].Body != want[1] || plan.First[0].MessageID == "" {
			t.Errorf("the plan is %+v, %v", plan, err)
		}
		if done := r.replay(func(c *outbox.ReplayConfig) { c.Source.Queues = []string{"orders"} }); done.Found != 500 {
			t.Errorf("the replay is %+v", done)
		}
		r.sleep(time.Minute)
		got := r.received(url)
		if !slices.Equal(bodies(got), want) {
			t.Errorf("received %d messages, want %d in order", len(got), len(want))
		}
		for name, want := range map[string]string{"type": "changed", "tenant": "t", "traceparent": "00-1", outbox.ReplayHeader: "1"} {
			if a, ok := got[7].MessageAttributes[name]; !ok || *a.StringValue != want {
				t.Errorf("a message that was replayed has no attribute %q with %q", name, want)
			}
		}

		// A header more than there is room for is left out, and the replay is not held up.
		full := make(map[string]string)
		for i := range outbox.HeadersMax {
			full[fmt.Sprint("h", i)] = "v"
		}
		from := time.Now()
		r.enqueue(outbox.Message{Queue: "orders", Group: "g", Body: "full", Headers: full})
		r.sleep(time.Second)
		r.replay(func(c *outbox.ReplayConfig) { c.Source.From = from })
		r.sleep(time.Second)
		if got := r.received(url); len(got) != 2 || len(got[1].MessageAttributes) != len(got[0].MessageAttributes) {
			t.Errorf("received %q", bodies(got))
		}
	})
}

// A replay goes at its rate, stops while the relays do not keep up, can be sent another way,
// cancelled, and leaves word of who did it.
func TestReplayBesideLive_FD9(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url, lane := r.server.Queue(t, "jobs"), r.server.Queue(t, "lane.fifo")
		stop := r.start(nil)
		for i := range 1000 {
			r.enqueue(outbox.Message{Queue: "jobs", Key: fmt.Sprint("k", i%5), Body: fmt.Sprint(i)})
		}
		r.sleep(time.Minute)
		r.received(url)

		begun := time.Now()
		done := r.replay(func(c *outbox.ReplayConfig) {
			c.Rate, c.By, c.Note, c.Lane = 20, "me", "a bug", "lane.fifo"
			c.Progress = func(record outbox.Replay) {
				most := 20*time.Since(begun).Seconds() + 20
				if float64(record.Written) > most {
					t.Errorf("after %v there are %d rows", time.Since(begun), record.Written)
				}
			}
		})
		if took := time.Since(begun); took < 49*time.Second || took > 52*time.Second {
			t.Errorf("1,000 messages at 20 per second took %v", took)
		}
		r.sleep(time.Second)
		if n, m := len(r.received(url)), len(r.received(lane)); n != 0 || m != 1000 {
			t.Errorf("the queue got %d messages and the lane %d", n, m)
		}
		if record, err := r.box.Replay(t.Context(), done.Number); err != nil || record.By != "me" || record.Note != "a bug" || record.Written != 1000 {
			t.Errorf("the record is %+v, %v", record, err)
		}

		// Without a relay it does not fill the outbox, and learns that it is cancelled.
		stop()
		replayer := r.replayer(func(c *outbox.ReplayConfig) { c.Ahead = 100; c.Source.Queues = []string{"jobs"} })
		ended := make(chan outbox.Replay)
		go func() {
			record, err := replayer.Run(context.Background())
			if err != nil {
				t.Error(err)
			}
			ended <- record
		}()
		r.sleep(10 * time.Minute)
		s, err := r.box.Stats(t.Context())
		if err != nil || s.Pending < 100 || s.Pending > 100+200+200 {
			t.Errorf("%d rows are pending, %v", s.Pending, err)
		}
		if _, err := outbox.CancelReplay(t.Context(), r.box, 2, "me: enough"); err != nil {
			t.Error(err)
		}
		if record := <-ended; record.State != outbox.Cancelled || record.Ended != "me: enough" || record.Written != s.Pending {
			t.Errorf("the replay is %+v", record)
		}
		if _, err := outbox.CancelReplay(t.Context(), r.box, 2, "me: again"); err == nil {
			t.Error("a replay is cancelled twice")
		}
		if _, err := replayer.Continue(t.Context(), 2); err == nil {
			t.Error("a replay that was cancelled goes on")
		}
		r.start(nil)
		r.sleep(time.Minute)
		if n := len(r.received(url)); n != s.Pending {
			t.Errorf("%d messages were sent, want the %d that were written", n, s.Pending)
		}
	})
}

// A replay that is killed again and again, on a database with faults, and continued by others,
// sometimes by two at once, sends everything, and every work once.
func TestReplayStorm(t *testing.T) {
	seed := proof.Seed(t)
	for i := range uint64(5) {
		inBubble(t, func(t *testing.T, r *rig) {
			dice := &dice{random: rand.New(rand.NewPCG(seed, i))}
			queue := []string{"jobs", "jobs.fifo"}[i%2]
			url := r.server.Queue(t, queue)
			r.start(nil)
			want := make(map[string]int)
			for n := range 300 {
				body := fmt.Sprint(n)
				want[body] = 1
				for range 1 + dice.die(2) { // some of them twice
					r.enqueue(outbox.Message{Queue: queue, Key: fmt.Sprint("k", n%7), Body: body, Dedup: "d" + body})
				}
			}
			r.sleep(time.Minute)
			r.received(url)
			r.box.SetFault(func(string) error {
				if dice.one(8) {
					return outboxtest.ErrInjected
				}
				return nil
			})
			ended := make(chan error)
			running, number := 0, int64(0)
			begin := func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(dice.die(5000))*time.Millisecond)
				replayer := r.replayer(func(c *outbox.ReplayConfig) { c.Rate = 100 })
				mine := number
				running++
				go func() {
					defer cancel()
					var err error
					if mine == 0 {
						_, err = replayer.Run(ctx)
					} else {
						_, err = replayer.Continue(ctx, mine)
					}
					ended <- err
				}()
			}
			for {
				all, err := r.box.Replays(t.Context(), 1)
				if errors.Is(err, outboxtest.ErrInjected) {
					continue
				}
				if len(all) > 0 {
					if number = all[0].Number; all[0].State == outbox.Done {
						break
					}
				}
				if running < 1+dice.die(2) {
					begin()
					if number == 0 {
						<-ended
						running--
					}
					continue
				}
				err = <-ended
				running--
				if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, outbox.ErrMoved) && !errors.Is(err, outboxtest.ErrInjected) &&
					!strings.Contains(err.Error(), "is done") {
					t.Errorf("case %d: %v", i, err)
				}
			}
			for range running {
				<-ended
			}
			dice.end()
			r.sleep(5 * time.Minute)
			got := make(map[string]int)
			for _, body := range bodies(r.received(url)) {
				got[body]++
			}
			if !maps.Equal(got, want) {
				t.Errorf("case %d: %d messages were replayed, want %d, each once: %v", i, len(got), len(want), got)
			}
			all, err := r.box.Replays(t.Context(), 10)
			if err != nil || len(all) != 1 || all[0].Written != 300 || all[0].Read != all[0].Found {
				t.Errorf("case %d: the replays are %+v, %v", i, all, err)
			}
		})
	}
}

// If two processes run the same replay, the first one stops. If a process gets no answer to a
// write, it finds out whether it has written.
func TestReplayHands(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.server.Queue(t, "jobs")
		stop := r.start(nil)
		for i := range 500 {
			r.enqueue(outbox.Message{Queue: "jobs", Body: fmt.Sprint(i)})
		}
		r.sleep(time.Minute)
		unheard := make(map[string]int)
		r.box.SetFault(func(call string) error {
			if unheard[call]++; strings.HasSuffix(call, "+") && call != "BeginReplay+" && unheard[call]%2 == 1 {
				return outboxtest.ErrInjected
			}
			return nil
		})
		if done := r.replay(nil); done.State != outbox.Done || done.Written != 500 {
			t.Errorf("the replay is %+v", done)
		}
		r.box.SetFault(nil)
		r.sleep(time.Minute)
		stop()

		ended := make(chan error)
		first := r.replayer(func(c *outbox.ReplayConfig) { c.Ahead = 10 })
		go func() {
			record, err := first.Run(context.Background())
			if record.Number != 2 {
				t.Errorf("the replay is %+v", record)
			}
			ended <- err
		}()
		r.sleep(time.Minute) // it waits: no relay runs
		second, err := r.replayer(func(c *outbox.ReplayConfig) { c.Rate, c.Ahead = 500, 1000 }).Continue(t.Context(), 2)
		if err != nil || second.State != outbox.Done || second.Rate != 500 || second.Written != 500 {
			t.Errorf("the replay is %+v, %v", second, err)
		}
		if err := <-ended; !errors.Is(err, outbox.ErrMoved) {
			t.Errorf("the first one ends with %v, want ErrMoved", err)
		}
	})
}

// A message that cannot be sent is found before anything is sent, and nothing is left half done.
func TestReplayRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs")
		r.start(nil)
		for i := range 300 {
			r.enqueue(outbox.Message{Queue: "jobs", Key: fmt.Sprint("k", i), Body: "b"})
		}
		r.enqueue(outbox.Message{Queue: "jobs", Body: "without a key"})
		r.sleep(time.Second)
		r.received(url)
		change := func(c *outbox.ReplayConfig) { c.Lane = "lane.fifo" }
		if _, err := r.replayer(change).Plan(t.Context(), 1000); !errors.Is(err, outbox.ErrSource) {
			t.Errorf("plan: %v, want ErrSource", err)
		}
		record, err := r.replayer(change).Run(t.Context())
		if !errors.Is(err, outbox.ErrSource) || record.State != outbox.Cancelled || record.Written != 0 || !strings.Contains(record.Ended, "group") {
			t.Errorf("%v, %+v", err, record)
		}
		r.wantStats(0, 0)
		for _, change := range []func(c *outbox.ReplayConfig){
			func(c *outbox.ReplayConfig) { c.Source = outbox.Source{} },
			func(c *outbox.ReplayConfig) { c.Source.From, c.Source.To = c.Source.To, c.Source.From },
			func(c *outbox.ReplayConfig) { c.Source.Query = "SELECT" },
		} {
			replayer := r.replayer(change)
			if _, err := replayer.Plan(t.Context(), 1); err == nil {
				t.Error("a source without sense is planned")
			}
			if record, err := replayer.Run(t.Context()); err == nil || record.Number != 0 {
				t.Error("a source without sense is replayed")
			}
		}
		for _, cfg := range []outbox.ReplayConfig{
			{}, {Box: r.box, MissingOnly: true}, {Box: r.box, Rate: -1}, {Box: r.box, Rate: 1e9}, {Box: r.box, Generation: -1}, {Box: r.box, Ahead: -1}, {Box: r.box, Generation: -1},
		} {
			if _, err := outbox.NewReplayer(cfg); err == nil {
				t.Errorf("%+v is taken", cfg)
			}
		}
		synctest.Wait()
	})
}
