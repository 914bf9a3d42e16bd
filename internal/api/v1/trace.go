package v1

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/engine"
	"tenaq/internal/work/timeline"
)

// A trace is the life of a piece of work, as far as the server knows it.
type trace struct {
	Now      time.Time `json:"now" doc:"when the server was asked, by its clock"`
	Keys     []string  `json:"keys" doc:"of the work; the key that was asked for comes first"`
	Lineages []string  `json:"lineages" doc:"of its messages"`

	Messages      []message               `json:"messages" doc:"those that are in a queue now"`
	Claims        []timeline.Claim        `json:"claims"`
	Registrations []timeline.Registration `json:"registrations"`
	Events        []timeline.Event        `json:"events" doc:"in the order of time, the newest last"`

	Histories int       `json:"histories" doc:"how many histories were searched"`
	Unknown   []Unknown `json:"unknown" doc:"what this answer cannot show, and why"`
	Complete  bool      `json:"complete" doc:"nothing was left out that the server keeps"`
	Next      string    `json:"next,omitempty" doc:"there are more histories: pass it as after, and add the events of that answer to these"`
}

// An Unknown is a part of a life that an answer cannot show.
type Unknown struct {
	Part  string `json:"part" enum:"messages,history,claims,registrations"`
	Queue string `json:"queue,omitempty"`
	Why   string `json:"why" enum:"off,gone,denied,bound,unindexed" doc:"off: the queue keeps no history; gone: there is no such queue any more; denied: the caller may not see it; bound: it would be too much for one answer; unindexed: no message of the work is known whose id could be looked for"`
	Text  string `json:"text"`
}

// Bounds of one answer. [TRACE-3]
const (
	traceHistories = 100 // in the order of their names, beside those of the queues of the work
	traceInvolved  = 50  // queues of the work
	traceTerms     = 24  // ids and keys that are looked for
	traceStays     = 200 // of messages in queues
	traceSearch    = 50  // outcomes of one search
	traceSubmitted = 16  // histories that are prepared in one turn
	traceLook      = 500 // messages of a queue that are looked at for a key
	traceLooked    = 6   // of such queues
)

type traceIn struct {
	Key    string `query:"key" doc:"of the work, as its producer or its claim names it"`
	ID     string `query:"id" doc:"messageId or lineageId of one of its messages"`
	Ledger string `query:"ledger" default:"claim/" doc:"key prefix of the claims"`
	After  string `query:"after" doc:"next of the answer before"`
}

// The rights to the parts of a trace. [TRACE-6]
const (
	mayPeek   = "tenaq:PeekMessages"
	maySearch = "tenaq:SearchHistory"
	mayClaims = "tenaq:GetClaim"
)

// keyMax is how long the key of work can be, in bytes. [HIST-7]
const keyMax = 512

// trace answers GET /v1/trace. [TRACE-1]
func (c *call) trace(in traceIn) (*trace, error) {
	t := &tracer{call: c, ledger: in.Ledger, answer: &trace{Unknown: []Unknown{}},
		histories: make(map[string]*engine.History), searched: make(map[searched]bool),
		known: make(map[Unknown]bool), complete: true, goesOn: in.After != ""}
	switch {
	case (in.Key == "") == (in.ID == ""):
		return nil, sqswire.Errorf(sqswire.InvalidParameterValue,
			"A trace needs one of the parameters key and id.")
	case len(in.Key) > keyMax:
		return nil, errValue("key", "of "+in.Key[:16]+"...", "at most 512 bytes")
	case in.ID != "":
		if _, ok := engine.ParseMessageID(in.ID); !ok {
			return nil, errValue("id", in.ID, "a message id, which is a UUID")
		}
	}
	if err := t.mayAnything(); err != nil {
		return nil, err
	}
	c.room = c.cfg.Intake.Answers.Hold(c.principal.Account())
	if err := c.room.Wait(c, historyRoom+claimBytes, intake.WaitMax); err != nil {
		return nil, err
	}
	// A worker whose messages have no key claims the id of the first one.
	t.addKey(cmp.Or(in.Key, in.ID))
	if err := t.begin(in.After); err != nil {
		return nil, err
	}
	if err := t.follow(); err != nil {
		return nil, err
	}
	if err := t.lookForDead(); err != nil {
		return nil, err
	}
	return t.finish()
}

// A tracer follows a piece of work from what is asked for to everything that is linked to it.
type tracer struct {
	*call
	ledger string
	answer *trace

	keys     []string
	ids      []engine.MessageID
	looked   int      // how many of ids were looked for in queues
	read     readFor  // what was looked for in records
	senders  []string // queues that have registrations
	involved []string // queues of the work, in the order in which they were found

	pages     []engine.QueueName // histories of this answer, beside those that are involved
	histories map[string]*engine.History
	searched  map[searched]bool

	stays      []timeline.Stay
	records    timeline.Records
	generation int // the highest one that is known

	peek, search, claims bool  // what the caller may see, policies aside
	denied               error // the first denial
	known                map[Unknown]bool
	complete             bool
	goesOn               bool // it is not the first answer
}

// A readFor is for how many keys, and up to which generation, records were read.
type readFor struct{ keys, generation int }

// A searched is a search that was made: of a history, for an id or a key.
type searched struct{ queue, term string }

// mayAnything asks for the right to each part. It refuses a caller that has none of them.
func (t *tracer) mayAnything() error {
	account := engine.QueueName{Account: t.principal.Account()}
	for _, part := range []struct {
		may          *bool
		action, part string
	}{{&t.peek, mayPeek, "messages"}, {&t.search, maySearch, "history"},
		{&t.claims, mayClaims, "claims"}} {
		err := t.cfg.Policies.Allow(t.principal, t.request, part.action, account)
		if *part.may = err == nil; err != nil {
			t.denied = cmp.Or(t.denied, err)
			t.lack(part.part, "", "denied", "the caller may not use "+part.action)
		}
	}
	if !t.peek && !t.search && !t.claims {
		return t.denied
	}
	return nil
}

// mayOn reports whether the policy of a queue lets the caller see a part of it. A queue that does
// not is not named. [TRACE-6]
func (t *tracer) mayOn(part, action, queue string) bool {
	if t.allow(queue, action) == nil {
		return true
	}
	t.lack(part, "", "denied", "the policy of a queue denies the caller "+action)
	return false
}

// lack notes what the answer cannot show.
func (t *tracer) lack(part, queue, why, text string) {
	u := Unknown{part, queue, why, text}
	if t.known[u] {
		return
	}
	t.known[u] = true
	t.answer.Unknown = append(t.answer.Unknown, u)
	t.complete = t.complete && (why == "off" || why == "gone")
}

// begin finds the histories of this answer, and the queues that have registrations.
func (t *tracer) begin(after string) error {
	if t.search {
		t.pages, t.answer.Next = t.cfg.Broker.Histories(t.principal.Account(), after,
			traceHistories)
		t.complete = t.complete && t.answer.Next == ""
	}
	if !t.claims {
		return nil
	}
	t.records = timeline.Records{Store: serverRecords{t.cfg.Broker, t.principal.Account()},
		Ledger: t.ledger}
	queues, more, err := t.records.Queues(t)
	if t.senders = queues; more {
		t.lack("registrations", "", "bound", "more queues have registrations than are looked at")
	}
	return err
}

// follow looks everywhere for what is known of the work, until nothing else comes to light.
func (t *tracer) follow() error {
	for again := true; again; {
		terms, queues := len(t.keys)+len(t.ids), len(t.involved)
		for _, step := range []func() error{t.readRecords, t.find, t.searchHistories} {
			if err := step(); err != nil {
				return err
			}
		}
		again = len(t.keys)+len(t.ids) > terms || len(t.involved) > queues
	}
	return nil
}

// addKey adds a key of the work, with the generation that it may end with.
func (t *tracer) addKey(key string) {
	base, generation := timeline.Base(key)
	t.generation = max(t.generation, min(generation, timeline.GenerationsMax-1))
	for _, k := range []string{base, key} {
		if k == "" || len(k) > keyMax || slices.Contains(t.keys, k) || !t.mayAdd() {
			continue
		}
		t.keys = append(t.keys, k)
		t.addID(k)
	}
}

// addID adds the id of a message or of a lineage, if it is one.
func (t *tracer) addID(text string) {
	id, ok := engine.ParseMessageID(text)
	if ok && id != (engine.MessageID{}) && !slices.Contains(t.ids, id) && t.mayAdd() {
		t.ids = append(t.ids, id)
	}
}

func (t *tracer) mayAdd() bool {
	if len(t.keys)+len(t.ids) < traceTerms {
		return true
	}
	t.lack("messages", "", "bound", "the work has more ids and keys than are followed")
	return false
}

// involve adds a queue of the work.
func (t *tracer) involve(queue string) {
	if queue == "" || slices.Contains(t.involved, queue) {
		return
	}
	if len(t.involved) == traceInvolved {
		t.lack("history", "", "bound", "the work was in more queues than are followed")
		return
	}
	t.involved = append(t.involved, queue)
}

// readRecords reads claims and registrations, again when there is another key or generation.
func (t *tracer) readRecords() error {
	wanted := readFor{len(t.keys), t.generation}
	if !t.claims || t.read == wanted {
		return nil
	}
	r := &t.records
	t.read = wanted
	for _, key := range t.keys {
		if base, _ := timeline.Base(key); base != key {
			continue // which is another key of the work
		}
		more, err := r.Read(t, key, t.generation, t.senders)
		if err != nil {
			return asClaimError(err)
		}
		if more {
			t.lack("claims", "", "bound", "the key has more generations than are looked for")
		}
	}
	for _, found := range r.Registrations {
		t.involve(found.Queue)
		t.addID(found.Message)
	}
	for _, found := range r.Claims {
		t.addID(found.Message)
	}
	return nil
}

// find looks for messages that are in queues now.
func (t *tracer) find() error {
	for ; t.peek && t.looked < len(t.ids); t.looked++ {
		op := &engine.Find{Account: t.principal.Account(), ID: t.ids[t.looked]}
		if err := t.do(op); err != nil {
			return err
		}
		if q := op.Queue.Name; q != "" && t.mayOn("messages", mayPeek, q) {
			t.addLive(q, &op.Message)
		}
	}
	return nil
}

// addLive adds a message that is in a queue, unless it is there.
func (t *tracer) addLive(queue string, p *engine.Peeked) {
	m := t.shown(p)
	m.Queue = queue
	there := func(o message) bool { return o.Queue == m.Queue && o.Place == m.Place }
	if slices.ContainsFunc(t.answer.Messages, there) || !t.mayStay(queue) {
		return
	}
	content, ok := t.cfg.Broker.ReadContent(p.Delivery)
	if !ok {
		return // it was removed since
	}
	m.add(&content, 0)
	t.answer.Messages = append(t.answer.Messages, m)
	story, _ := t.cfg.Broker.ReadStory(p.Delivery)
	t.addStay(liveStay(queue, p, &story), content.Attributes)
}

// finish sorts what was found into the answer.
func (t *tracer) finish() (*trace, error) {
	a := t.answer
	if len(t.stays)+len(t.records.Claims)+len(t.records.Registrations) == 0 && !t.goesOn &&
		a.Next == "" {
		if t.denied != nil {
			return nil, t.denied
		}
		return nil, errNothing
	}
	now := &engine.Find{Account: t.principal.Account()}
	if err := t.do(now); err != nil { // which finds nothing, and says what time it is
		return nil, err
	}
	a.Now = *timeOf(now.Now)
	a.Keys = append([]string{}, t.keys...)
	a.Messages = append([]message{}, a.Messages...)
	a.Claims = append([]timeline.Claim{}, t.records.Claims...)
	a.Registrations = append([]timeline.Registration{}, t.records.Registrations...)
	// They were read as keys and generations came to light.
	place := func(key string, generation int) int {
		return slices.Index(t.keys, key)*timeline.GenerationsMax + generation
	}
	slices.SortStableFunc(a.Claims, func(x, y timeline.Claim) int {
		return place(x.Key, x.Generation) - place(y.Key, y.Generation)
	})
	slices.SortStableFunc(a.Registrations, func(x, y timeline.Registration) int {
		return place(x.Key, x.Generation) - place(y.Key, y.Generation)
	})
	a.Lineages = []string{}
	for _, s := range t.stays {
		if !slices.Contains(a.Lineages, s.Lineage) {
			a.Lineages = append(a.Lineages, s.Lineage)
		}
	}
	registered := slices.DeleteFunc(slices.Clone(t.records.Events), func(e timeline.Event) bool {
		return e.Ledger != ""
	})
	claimed := slices.DeleteFunc(t.records.Events, func(e timeline.Event) bool {
		return e.Ledger == ""
	})
	a.Events = timeline.Merge(slices.Concat([]timeline.Event{}, registered,
		timeline.OfStays(t.stays), claimed))
	a.Complete = t.complete
	return a, nil
}

var errNothing = &Error{http.StatusNotFound, "NothingKnown",
	"Nothing is known of this work: no message, no claim, no registration and no history that the " +
		"caller may see has this key or id. A queue keeps what became of its messages if it " +
		"has the tag tenaq:history."}
