package v1

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/engine"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/work/fingerprint"
)

type reasonsIn struct {
	Queue string `path:"queue"`
	After string `query:"after" doc:"next of the request before"`
	Limit int    `query:"limit" range:"1,10000" default:"1000" doc:"messages to look at"`
}

// A reasonList is the answer to GET /v1/queues/{queue}/reasons.
type reasonList struct {
	Grouped  int     `json:"grouped"`  // messages that were looked at
	Complete bool    `json:"complete"` // there are no others
	Next     string  `json:"next,omitempty"`
	Kinds    []*kind `json:"kinds"` // the largest first
}

// A kind is the messages that failed for the same reason.
type kind struct {
	Kind     string     `json:"kind"`
	Count    int        `json:"count"`
	First    *string    `json:"first"` // when the first and the last of them failed, or were sent
	Last     *string    `json:"last"`
	Receives receives   `json:"receives"`
	Holding  int        `json:"holding,omitempty" doc:"those that hold a group"`
	Reason   string     `json:"reason"` // with # for what differs
	Sample   kindSample `json:"sample"`
	Note     *kindNote  `json:"note,omitempty"`

	first, last int64
}

type receives struct {
	Min uint32 `json:"min"`
	Max uint32 `json:"max"`
}

// A kindSample is the message of a kind that failed last.
type kindSample struct {
	ID      string `json:"messageId"`
	Lineage string `json:"lineageId"`
	Reason  string `json:"reason,omitempty"`
}

// A kindNote is what an operator wrote about a kind.
type kindNote struct {
	Text string    `json:"text"`
	By   string    `json:"by"`
	At   time.Time `json:"at"`
}

// Bounds of what a request keeps of the kinds that it finds. One more step fits beside them.
const (
	keptMax   = bodyMax
	kindBytes = 512 // of one, without its reasons
)

// reasons answers GET /v1/queues/{queue}/reasons. A message without a story needs its content,
// which may be large, so the bytes that a request reads and keeps are bounded. [NACK-15]
func (c *call) reasons(in reasonsIn) (list reasonList, err error) {
	op := &engine.Peek{Queue: c.queue(in.Queue), After: in.After, Bytes: pageBytes}
	c.room = c.cfg.Intake.Answers.Hold(c.principal.Account())
	if err := c.room.Wait(c, min(bodyMax*intake.AnswerCost, intake.AnswerMost),
		intake.WaitMax); err != nil {
		return list, err
	}
	kinds, read, kept := make(map[string]*kind), int64(0), 0
	for steps := 0; list.Grouped < in.Limit && steps < stepsMax+in.Limit/engine.PeekMax &&
		read < pageBytes && kept < keptMax; steps++ {
		op.Max = min(engine.PeekMax, in.Limit-list.Grouped)
		if err := c.do(op); err != nil {
			return list, err
		}
		for i := range op.Messages {
			p := &op.Messages[i]
			list.Grouped++
			f, size := c.failureOf(p)
			read += size
			name := f.kind()
			if kinds[name] == nil {
				kept += kindBytes + 2*len(f.Class) + 2*len(f.Text) // its reason and its sample
			}
			kinds[name] = f.addTo(kinds[name], name, p)
		}
		if op.After = op.Next; op.Next == "" {
			break
		}
	}
	list.Next, list.Complete = op.Next, op.Next == ""
	list.Kinds = slices.SortedFunc(maps.Values(kinds), func(a, b *kind) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind))
	})
	for _, k := range list.Kinds {
		k.First, k.Last = timeText(k.first), timeText(k.last)
	}
	return list, c.addNotes(in.Queue, list.Kinds)
}

// addNotes adds the notes of operators, which only queues of the server's own account have.
func (c *call) addNotes(queue string, kinds []*kind) error {
	if c.cfg.Monitor == nil || c.principal.Account() != c.cfg.Door.Account() {
		return nil
	}
	notes, err := c.cfg.Monitor.Notes(c, queue)
	for _, k := range kinds {
		if n := notes[k.Kind]; n != nil {
			k.Note = &kindNote{n.Text, n.By, n.At}
		}
	}
	return err
}

type noteIn struct {
	Queue string  `path:"queue"`
	Kind  string  `path:"kind"`
	Text  *string `json:"text" doc:"at most 500 bytes; an empty text removes the note"`
}

// noteReason answers POST /v1/queues/{queue}/reasons/{kind}/note. [NACK-23]
func (c *call) noteReason(in noteIn) (none, error) {
	if in.Text == nil {
		return none{}, sqswire.Errorf(sqswire.MissingParameter,
			"The member text is missing: an empty text removes the note.")
	}
	err := c.cfg.Monitor.PutNote(c, monitor.Note{Queue: in.Queue, Kind: in.Kind, Text: *in.Text,
		By: c.by()})
	if full, ok := errors.AsType[*monitor.NotesFull](err); ok {
		return none{}, &Error{http.StatusConflict, "TooManyNotes", full.Error()}
	}
	return none{}, asAlarmError(err)
}

// A failure is why and when a message failed.
type failure struct{ engine.Attempt }

// failureOf returns why a message failed: as its consumer told the server, or as a worker wrote
// into the attribute tenaq. Size is how many bytes of content were read for that.
func (c *call) failureOf(p *engine.Peeked) (f failure, size int64) {
	f.Ended = cmp.Or(p.LastReceive, p.Sent)
	if s, ok := c.cfg.Broker.ReadStory(p.Delivery); ok {
		if a := s.Reason(); a != nil {
			return failure{*a}, 0
		}
	}
	if content, ok := c.cfg.Broker.ReadContent(p.Delivery); ok {
		f.Text = monitor.TrailOf(content.Attributes).Reason
	}
	return f, p.Size
}

func (f *failure) kind() string { return fingerprint.Of(f.Reason()) }

// addTo counts a message that failed like this. Group is nil for the first one of its kind.
func (f *failure) addTo(group *kind, name string, p *engine.Peeked) *kind {
	if group == nil {
		group = &kind{Kind: name, Receives: receives{p.Receives, p.Receives}, first: f.Ended}
		normal := engine.Attempt{Class: fingerprint.Mask(f.Class), Text: fingerprint.Normal(f.Text)}
		group.Reason = normal.Reason()
	}
	if group.Count == 0 || f.Ended >= group.last {
		group.last = f.Ended
		group.Sample = kindSample{p.ID.String(), p.Lineage.String(), f.Reason()}
	}
	group.Count++
	if p.Holds != nil {
		group.Holding++
	}
	group.first = min(group.first, f.Ended)
	group.Receives.Min = min(group.Receives.Min, p.Receives)
	group.Receives.Max = max(group.Receives.Max, p.Receives)
	return group
}
