package v1

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/engine"
)

// A live stream sends what happens in a few queues, once a second, as server-sent events.
//
//	event: hello   the instance of the server, and how often ticks come
//	event: tick    totals and queues: what was counted since the tick before, and where messages are
//	event: bye     why the stream ends, and after how long to come again
//
// A stream has room for one tick. When its client reads too slowly, the next tick replaces the one
// that waits; counts are then those of both. So a slow client costs no memory and delays no other.
// [V1-12, V1-13]

// Bounds of live streams.
const (
	livePeriod = time.Second

	liveStreams        = 64 // together
	liveStreamsOfKey   = 8  // of one key, or without keys of one address
	liveQueues         = 16 // of one stream
	liveQueuesTogether = engine.GaugesMax

	liveWriteMax   = 5 * time.Second  // how long a client may read nothing
	liveCheckEvery = 10 * time.Second // how often the key is looked at again
	liveMax        = 30 * time.Minute // how long a stream lives
	liveRetry      = 2 * time.Second  // after which a client should come again
)

type liveIn struct {
	Queues string `query:"queues" doc:"names between commas, at most 16; none for the totals alone"`
}

// A hello begins a stream.
type hello struct {
	Instance string `json:"instance"`
	PeriodMS int64  `json:"periodMs"`
}

// A tick is what has happened since the tick before.
type tick struct {
	N       int64                `json:"n"`
	At      time.Time            `json:"at"`
	Skipped int64                `json:"skipped,omitempty"` // ticks that the client was too slow for
	Totals  counted              `json:"totals"`
	Queues  map[string]liveQueue `json:"queues"`

	SilenceMS int64 `json:"silenceMs"` // since a commit reached the disk
}

// counted is how many messages were sent, received and deleted since the tick before.
type counted struct {
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
	Deleted  int64 `json:"deleted"`
}

func (c counted) minus(before counted) counted {
	return counted{max(c.Sent-before.Sent, 0), max(c.Received-before.Received, 0),
		max(c.Deleted-before.Deleted, 0)}
}

func (c *counted) add(more counted) {
	c.Sent, c.Received, c.Deleted = c.Sent+more.Sent, c.Received+more.Received,
		c.Deleted+more.Deleted
}

// A liveQueue is a queue in a tick. Its depth is absent if the queue does not exist, and while the
// server is too busy to say.
type liveQueue struct {
	counted
	Depth *depth `json:"depth,omitempty"`
}

// A depth is where the messages of a queue are.
type depth struct {
	Visible     int64 `json:"visible"`
	InFlight    int64 `json:"inFlight"`
	Delayed     int64 `json:"delayed"`
	OldestAgeMS int64 `json:"oldestAgeMs"`
}

// A bye ends a stream.
type bye struct {
	Reason  string `json:"reason"`
	RetryMS int64  `json:"retryMs"`
}

// A liveStream is the answer to GET /v1/live.
type liveStream struct {
	c      *call
	key    string       // that it counts against
	queues []string     // their names
	ticks  chan *sample // with room for one
	before *sample      // what the client knows
}

func (*liveStream) kind() string { return "text/event-stream" }

// liveStream answers GET /v1/live. [V1-12]
func (c *call) liveStream(in liveIn) (*liveStream, error) {
	if c.principal.Account() != c.cfg.Door.Account() {
		return nil, sqswire.Errorf(sqswire.InvalidParameterValue,
			"Only the queues of the server's own account have a live stream: ask GET /v1/queues every few seconds.")
	}
	s := &liveStream{c: c, key: c.liveKey(), queues: namesIn(in.Queues),
		ticks: make(chan *sample, 1)}
	if len(s.queues) > liveQueues {
		return nil, sqswire.Errorf(sqswire.InvalidParameterValue,
			"A stream shows at most %d queues: name fewer, or open a second stream.", liveQueues)
	}
	return s, c.live.enter(s)
}

// namesIn returns the names between the commas of a text, each once.
func namesIn(text string) (names []string) {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// liveKey is what a stream counts against.
func (c *call) liveKey() string {
	if id, _, _, ok := c.principal.Key(); ok {
		return id
	}
	host, _, _ := net.SplitHostPort(c.request.RemoteAddr)
	return host
}

// stream sends events until the client leaves, the key ends, or the server stops.
func (s *liveStream) stream(h *Handler, w http.ResponseWriter) (code string) {
	defer h.live.leave(s)
	setHeader(w, s.kind())
	w.Header().Set("X-Accel-Buffering", "no")
	out := &events{w, http.NewResponseController(w)}
	_ = out.control.SetReadDeadline(time.Time{}) // the one of the request would end the stream
	if out.send("hello", hello{h.live.instance, livePeriod.Milliseconds()}) != nil {
		return clientGone
	}
	check := time.NewTicker(liveCheckEvery)
	defer check.Stop()
	end := time.NewTimer(liveMax)
	defer end.Stop()
	for {
		reason := ""
		select {
		case <-s.c.Done():
			return clientGone
		case now := <-s.ticks:
			if out.send("tick", s.tick(now)) != nil {
				return clientGone
			}
		case <-check.C:
			now, ok := h.cfg.Door.Renew(s.c.principal)
			if s.c.principal = now; !ok || s.c.authorize() != nil {
				reason = "rights"
			}
		case <-end.C:
			reason = "limit"
		case <-h.live.stopping:
			reason = "stopping"
		}
		if reason != "" {
			_ = out.send("bye", bye{reason, liveRetry.Milliseconds()})
			return ""
		}
	}
}

// tick makes the next tick of a stream from a sample.
func (s *liveStream) tick(now *sample) tick {
	t := tick{N: now.n, At: now.at.UTC(), Queues: make(map[string]liveQueue),
		SilenceMS: now.silence.Milliseconds()}
	if before := s.before; before != nil {
		t.Skipped = now.n - before.n - 1
		t.Totals = now.totals.minus(before.totals)
	}
	for _, name := range s.queues {
		q := liveQueue{Depth: now.depths[name]}
		if s.before != nil {
			q.counted = now.counts[name].minus(s.before.counts[name])
		}
		t.Queues[name] = q
	}
	s.before = now
	return t
}

// events writes server-sent events.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (e *events) send(name string, data any) error {
	if err := e.control.SetWriteDeadline(time.Now().Add(liveWriteMax)); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := e.w.Write(eventText(name, data)); err != nil {
		return err
	}
	return e.control.Flush()
}

// eventText is an event as it is sent.
func eventText(name string, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // numbers, strings and times can always be encoded
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, text)
}

// IsLive reports whether a request opens a live stream.
func IsLive(r *http.Request) bool { return r.URL.Path == root+"/live" }

// ByeStopping is the last event of a live stream that ends because its server stops.
func ByeStopping() []byte { return eventText("bye", bye{"stopping", liveRetry.Milliseconds()}) }
