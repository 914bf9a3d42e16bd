package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A Generator makes up scripts. Its numbers are few and round, so that deadlines meet each other
// and the moments at which it looks at queues.
type Generator struct {
	r      *rand.Rand
	looks  *rand.Rand // of looks alone, so that what a seed does otherwise stays the same
	looked int        // steps that look at groups, which come on top
	names  []string   // of queues; those that come twice are used more often
	dead   bool       // there are dead-letter queues and move tasks
	past   bool       // there are histories
	tagged bool       // there are other extensions
	holds  bool       // dead letters hold their groups
	large  bool       // more messages than fit into one segment, or move at a time
	opened int        // commands until the turn that the script opened ends
	held   bool       // expiry is paused
	unique int        // deduplication ids used once
	tasks  int        // tried to be started
	calls  int        // whose sends are made in several attempts
	queue  []Step

	fairs map[string]bool // queues that were made fair

	pages      int // of groups, and perhaps as many tokens
	versions   int // of records, about
	selections int // tasks that select and were tried to be started
}

// The queues of a script. The last of each kind is not there from the start.
var (
	standardNames = []string{"a", "a", "a", "b", "b", "c"}
	fifoNames     = []string{"f.fifo", "f.fifo", "f.fifo", "g.fifo", "g.fifo", "h.fifo"}
)

// NewGenerator returns a generator whose script depends on the seed alone.
func NewGenerator(seed uint64) *Generator {
	g := &Generator{r: rand.New(rand.NewPCG(seed, 0)), looks: rand.New(rand.NewPCG(seed, 2)),
		names: standardNames, fairs: make(map[string]bool)}
	switch g.r.IntN(5) {
	case 0:
	case 1:
		g.dead = true
	case 2:
		g.names = fifoNames
	case 3:
		g.names, g.dead = fifoNames, true
	case 4:
		g.names, g.dead = slices.Concat(standardNames, fifoNames), true
	}
	g.past, g.tagged = g.chance(2), g.chance(2)
	g.holds = g.dead && !g.chance(4)
	limit := g.one("3", "4", "20", "100000")
	if g.large = g.chance(60); g.large {
		limit = g.one("20", "100000", "100000")
	}
	g.emit("config in-flight-max=%s purge-interval=%s recreate-delay=%s",
		limit, g.one("0s", "1s", "1m"), g.one("0s", "1s", "1m"))
	first := slices.DeleteFunc([]string{"a", "b", "f.fifo", "g.fifo"}, func(q string) bool {
		return !slices.Contains(g.names, q)
	})
	for _, q := range first {
		g.create(q)
	}
	if g.past {
		g.emit("tag q=%s tenaq:history=8760h", first[0])
	}
	if g.dead {
		for _, q := range first {
			g.emit("set q=%s%s", q, g.policy(q))
			if g.holds && isFIFO(q) && g.chance(2) {
				g.emit("tag q=%s %s=hold-group", q, onDeadLetterTag)
			}
		}
	}
	return g
}

// Next returns the next step of a script. Receipts says how many handles there are by now.
func (g *Generator) Next(receipts int) Step {
	if len(g.queue) == 0 {
		g.more(receipts)
		g.look()
	}
	s := g.queue[0]
	g.queue = g.queue[1:]
	return s
}

// look shows the groups of a FIFO queue now and then, mostly one page of them, which may continue
// an earlier one. [V1-10]
func (g *Generator) look() {
	q := g.names[g.looks.IntN(len(g.names))]
	if !isFIFO(q) || g.looks.IntN(20) > 0 {
		return
	}
	how := []string{"", " page", " page", " locked page", " locked", " group=g1",
		" locked group=g2"}[g.looks.IntN(7)]
	if strings.HasSuffix(how, "page") {
		how += fmt.Sprintf(" max=%d", 1+g.looks.IntN(2))
		if g.looks.IntN(2) == 0 {
			how += fmt.Sprintf(" after=t%d", 1+g.looks.IntN(g.pages+1))
		}
		g.pages++
	}
	g.looked++
	g.emit("groups q=%s%s", q, how)
}

func (g *Generator) emit(format string, args ...any) {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	g.queue = append(g.queue, Step{Pos: "generated", Text: lines[0], Lines: lines[1:]})
}

// chance is true once in n times.
func (g *Generator) chance(n int) bool { return g.r.IntN(n) == 0 }

func (g *Generator) one(list ...string) string { return list[g.r.IntN(len(list))] }

// maybe returns the argument half of the time.
func (g *Generator) maybe(key string, list ...string) string {
	if g.chance(2) {
		return ""
	}
	return " " + key + "=" + g.one(list...)
}

func (g *Generator) name() string { return g.one(g.names...) }

func isFIFO(q string) bool { return strings.HasSuffix(q, ".fifo") }

func (g *Generator) create(q string) {
	if isFIFO(q) {
		g.emit("create q=%s FifoQueue=true%s", q, g.attributes(q))
	} else {
		g.emit("create q=%s%s", q, g.attributes(q))
	}
}

func (g *Generator) attributes(q string) string {
	list := g.maybe("DelaySeconds", "0", "0", "1", "5") +
		g.maybe("VisibilityTimeout", "0", "1", "5", "10", "30") +
		g.maybe("MessageRetentionPeriod", "60", "61", "70", "120", "600", "345600") +
		g.maybe("ReceiveMessageWaitTimeSeconds", "0", "0", "10") +
		g.maybe("MaximumMessageSize", "1024", "1048576", "1048576")
	if isFIFO(q) {
		list += g.maybe("ContentBasedDeduplication", "true", "false") +
			g.maybe("DeduplicationScope", "queue", "messageGroup")
	}
	return list
}

// handle is most often one of the newest, sometimes one of all, seldom none at all.
func (g *Generator) handle(receipts int) string {
	if receipts == 0 || g.chance(200) {
		return "garbage"
	}
	back := 1 + g.r.IntN(min(receipts, 8))
	if g.chance(4) {
		back = 1 + g.r.IntN(receipts)
	}
	return fmt.Sprintf("r%d", receipts+1-back)
}

func (g *Generator) timeout() string {
	if g.chance(60) {
		return g.one("43200", "43199", "40000")
	}
	return g.one("0", "0", "1", "2", "5", "10", "30", "60")
}

func (g *Generator) message(q string) string {
	text := " body=" + g.one("x", "y", "hello")
	switch g.r.IntN(12) {
	case 0:
		text = fmt.Sprintf(" size=%d", 950+g.r.IntN(120))
	case 1:
		text = fmt.Sprintf(" size=%d", 1025+g.r.IntN(3000))
	}
	if g.tagged && !isFIFO(q) && g.chance(4) {
		text = g.leveled()
	} else if g.chance(6) {
		text += " attr=(" + g.one("k:String=v", "k:String=w, n:Number=7", "b:Binary=x",
			"tenaq:String=v=1&reason=no-answer-9&source="+g.written(q),
			"tenaq.dedup-id:String="+g.one("d1", "d2", "d3"), "tenaq.dedup-id:String=d1",
			"tenaq:String=v=1&key="+g.one("w1", "w2", "w%203"),
			"tenaq.delay:String="+g.one("1s", "30s", "2m", "1h"),
			"tenaq:String=v=1&first-sent="+g.one("1", "1767225600000", "1767225601000",
				"9999999999999")) + ")"
	}
	if isFIFO(q) {
		return text + g.ids()
	}
	if g.chance(3) {
		text += " delay=" + g.one("0", "1", "2", "5", "10", "61", "901")
	}
	if g.chance(8) || g.fairs[q] && !g.chance(4) {
		text += " group=g" + g.one("1", "2")
	}
	return text
}

// ids is what a message for a FIFO queue needs, nearly always.
func (g *Generator) ids() (text string) {
	if !g.chance(80) {
		text = " group=" + g.one("g1", "g1", "g2", "g3")
	}
	switch n := g.r.IntN(20); {
	case n < 11:
		g.unique++
		text += fmt.Sprintf(" dedup=u%d", g.unique)
	case n < 18:
		text += " dedup=" + g.one("d1", "d2", "d3", "d4")
	}
	if g.chance(20) {
		text += " delay=" + g.one("0", "0", "2", "901")
	}
	return text
}

// batch returns a command with a line for each of a few entries.
func (g *Generator) batch(command string, entry func() string) {
	var b strings.Builder
	b.WriteString(command)
	for i := range 1 + g.r.IntN(10) {
		fmt.Fprintf(&b, "\nid=%d%s", i, entry())
	}
	g.emit("%s", b.String())
}

func (g *Generator) more(receipts int) {
	if g.opened > 0 {
		if g.opened--; g.opened == 0 {
			g.emit("end")
			return
		}
	}
	q := g.name()
	message := func() string { return g.message(q) }
	switch n := g.r.IntN(1000); {
	case g.past && g.chance(30):
		g.history(q)
	case g.tagged && g.chance(20):
		g.extension(q)
	case g.past && g.chance(40):
		g.replay(q)
	case g.holds && isFIFO(q) && g.chance(20):
		g.holdGroups(q, receipts)
	case g.dead && g.chance(7):
		g.deadStep(q)
	case g.chance(20):
		g.recordStep()
	case g.chance(25):
		g.again(q)
	case n < 200:
		g.emit("send q=%s%s", q, message())
	case n < 260:
		g.batch("send-batch q="+q, message)
	case n < 276:
		g.fill(q)
	case n < 280:
		g.repeat(q, receipts)
	case n < 300:
		g.emit("find m%d", 1+g.r.IntN(1+g.r.IntN(400)))
	case n < 480:
		g.emit("receive q=%s%s%s%s%s%s show=(sent, first, size, seq, dedup, source, story, lineage, trail)", q,
			g.maybe("names", "TenaqReason"),
			g.maybe("max", "1", "2", "3", "10", "10"), g.maybe("vt", g.timeout()), g.maybe("wait",
				"0", "20"), g.attempt(q))
	case g.dead && g.chance(4):
		// Dead-letter queues need messages that are never deleted.
		g.emit("receive q=%s max=10 vt=%s names=TenaqReason show=(seq, source, story)", q,
			g.one("0", "0", "1"))
	case n < 485 && g.large:
		g.emit("receive-many q=%s n=%d vt=%s", q, 1+g.r.IntN(3000), g.timeout())
	case n < 490 && g.large:
		g.emit("drain q=%s n=%d", q, 1+g.r.IntN(2000))
	case n < 500:
		g.recordEnd(q, receipts)
	case n < 590:
		g.emit("delete q=%s r=%s", q, g.handle(receipts))
	case n < 630:
		g.batch("delete-batch q="+q, func() string { return " r=" + g.handle(receipts) })
	case n < 700 && isFIFO(q) && g.chance(5):
		g.emit("release q=%s group=%s", q, g.one("g1", "g1", "g2", "g3"))
	case n < 700:
		g.emit("visibility q=%s r=%s vt=%s", q, g.handle(receipts), g.timeout())
	case n < 715:
		g.batch("nack-batch q="+q, func() string { return g.nack(receipts) })
	case n < 725 && g.dead:
		g.emit("replace q=%s r=%s body=x only-trail=%s%s%s", q, g.handle(receipts), g.trail(),
			g.maybe("to", g.another(q), g.another(q)), g.one(" park", " delay=3", "", ""))
	case n < 730:
		g.batch("visibility-batch q="+q, func() string {
			return " r=" + g.handle(receipts) + " vt=" + g.timeout()
		})
	case n < 775:
		g.emit("counters q=%s", q)
	case n < 790:
		g.emit("survey")
	case n < 810:
		if a := g.attributes(q); a != "" {
			g.emit("set q=%s%s", q, a)
		}
	case n < 815:
		g.emit("purge q=%s", q)
	case n < 835:
		g.create(q)
	case n < 838:
		g.emit("delete-queue q=%s", q)
	case n < 842:
		g.emit("tag q=%s %s=%s", q, g.one("k", "l", "m"), g.one("1", "2"))
		g.emit("tags q=%s", q)
	case n < 844:
		g.history(q)
	case n < 845:
		g.emit("list-queues%s", g.maybe("max", "1", "2"))
	case n < 852:
		if g.opened == 0 {
			g.opened = 2 + g.r.IntN(12)
			g.emit("turn")
		}
	case n < 862:
		g.restart()
	case n < 868:
		g.emit("sweep max=%s", g.one("1", "2", "100"))
	case n < 872 || g.held && n < 890:
		g.held = !g.held
		g.emit("hold %s", map[bool]string{true: "on", false: "off"}[g.held])
	default:
		g.emit("advance %s", g.one("1ms", "1ms", "500ms", "999ms", "1s", "1s", "2s", "5s", "10s",
			"30s", "60s",
			g.one("59.999s", "5m", "1h", "11h59m59s", "12h")))
	}
	if len(g.queue) == 0 {
		g.more(receipts) // what was drawn made no sense here
	}
}

// history switches a history on or off, or searches it. It is longer than any script.
func (g *Generator) history(q string) {
	switch g.r.IntN(12) {
	case 0, 1:
		g.emit("tag q=%s tenaq:history=%s", q, g.one("8760h", "8760h/1TiB"))
	case 2:
		g.emit("untag q=%s tenaq:history", q)
	case 3, 4, 5:
		g.emit("history q=%s show=(sent, received, story)%s", q,
			g.maybe("max", "1", "3", "1000"))
	default:
		g.emit("history q=%s%s%s%s%s%s", q, g.maybe("key", "w1", "w2"),
			g.maybe("group", "g1", "g2"),
			g.maybe("outcome", "deleted", "expired", "moved", "parked"),
			g.maybe("from", "1s", "1m"), g.maybe("text", "x", "l"))
	}
}

func (g *Generator) fill(q string) {
	size := 5 + g.r.IntN(25)
	switch {
	case isFIFO(q):
		if g.large && g.chance(3) {
			size = 100 + g.r.IntN(200)
		}
		g.emit("fill q=%s n=%d body=x groups=%s dedups", q, size, g.one("1", "2", "3", "20"))
		return
	case g.large && g.chance(3):
		size = 1500 + g.r.IntN(2000)
	}
	g.emit("fill q=%s n=%d%s", q, size, g.message(q))
}

// nack ends the receive of a handle with a reason, or without one.
func (g *Generator) nack(receipts int) string {
	verdict := g.one("retry", "retry", "release", "poison", "exhausted")
	text := " r=" + g.handle(receipts) + " verdict=" + verdict +
		g.maybe("class", "Timeout", "Declined") + g.maybe("text", "no", "busy", "gone")
	if verdict == "poison" || verdict == "exhausted" {
		return text + g.maybe("trail", g.trail(), g.trail())
	}
	return text + g.maybe("delay", "0s", "1ms", "1s", "5s", "30s", "12h")
}

// trail is what a worker or a redriver writes into the attribute tenaq.
func (g *Generator) trail() string {
	return "v=1&reason=no-answer-" + g.one("7", "8", fmt.Sprintf("9&x=%0900d", 0)) +
		g.one("", "&redrives=1")
}

// attempt is one of few attempt ids, now and then.
func (g *Generator) attempt(q string) string {
	if !isFIFO(q) || !g.chance(3) {
		return ""
	}
	return " attempt=" + g.one("A", "B")
}

// again sends something in several attempts, whose order may be another one.
func (g *Generator) again(q string) {
	what := g.message(q)
	if g.chance(3) {
		what = ""
		for i := range 1 + g.r.IntN(4) {
			what += fmt.Sprintf("\nid=%d%s", i, g.message(q))
		}
	}
	g.calls++
	call := fmt.Sprintf(" call=c%d", g.calls)
	if g.chance(10) {
		call = " call=c" + g.one("1", "2", "3")
	}
	for range 2 + g.r.IntN(3) {
		try := fmt.Sprintf("%s try=%s", call, g.one("1", "1", "2", "2", "3"))
		if lines, batch := strings.CutPrefix(what, "\n"); batch {
			g.emit("send-batch q=%s%s\n%s", q, try, lines)
		} else {
			g.emit("send q=%s%s%s", q, what, try)
		}
		switch g.r.IntN(8) {
		case 0:
			g.emit("receive q=%s max=10 vt=%s", q, g.timeout())
		case 1:
			g.emit("set q=%s MaximumMessageSize=%s", q, g.one("1024", "1048576"))
		case 2, 3:
			g.emit("advance %s", g.one("1ms", "1s", "1m", "4m", "299999ms", "5m", "6m"))
		case 4:
			g.emit("send q=%s body=x call=c0 try=%s", q, g.one("1", "2"))
		}
		if g.chance(20) {
			g.restart()
		}
	}
}

// repeat makes an attempt to receive, repeats it, and tries the limit of the timeout of what it
// got.
func (g *Generator) repeat(q string, receipts int) {
	if !isFIFO(q) {
		return
	}
	g.emit("receive q=%s vt=%s attempt=C", q, g.timeout())
	g.emit("advance %s", g.one("1ms", "1s", "10s", "4m59s", "5m"))
	g.emit("receive q=%s vt=30 attempt=C", q)
	g.emit("visibility q=%s r=r%d vt=%s", q, receipts+1, g.one("43200", "43199", "42900"))
}

// recordStep makes up a step about records. Their keys are few, so that writers meet, and some are
// the beginning of others.
func (g *Generator) recordStep() {
	key := " k=" + g.one("a", "a", "a/1", "a/2", "b", `"a\xff"`) +
		g.maybe("account", "000000000000", "000000000000", "111111111111")
	version := ""
	if !g.chance(3) {
		back := g.r.IntN(4)
		version = fmt.Sprintf(" if=v%d", max(g.versions-back, 1))
	}
	switch n := g.r.IntN(100); {
	case n < 55:
		g.versions++ // if it succeeds
		g.emit("record-put%s v=%s%s%s", key, g.one("x", "y", "x*300", "x*3000"), version,
			g.maybe("ttl", "1ms", "1s", "2s", "10s", "1h", "2h", "360h"))
	case n < 70:
		g.emit("record-delete%s%s", key, version)
	case n < 85:
		g.emit("record-get%s", key)
	case n < 93:
		g.emit("record-list%s%s%s", g.maybe("prefix", "a", "a/", "b", "c"),
			g.maybe("after", "a", "a/1", "b"), g.maybe("max", "1", "2", "3"))
	default:
		g.emit("record-sweep max=%s", g.one("1", "2", "100"))
	}
}

// recordEnd makes up the write of a record that deletes a message. [REC-15]
func (g *Generator) recordEnd(q string, receipts int) {
	version := ""
	if g.chance(3) {
		version = fmt.Sprintf(" if=v%d", max(g.versions, 1))
	}
	g.versions++
	g.emit("record-put k=%s v=done%s q=%s r=%s", g.one("a", "d", "e"), version, q,
		g.handle(receipts))
}

func (g *Generator) restart() {
	switch {
	case g.opened > 0:
	case g.chance(2):
		g.emit("restart clean down=%s", g.one("0s", "0s", "1s", "30s"))
	default:
		// The stamp makes the grace the same whatever restarts the variant adds.
		g.emit("stamp")
		g.emit("restart unclean down=%s grace=%s", g.one("1ms", "1s", "10s", "2m"),
			g.one("0s", "5s", "60s"))
	}
}
