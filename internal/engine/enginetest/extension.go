package enginetest

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/engine"
)

// The tags that switch extensions on, as users write them.
const (
	delayMaxTag   = "tenaq:delay-max"
	windowTag     = "tenaq:dedup-window"
	historyTag    = "tenaq:history"
	inFlightTag   = "tenaq:max-in-flight"
	perGroupTag   = "tenaq:max-in-flight-per-group"
	pausedTag     = "tenaq:paused"
	priorityTag   = "tenaq:priority"
	rateTag       = "tenaq:rate"
	retryTag      = "tenaq:retry"
	strictHandles = "tenaq:strict-handles"

	onDeadLetterTag = "tenaq:fifo-on-dead-letter"
)

// tagged returns the value of a tag.
func (q *modelQueue) tagged(key string) (value string, ok bool) {
	for _, t := range q.tags {
		if t.Key == key {
			return t.Value, true
		}
	}
	return "", false
}

// is reports whether a queue has a tag, whatever its value.
func (q *modelQueue) is(key string) bool {
	_, ok := q.tagged(key)
	return ok
}

// most is the number that a tag names; without the tag it is otherwise.
func (q *modelQueue) most(key string, otherwise int64) int64 {
	if value, ok := q.tagged(key); ok {
		n, _ := strconv.ParseInt(value, 10, 64)
		return min(n, otherwise)
	}
	return otherwise
}

// hasRoom reports whether a tag lets a receive have one more message of a group. [EXT-10]
func (q *modelQueue) hasRoom(picked []*modelMessage, msg *modelMessage) bool {
	most := q.most(perGroupTag, 10)
	for _, other := range picked {
		if q.fifo() && other.entry.Group.Value == msg.entry.Group.Value {
			most--
		}
	}
	return most > 0
}

// step is for how long a message waits to rise by a level, in milliseconds; 0 without the tag.
func (q *modelQueue) step() int64 {
	value, _ := q.tagged(priorityTag)
	step, _ := time.ParseDuration(strings.Replace(value, "14d", "336h", 1))
	return step.Milliseconds()
}

// levelText is the value of the attribute that names the level, or its type if that is binary.
func levelText(e *engine.Entry) (text string) {
	for _, a := range e.Attributes {
		if a.Name == "tenaq.priority" {
			text = a.String.Value
			if strings.HasPrefix(a.Type.Value, "Binary") {
				text = a.Type.Value
			}
		}
	}
	return text
}

// modelLevel is the level that a message asks for; -1 if it asks for none that there is.
func modelLevel(e *engine.Entry) int64 {
	text := levelText(e)
	level, err := strconv.ParseInt("0"+text, 10, 64)
	if err != nil || len(text) > 1 {
		return -1
	}
	return level
}

// A modelHand is what a receive has delivered of a queue with a rate.
type modelHand struct{ at, messages int64 }

// rate is how many messages a queue may deliver in a millisecond; nil for any number.
func (q *modelQueue) rate() *big.Rat {
	value, ok := q.tagged(rateTag)
	if !ok {
		return nil
	}
	count, period, _ := strings.Cut(value, "/")
	n, _ := strconv.ParseInt(count, 10, 64)
	return big.NewRat(n, map[string]int64{"": 1000, "s": 1000, "m": 60_000, "h": 3_600_000}[period])
}

// tokens is how many messages a queue with a rate may deliver now, and when there will be one if it
// is none. It plays all deliveries again: tokens come with time, and there are never more than
// those of a second, or one. [EXT-13]
func (q *modelQueue) tokens(now int64) (n, next int64) {
	rate := q.rate()
	most, level := new(big.Rat).Mul(rate, big.NewRat(1000, 1)), big.NewRat(1, 1)
	if most.Cmp(big.NewRat(1, 1)) < 0 {
		most.SetInt64(1)
	}
	before := q.rated
	refill := func(at int64) {
		level.Add(level, new(big.Rat).Mul(rate, big.NewRat(at-before, 1)))
		if before = at; level.Cmp(most) > 0 {
			level.Set(most)
		}
	}
	for _, h := range q.handed {
		refill(h.at)
		level.Sub(level, big.NewRat(h.messages, 1))
	}
	refill(now)
	if n = new(big.Int).Quo(level.Num(), level.Denom()).Int64(); n > 0 {
		return n, 0
	}
	lacks := new(big.Rat).Sub(big.NewRat(1, 1), level)
	lacks.Quo(lacks, rate)
	wait := new(big.Int).Add(lacks.Num(), new(big.Int).Sub(lacks.Denom(), big.NewInt(1)))
	return 0, now + wait.Quo(wait, lacks.Denom()).Int64()
}

// window is for how long a queue remembers a send, in milliseconds; 0 for not at all. [EXT-29]
func (q *modelQueue) window() int64 {
	value, ok := q.tagged(windowTag)
	switch {
	case ok:
		n, _ := strconv.ParseInt(value[:len(value)-1], 10, 64)
		return n * map[byte]int64{'m': 60_000, 'h': 3_600_000, 'd': 86_400_000}[value[len(value)-1]]
	case q.fifo():
		return 300_000
	}
	return 0
}

// retag sets or removes tags. Another rate begins anew: 5 is the same as 5/s, and 60/m is not the
// same as 1/s. [EXT-15] Sends that are forgotten stay forgotten under another window. [EXT-34]
func (m *Model) retag(q *modelQueue, change func()) *engine.Error {
	window := q.window()
	defer func() {
		if q.window() > window {
			maps.DeleteFunc(q.sends, func(_ modelKey, first modelSend) bool {
				return m.over(first.at, max(window, 1))
			})
		}
	}()
	rate := func() string {
		value, _ := q.tagged(rateTag)
		return strings.TrimSuffix(value, "/s")
	}
	tags, before, fair := slices.Clone(q.tags), rate(), q.is(fairTag)
	change()
	if no := q.clash(); no != nil {
		q.tags = tags
		return no
	}
	q.reschedule(tags, m.now)
	if rate() != before {
		q.handed, q.rated = nil, m.now
	}
	if fair != q.is(fairTag) {
		m.settle(q)
		q.beginFair()
	}
	return nil
}

// deliverAt is when a message with a long delay is delivered; false if it has none.
// [EXT-24, EXT-25]
func (q *modelQueue) deliverAt(
	e *engine.Entry, now int64,
) (at int64, ok bool, no *engine.Error) {
	limit, tagged := q.tagged(delayMaxTag)
	if !tagged {
		return 0, false, nil
	}
	read := func(text string) (ms int64, ok bool) {
		n, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
		unit := map[string]int64{"s": 1, "m": 60, "h": 3600, "d": 86400}[text[len(text)-1:]] * 1000
		return n * unit, err == nil && unit > 0
	}
	most, _ := read(limit)
	var names []string
	value, bad := "", false
	for _, a := range e.Attributes {
		switch a.Name {
		case "tenaq.delay":
			wait, isDelay := read(a.String.Value)
			at, bad = now+wait, !isDelay
		case "tenaq.deliver-at":
			t, err := time.Parse(time.RFC3339, a.String.Value)
			at, bad = t.UnixMilli(), err != nil
		default:
			continue
		}
		names, value = append(names, a.Name), a.String.Value
	}
	isDelay := len(names) > 0 && names[0] == "tenaq.delay"
	refuse := func(quoted, reason string) (int64, bool, *engine.Error) {
		return 0, false, modelBadValue(quoted, names[0], reason)
	}
	longest := limit + ", the tenaq:delay-max of the queue."
	switch {
	case len(names) == 0:
		return 0, false, nil
	case len(names) == 2:
		return 0, false, modelRefusal(engine.CodeInvalidParameter,
			"The message has the attributes tenaq.delay and tenaq.deliver-at; leave one out.")
	case e.Delay.Value > 0:
		return 0, false, modelRefusal(engine.CodeInvalidParameter,
			"The message has DelaySeconds and the attribute %s; leave one out.", names[0])
	case bad && isDelay:
		return refuse(strconv.Quote(value), "Must be a text: a whole number and a unit, such as 30s, 15m, 36h or 90d.")
	case bad:
		return refuse(strconv.Quote(value), "Must be a time as in RFC 3339, with Z or an offset, such as 2027-01-31T08:00:00Z.")
	case at > now+most && isDelay:
		return refuse(value, "Must be at most "+longest)
	case at > now+most:
		return refuse(value, "Must be within "+longest)
	}
	return at, true, nil
}

// retryAfter is the pause after the attempts that a message has had, in milliseconds. The last one
// before it becomes a dead letter has none. [EXT-17, EXT-19, EXT-20]
func (m *Model) retryAfter(q *modelQueue, msg *modelMessage) int64 {
	value, ok := q.tagged(retryTag)
	if !ok || m.exhausted(q, msg) {
		return 0
	}
	value, times, ok := strings.Cut(value, "/x")
	if !ok {
		times = "2"
	}
	first, longest, ok := strings.Cut(value, "..")
	if !ok {
		longest = first
	}
	pause, _ := time.ParseDuration(first)
	most, _ := time.ParseDuration(longest)
	factor, _ := strconv.ParseInt(times, 10, 64)
	for range min(max(msg.receives, 1)-1, 50) {
		pause = min(pause*time.Duration(factor), most)
	}
	// the first number of SplitMix64 from this seed
	x := msg.seq*256 + uint64(msg.receives%256) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	jitter := (x ^ x>>31) % uint64(pause.Milliseconds()/10+1)
	return pause.Milliseconds() + int64(jitter)
}

// hideReceived hides a message that was received for a timeout, and for the pause after it.
func (m *Model) hideReceived(q *modelQueue, msg *modelMessage, timeout int64) {
	m.hideFor(msg, min(timeout+m.retryAfter(q, msg), msg.last+43200*1000-m.now))
}

// untag removes tags.
func (q *modelQueue) untag(keys []string) {
	q.tags = slices.DeleteFunc(q.tags, func(t engine.Tag) bool {
		return slices.Contains(keys, t.Key)
	})
}

// extension switches an extension on or off. A pause ends soon, because little happens in it.
func (g *Generator) extension(q string) {
	tag, values := strictHandles, []string{"true"}
	switch g.r.IntN(22) {
	case 20, 21:
		g.schedule(q)
		return
	case 16, 17, 18, 19:
		if !isFIFO(q) {
			g.priority(q)
			return
		}
	case 14, 15:
		g.window(q)
		return
	case 0:
		g.emit("tag q=%s %s=true", q, pausedTag)
		g.emit("send q=%s%s", q, g.message(q))
		g.emit("receive q=%s max=10%s", q, g.maybe("wait", "0", "20"))
		g.emit("advance %s", g.one("1ms", "1s", "30s"))
		g.emit("receive q=%s%s", q, g.attempt(q))
		g.emit("untag q=%s %s", q, pausedTag)
		return
	case 1:
	case 2:
		tag, values = rateTag, []string{"1", "2/s", "10", "50/s", "90/m", "1/m", "7/m", "100000/h"}
		if !g.chance(3) { // a rate ends soon, because little is received meanwhile
			g.emit("tag q=%s %s=%s", q, tag, g.one(values...))
			for range 1 + g.r.IntN(4) {
				g.emit("receive q=%s vt=0 max=%s%s%s", q, g.one("1", "3", "10"), g.attempt(q),
					g.maybe("wait", "0", "20"))
				g.emit("advance %s", g.one("1ms", "99ms", "500ms", "1s", "10s", "1m"))
			}
			g.emit("untag q=%s %s", q, tag)
			return
		}
	case 11, 12, 13:
		if tag, values = delayMaxTag, []string{"1m", "2m", "1h", "365d"}; isFIFO(q) {
			return
		}
		g.emit("tag q=%s %s=%s", q, tag, g.one(values...))
		for range 1 + g.r.IntN(4) {
			g.emit("send q=%s body=%s attr=(%s)%s", q, g.one("x", "y"), g.one("tenaq.delay:String="+
				g.one("0s", "1s", "59s", "1m", "90s", "24h", "30d", "1w"),
				"tenaq.deliver-at:String="+g.one("2026-01-01T00:00:10Z", "2026-01-01T12:00:00.001Z",
					"2026-01-01T00:02:00+00:01", "soon")), g.maybe("delay", "0", "0", "5"))
			if g.chance(3) {
				g.emit("advance %s", g.one("1ms", "1s", "1m", "24h"))
			}
		}
		if !g.chance(4) {
			return
		}
	case 8, 9, 10:
		tag, values = retryTag, []string{"1s", "5s", "1s..1m", "10s..12h/x10", "2s..5s/x3", "12h"}
		if g.chance(2) {
			g.emit("receive q=%s max=10 vt=%s", q, g.one("0", "1", "10"))
		}
	case 3, 4:
		tag, values = inFlightTag, []string{"1", "2", "3", "10", "12", "120000"}
	default:
		if tag, values = perGroupTag, []string{"1", "2", "9"}; !isFIFO(q) {
			g.fair(q)
			return
		}
	}
	if g.chance(3) {
		g.emit("untag q=%s %s", q, tag)
		return
	}
	g.emit("tag q=%s %s=%s", q, tag, g.one(values...))
}

// holdGroups lets dead letters hold their groups, makes some, and does what ends a hold.
func (g *Generator) holdGroups(q string, receipts int) {
	to, group := g.another(q), fmt.Sprintf("k%d", g.unique)
	for to == q && !g.chance(8) {
		to = g.another(q)
	}
	g.emit("tag q=%s %s=hold-group", q, onDeadLetterTag)
	g.emit("set q=%s redrive=(%s, %s)", q, to, g.one("1", "1", "2"))
	for range 2 + g.r.IntN(6) {
		g.unique++
		g.emit("send q=%s body=x group=%s dedup=u%d", q, g.one(group, group, group, "g1"), g.unique)
	}
	if g.chance(2) { // some of those in flight hold their groups, in any order
		g.emit("advance 5s")
		g.emit("receive q=%s max=10 vt=%s", q, g.one("10", "60"))
		for range 1 + g.r.IntN(4) {
			g.emit("nack-batch q=%s\nid=0 r=r%d verdict=%s", q, receipts+1+g.r.IntN(5),
				g.one("poison", "poison", "exhausted", "retry"))
		}
	}
	for range 1 + g.r.IntN(4) {
		g.emit("receive q=%s max=%s vt=%s%s", q, g.one("1", "3", "10"), g.one("0", "0", "1"),
			g.attempt(q))
		g.emit("advance %s", g.one("0s", "1ms", "1s", "5s"))
		g.emit("receive q=%s max=10 vt=%s show=(seq, source)", q, g.one("0", "1", "5"))
		switch g.r.IntN(16) {
		case 0:
			g.emit("release q=%s group=%s", q, g.one(group, group, "g1"))
		case 1:
			g.emit("purge q=%s", g.one(to, to, q))
		case 2:
			g.emit("delete-queue q=%s", to)
			g.emit("advance 60s")
			g.emit("create q=%s FifoQueue=true", to)
		case 3:
			g.emit("untag q=%s %s", q, onDeadLetterTag)
			return
		case 4:
			g.emit("drain q=%s n=%s", to, g.one("1", "2"))
		case 5:
			g.selections++
			g.emit("task-start q=%s do=%s", to,
				g.one("delete confirm=3", "move", "park to="+g.another(q)))
			g.emit("move-step%s", g.maybe("most", "1", "3", "20"))
		case 6:
			g.emit("advance 60s")
			g.emit("sweep max=100")
		case 7:
		default:
			g.moveStart(to)
			for range 1 + g.r.IntN(3) {
				g.emit("move-step%s", g.maybe("most", "1", "3", "20"))
			}
		}
	}
	g.emit("drain q=%s n=%s", q, g.one("1", "3", "10"))
	if g.chance(6) {
		g.emit("untag q=%s %s", q, onDeadLetterTag)
	}
}

// priority switches levels on or off, and sends messages that have some.
func (g *Generator) priority(q string) {
	if g.fairs[q] {
		if g.chance(2) {
			return
		}
		g.fairs[q] = false
		g.emit("untag q=%s %s %s", q, fairTag, perGroupTag)
	}
	if g.chance(4) {
		g.emit("untag q=%s %s", q, priorityTag)
	} else {
		g.emit("tag q=%s %s=%s", q, priorityTag, g.one("1s", "1s", "5s", "1m", "14d"))
	}
	for range 1 + g.r.IntN(6) {
		g.emit("send q=%s%s%s", q, g.leveled(), g.maybe("delay", "0", "1", "5"))
		g.emit("advance %s", g.one("0s", "1ms", "500ms", "1s", "10s"))
	}
	g.emit("receive q=%s%s vt=%s", q, g.maybe("max", "2", "10"), g.timeout())
}

// leveled is a message that has a level, or a value that is none.
func (g *Generator) leveled() string {
	if g.chance(20) {
		return " body=x attr=(tenaq.priority:" + g.one("String=10", "Number=-1", "Binary=5",
			"String=05", "Number=1.0") + ")"
	}
	return fmt.Sprintf(" body=x attr=(tenaq.priority:%s=%d)", g.one("String", "Number"),
		g.r.IntN(10))
}

// window changes the deduplication window of a queue, and sends something twice around it.
func (g *Generator) window(q string) {
	tag := fmt.Sprintf("tag q=%s %s=%s", q, windowTag,
		g.one("5m", "6m", "30m", "30m", "2h", "7d", "365d"))
	if g.chance(4) {
		tag = fmt.Sprintf("untag q=%s %s", q, windowTag)
	}
	send := fmt.Sprintf("send q=%s body=x attr=(tenaq.dedup-id:String=%s)", q, g.one("d1", "d2"))
	if isFIFO(q) {
		send = fmt.Sprintf("send q=%s body=x group=g1 dedup=%s", q, g.one("d1", "d2"))
	}
	if g.chance(2) {
		g.emit("%s", tag)
	}
	g.emit("%s", send)
	g.emit("advance %s", g.one("1ms", "4m", "5m", "6m", "30m", "2h"))
	g.emit("%s", tag)
	g.emit("%s", send)
}

// schedule changes a schedule of a queue, and lets time pass until it is due once or several times.
func (g *Generator) schedule(q string) {
	tag := scheduleTag + g.one("", "", ".other", ".a-1")
	if g.chance(4) {
		g.emit("untag q=%s %s", q, tag)
		return
	}
	g.emit("tag q=%s %s=(%s%s)", q, tag, g.one("@hourly", "x/5 x x x x", "7+31 1-23/2 x x x",
		"0 12 2 x MON", "@every 1s", "@every 90s", "@every 7m"), g.one("", "", " body=x y=z"))
	for range 1 + g.r.IntN(4) {
		g.emit("advance %s", g.one("1ms", "999ms", "1s", "90s", "5m", "1h"))
		for range g.r.IntN(3) {
			g.emit("tick")
		}
	}
	if g.chance(2) { // most schedules end soon, because each adds to all that follows
		g.emit("untag q=%s %s", q, tag)
	}
}
