package outbox

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/backoff"
	"tenaq/internal/work/clip"
	"tenaq/internal/work/queuename"
)

// A flow is one run of a relay: rows are claimed, sent and settled. One goroutine owns its fields;
// those that talk to the database and to queues report to it.
//
//	claim ──▶ hand: ready ──▶ under way ──▶ unsettled ──▶ settle
//	               └ behind a row of their stream
//
// A row leaves the hand when its outcome is known, and the relay forgets it when that is written
// down.
type flow struct {
	*Relay
	name string

	hand   map[string]*item  // by id of the row
	bytes  int               // of what is in hand
	queues map[string]*queue // by the name that rows use
	// what is in hand of each stream, in order; the first one's turn it is
	streams map[string][]*item

	requests int // under way
	answers  chan answer
	claiming bool // a claim is under way
	claims   chan claimed
	waiting  bool // for rows
	waits    chan struct{}

	stopWaiting context.CancelFunc // nil when it would be in vain
	lookAfter   time.Time          // no claim before
	poll        time.Duration      // of the next wait
	unsettled   []Outcome
	writing     int // outcomes that are being written down
	settles     chan settled
	settleAt    time.Time // no settling before
	asked       int       // claims so far
	renewing    bool
	renewals    chan renewal
	renewAt     time.Time
	failures    map[string]int // in a row, by what failed
	stopping    bool
	drain       *drain // nil for a relay that runs until it is stopped
}

// An item is a row in hand.
type item struct {
	row      Row
	entry    types.SendMessageBatchRequestEntry
	bytes    int       // in memory
	size     int       // in a request
	deadline time.Time // the lease may be relied on until then
	since    time.Time // when it was asked for
	away     bool      // a request with it is under way
	// it was in a batch that was refused as a whole: the next request has nothing else
	alone bool
}

// A queue is where rows go, as they name it.
type queue struct {
	name     string
	ready    []*item
	failures int       // in a row
	pause    time.Time // no request before
}

type claimed struct {
	rows    []Row
	began   time.Time
	next    time.Duration
	drained bool // nothing was left when the claim was made
	except  []string
	err     error
}

type settled struct {
	outcomes []Outcome
	err      error
}

type renewal struct {
	ids   []string
	began time.Time
	asked int // claims before it; negative when one was under way
	err   error
}

func newFlow(r *Relay) *flow {
	return &flow{
		Relay: r, name: relayName(), poll: pollMin,
		hand: make(map[string]*item), queues: make(map[string]*queue),
		streams: make(map[string][]*item),
		answers: make(chan answer), claims: make(chan claimed), waits: make(chan struct{}),
		settles: make(chan settled), renewals: make(chan renewal),
		failures: make(map[string]int),
	}
}

// Pauses of a flow.
const (
	pollMin    = 20 * time.Millisecond
	troubleMin = 100 * time.Millisecond // after something failed, doubled each time
	troubleMax = 20 * time.Second
	callMax    = 30 * time.Second // of the database
	// failures of a queue in a row after which its rows are given back
	hopeless    = 5
	leastToSend = 500 * time.Millisecond
)

func (f *flow) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	ending := ctx.Done()
	for {
		f.startClaim(ctx)
		f.startRequests()
		f.startSettle()
		f.startRenewal()
		if f.stopping && f.requests == 0 && !f.claiming && !f.waiting && f.writing == 0 &&
			!f.renewing && (len(f.unsettled) == 0 || f.failures[settling] >= 3) {
			return
		}
		timer.Reset(f.untilNext(time.Now()))
		select {
		case c := <-f.claims:
			f.take(ctx, c)
		case <-f.waits:
			f.waiting, f.stopWaiting = false, nil
		case a := <-f.answers:
			f.heed(a)
		case s := <-f.settles:
			f.written(s)
		case n := <-f.renewals:
			f.renewed(n)
		case <-timer.C:
		case <-ending:
			ending = nil
			f.stop()
		}
	}
}

// stop gives back what is not under way. Nothing is claimed from then on.
func (f *flow) stop() {
	f.stopping = true
	f.settleAt = time.Time{}
	delete(f.failures, settling)
	for _, it := range f.hand {
		if !it.away {
			f.over(it, Outcome{Fate: Back, Reason: "the relay stops"})
		}
	}
}

// untilNext is how long nothing is to be done unless something is reported.
func (f *flow) untilNext(now time.Time) time.Duration {
	next := now.Add(time.Minute)
	sooner := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if !f.claiming && !f.waiting && !f.stopping {
		sooner(f.lookAfter)
	}
	if len(f.hand) > 0 && !f.renewing {
		sooner(f.renewAt)
	}
	if len(f.unsettled) > 0 && f.writing == 0 {
		sooner(f.settleAt)
	}
	for _, q := range f.queues {
		if len(q.ready) > 0 && f.requests < f.cfg.Parallel {
			sooner(q.pause)
		}
	}
	return max(next.Sub(now), time.Millisecond)
}

// trouble notes that something failed, or did not, and returns how long to leave it alone. Every
// failure after which that has doubled is logged.
func (f *flow) trouble(what string, err error) time.Duration {
	if err == nil {
		delete(f.failures, what)
		return 0
	}
	f.failures[what]++
	n := f.failures[what]
	pause := backoff.Jitter(backoff.Ceiling(n, troubleMin, troubleMax))
	if n&(n-1) == 0 {
		f.cfg.Logger.Warn("the relay cannot "+what+" now and tries again", "attempt", n, "error",
			err)
	}
	return pause
}

// startClaim asks for rows when there is room for them.
func (f *flow) startClaim(ctx context.Context) {
	now := time.Now()
	room := f.cfg.Rows - len(f.hand) - len(f.unsettled) - f.writing
	if f.claiming || f.waiting || f.stopping || now.Before(f.lookAfter) ||
		room < (f.cfg.Rows+1)/2 || f.bytes > f.cfg.Bytes/2 {
		return
	}
	c := Claim{
		Relay: f.name, Lease: f.cfg.Lease, Rows: room, Bytes: f.cfg.Bytes - f.bytes,
		Stream: max(1, f.cfg.Rows/4),
	}
	for _, q := range f.queues {
		if now.Before(q.pause) {
			c.Except = append(c.Except, q.name)
		}
	}
	f.claiming = true
	f.asked++
	idle := len(f.hand)+len(f.unsettled)+f.writing == 0
	go func() {
		ctx, cancel := context.WithTimeout(ctx, callMax)
		defer cancel()
		got := claimed{began: time.Now(), except: c.Except}
		got.rows, got.next, got.err = f.cfg.Box.Claim(ctx, c)
		// a claim may return nothing although a row is due, which is the next one's then
		if f.drain != nil && idle && got.err == nil && len(got.rows) == 0 && got.next > 0 {
			got.drained, got.err = f.drain.isOver(ctx, f.cfg.Box)
		}
		f.claims <- got
	}()
}

// take puts rows that were claimed into the hand.
func (f *flow) take(ctx context.Context, c claimed) {
	f.claiming = false
	if c.err != nil && f.stopping {
		return
	}
	f.lookAfter = time.Now().Add(f.trouble(claimingRows, c.err))
	if f.drain != nil && f.drain.ends(&c, f.failures[claimingRows]) {
		f.stop()
	}
	if c.err != nil {
		return
	}
	if len(f.hand) == 0 {
		f.renewAt = c.began.Add(f.renewPause())
	}
	f.takeAgain(c.rows)
	for _, row := range c.rows {
		it := &item{row: row, since: c.began, deadline: c.began.Add(f.safe())}
		var bad error
		if it.entry, bad = row.entry(); bad == nil {
			it.bytes = size(&it.entry)
			it.size, bad = f.inMessage(it.bytes)
		}
		f.hand[row.ID] = it
		f.bytes += it.bytes
		if row.Stream != "" {
			f.streams[row.Stream] = append(f.streams[row.Stream], it)
		}
		switch {
		case f.stopping:
			f.over(it, Outcome{Fate: Back, Reason: "the relay stops"})
		case bad != nil:
			f.park(it, bad.Error())
		case row.Stream == "" || f.streams[row.Stream][0] == it:
			f.ready(it)
		}
	}
	if len(c.rows) > 0 {
		f.poll = pollMin
		return
	}
	if !f.stopping {
		f.wait(ctx, c.next)
	}
}

// takeAgain forgets what the relay had and is given again: its lease had ended, and nobody else was
// there. What was behind or before it in its stream comes with it, or is disowned.
func (f *flow) takeAgain(rows []Row) {
	for _, row := range rows {
		if it := f.hand[row.ID]; it != nil {
			f.forget(it)
		}
		for _, it := range slices.Clone(f.streams[row.Stream]) {
			f.forget(it)
		}
	}
}

// wait sleeps until there may be rows to claim.
func (f *flow) wait(ctx context.Context, next time.Duration) {
	most := min(f.poll, max(next, pollMin))
	f.poll = min(2*f.poll, f.cfg.Poll)
	f.waiting = true
	ctx, cancel := context.WithTimeout(ctx, most+callMax) // a database that is gone may say nothing
	if len(f.hand)+len(f.unsettled)+f.writing > 0 {
		f.stopWaiting = cancel
	}
	go func() {
		defer cancel()
		began := time.Now()
		if err := f.cfg.Box.Wait(ctx, most); err != nil { // it comes back too soon, perhaps
			select {
			case <-ctx.Done():
			case <-time.After(most - time.Since(began)):
			}
		}
		f.waits <- struct{}{}
	}()
}

// ready puts an item behind those of its queue that can be sent.
func (f *flow) ready(it *item) {
	q := f.queue(it.row.Queue)
	q.ready = append(q.ready, it)
}

// queue is the one that rows name so. Those with nothing to remember are forgotten.
func (f *flow) queue(name string) *queue {
	q := f.queues[name]
	if q == nil {
		q = &queue{name: name}
		f.queues[name] = q
	}
	return q
}

// over ends an item with an outcome. Those behind it in its stream come next, unless it is to be
// tried again: then they must not overtake it.
func (f *flow) over(it *item, o Outcome) {
	o.ID = it.row.ID
	f.unsettled = append(f.unsettled, o)
	first, behind := f.forget(it)
	switch {
	case o.Fate == Sent || o.Fate == Parked:
		if first && len(behind) > 0 {
			f.ready(behind[0])
		}
	default:
		for _, other := range behind {
			f.unsettled = append(f.unsettled,
				Outcome{ID: other.row.ID, Fate: Back,
					Reason: "a row before it in its group is not sent"})
			f.forget(other)
		}
	}
}

// forget takes an item out of the hand. It reports whether it was its turn, and returns those
// behind it in its stream.
func (f *flow) forget(it *item) (first bool, behind []*item) {
	if f.hand[it.row.ID] != it { // it was lost while a request with it was under way
		return false, nil
	}
	delete(f.hand, it.row.ID)
	f.bytes -= it.bytes
	if q := f.queues[it.row.Queue]; q != nil {
		q.ready = slices.DeleteFunc(q.ready, func(other *item) bool { return other == it })
	}
	if s := it.row.Stream; s != "" {
		stream := f.streams[s]
		at := slices.Index(stream, it)
		first, behind = at == 0, slices.Clone(stream[at+1:])
		if f.streams[s] = slices.Delete(stream, at, at+1); len(f.streams[s]) == 0 {
			delete(f.streams, s)
		}
	}
	return first, behind
}

func (f *flow) park(it *item, reason string) {
	f.cfg.Logger.Error("a row of the outbox is parked: it is not tried again until somebody releases it",
		"id", it.row.ID, "queue", it.row.Queue, "key", it.row.Key, "reason", reason)
	f.cfg.Events.Parked(it.row, reason)
	f.over(it, Outcome{Fate: Parked, Reason: reason})
}

// startRequests sends what is ready, as far as requests may be under way.
func (f *flow) startRequests() {
	now := time.Now()
	for _, name := range slices.Sorted(maps.Keys(f.queues)) {
		q := f.queues[name]
		if len(q.ready) == 0 && q.failures == 0 {
			delete(f.queues, name)
			continue
		}
		for f.requests < f.cfg.Parallel && len(q.ready) > 0 && !now.Before(q.pause) {
			batch, until := q.batch(now)
			if len(batch) == 0 {
				break
			}
			f.requests++
			go func() { f.answers <- f.send(q, batch, until) }()
			if q.failures > 0 {
				q.pause = now.Add(requestMax) // one request finds out how the queue is
			}
		}
	}
}

// batch takes what one request carries, and returns when it must be over.
func (q *queue) batch(now time.Time) (batch []*item, until time.Time) {
	until = now.Add(requestMax)
	total := 0
	var left []*item
	for _, it := range q.ready {
		switch {
		case it.deadline.Sub(now) < leastToSend, // nobody knows whose it is until the next renewal
			len(batch) == batchMax,
			len(batch) > 0 && (total+it.size > messageMax || it.alone || batch[0].alone):
			left = append(left, it)
			continue
		}
		if it.deadline.Before(until) {
			until = it.deadline
		}
		it.away = true
		total += it.size
		batch = append(batch, it)
	}
	q.ready = left
	return batch, until
}

// heed learns from the answer of a queue.
func (f *flow) heed(a answer) {
	f.requests--
	q, now := f.queue(a.queue.name), time.Now()
	var again []*item
	var trouble error
	for i, it := range a.items {
		it.away = false
		held := f.hand[it.row.ID] == it
		refused, own := a.errs[i].(*refusal)
		switch {
		case a.errs[i] == nil:
			f.cfg.Events.Sent(it.row, a.ids[i])
			f.over(it, Outcome{Fate: Sent, SentTo: queuename.Of(a.url), MessageID: a.ids[i]})
		case !held: // its lease was lost meanwhile
		case own && len(a.items) > 1 && f.sameReason(a):
			it.alone = true
			again = append(again, it)
		case own:
			f.refused(it, refused.reason)
		default:
			trouble = a.errs[i]
			again = append(again, it)
		}
	}
	q.ready = append(again, q.ready...)
	switch {
	case trouble == nil:
		q.failures, q.pause = 0, time.Time{}
	case len(again) < len(a.items): // it takes others
		q.failures, q.pause = 0, now.Add(backoff.Jitter(troubleMin))
	default:
		q.failures++
		q.pause = now.Add(backoff.Jitter(backoff.Ceiling(q.failures, troubleMin, troubleMax)))
		if n := q.failures; n&(n-1) == 0 {
			f.cfg.Logger.Warn("a queue takes no messages now; they wait", "queue", q.name,
				"attempt", n, "error", trouble)
		}
		if q.failures >= hopeless {
			f.giveBack(q, trouble)
		}
	}
	if f.stopping {
		for _, it := range slices.Clone(q.ready) {
			f.over(it, Outcome{Fate: Back, Reason: "the relay stops"})
		}
	}
}

// sameReason reports whether a request was refused as a whole, so that nobody knows whose fault it
// is.
func (f *flow) sameReason(a answer) bool {
	first, ok := a.errs[0].(*refusal)
	return ok && !slices.ContainsFunc(a.errs, func(err error) bool { return err != error(first) })
}

// refused counts an attempt of a row.
func (f *flow) refused(it *item, reason string) {
	if it.row.Attempts+1 >= f.cfg.Attempts {
		f.park(it, reason)
		return
	}
	after := backoff.Full(it.row.Attempts+1, f.cfg.RetryBase, f.cfg.RetryMax, chance())
	f.cfg.Events.Failed(it.row, reason, after)
	f.over(it, Outcome{Fate: Failed, After: after, Reason: reason})
}

// giveBack makes room for the rows of other queues. Those of this one are claimed again when its
// pause is over.
func (f *flow) giveBack(q *queue, why error) {
	for _, it := range slices.Clone(q.ready) {
		if f.hand[it.row.ID] == it {
			f.over(it, Outcome{Fate: Back, Reason: clip.To(why.Error(), 1024)})
		}
	}
}

const (
	claimingRows = "claim rows"
	settling     = "write down what was sent"
)

// startSettle writes down what is known, all of it at once.
func (f *flow) startSettle() {
	if f.writing > 0 || len(f.unsettled) == 0 || time.Now().Before(f.settleAt) {
		return
	}
	outcomes := f.unsettled
	f.unsettled, f.writing = nil, len(outcomes)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), callMax)
		defer cancel()
		f.settles <- settled{outcomes, f.cfg.Box.Settle(ctx, f.name, outcomes)}
	}()
}

func (f *flow) written(s settled) {
	f.writing = 0
	f.settleAt = time.Now().Add(f.trouble(settling, s.err))
	if s.err != nil {
		f.unsettled = append(s.outcomes, f.unsettled...)
		return
	}
	// What follows in the streams can be claimed now.
	f.lookAfter, f.poll = time.Time{}, pollMin
	if f.stopWaiting != nil {
		f.stopWaiting()
	}
}

// startRenewal renews the leases of all rows in hand when it is time.
func (f *flow) startRenewal() {
	if f.renewing || len(f.hand) == 0 || time.Now().Before(f.renewAt) {
		return
	}
	f.renewing = true
	n := renewal{began: time.Now(), asked: f.asked}
	if f.claiming {
		n.asked = -1
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), f.safe())
		defer cancel()
		n.ids, n.err = f.cfg.Box.Renew(ctx, f.name, f.cfg.Lease)
		f.renewals <- n
	}()
}

func (f *flow) renewed(n renewal) {
	f.renewing = false
	now := time.Now()
	if pause := f.trouble("renew leases", n.err); n.err != nil {
		f.renewAt = now.Add(min(pause, f.renewPause()/2))
		return
	}
	f.renewAt = n.began.Add(f.renewPause())
	still := make(map[string]bool, len(n.ids))
	for _, id := range n.ids {
		still[id] = true
	}
	for _, it := range f.hand {
		switch {
		case !it.since.Before(n.began): // claimed since then
		case still[it.row.ID]:
			it.deadline = n.began.Add(f.safe())
		default:
			f.lose(it)
		}
	}
	if n.asked == f.asked {
		f.disown(n.ids)
	}
}

// disown gives back what the relay has and does not know of: the answer of a claim was lost, or its
// lease was given up here and had not ended there.
func (f *flow) disown(ids []string) {
	known := make(map[string]bool, len(f.unsettled))
	for _, o := range f.unsettled {
		known[o.ID] = true
	}
	for _, id := range ids {
		if _, inHand := f.hand[id]; !inHand && !known[id] {
			f.unsettled = append(f.unsettled,
				Outcome{ID: id, Fate: Back, Reason: "the relay did not hear that it has it"})
		}
	}
}

// lose forgets a row, and those behind it in its stream: whoever has it now sends these too.
func (f *flow) lose(it *item) {
	f.cfg.Events.Lost(it.row)
	_, behind := f.forget(it)
	for _, other := range behind {
		f.forget(other)
		f.cfg.Events.Lost(other.row)
	}
}

// safe is how long after a claim or a renewal began its leases may be relied on: a tenth is left
// for the difference between two clocks and for what is under way when they end.
func (f *flow) safe() time.Duration { return f.cfg.Lease - f.cfg.Lease/10 }

// renewPause is the time between two renewals, about a third of a lease.
func (f *flow) renewPause() time.Duration { return backoff.Jitter(f.cfg.Lease / 3) }
