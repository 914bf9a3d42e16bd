package enginetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A Generator makes up scripts of standard queues. Its numbers are few and round, so that deadlines
// meet each other and the moments at which somebody looks.
type Generator struct {
	r      *rand.Rand
	large  bool // more messages than fit into one segment
	opened int  // commands until the turn that the script opened ends
	held   bool // expiry is held
	queue  []Step
}

// NewGenerator returns a generator whose script depends on the seed alone.
func NewGenerator(seed uint64) *Generator {
	g := &Generator{r: rand.New(rand.NewPCG(seed, 0))}
	g.large = g.chance(60)
	g.emit("config in-flight-max=%s purge-interval=%s recreate-delay=%s",
		g.one("3", "4", "20", "100000"), g.one("0s", "1s", "1m"), g.one("0s", "1s", "1m"))
	for _, q := range []string{"a", "b"} {
		g.emit("create q=%s%s", q, g.attributes())
	}
	return g
}

// Next returns the next step of a script. Receipts says how many handles there are by now.
func (g *Generator) Next(receipts int) Step {
	if len(g.queue) == 0 {
		g.more(receipts)
	}
	s := g.queue[0]
	g.queue = g.queue[1:]
	return s
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

func (g *Generator) name() string { return g.one("a", "a", "a", "b", "b", "c") }

func (g *Generator) attributes() string {
	return g.maybe("DelaySeconds", "0", "0", "1", "5") +
		g.maybe("VisibilityTimeout", "0", "1", "5", "10", "30") +
		g.maybe("MessageRetentionPeriod", "60", "61", "70", "120", "600", "345600") +
		g.maybe("ReceiveMessageWaitTimeSeconds", "0", "0", "10") +
		g.maybe("MaximumMessageSize", "1024", "1048576", "1048576")
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

func (g *Generator) message() string {
	body := " body=" + g.one("x", "y", "hello")
	switch g.r.IntN(12) {
	case 0:
		body = fmt.Sprintf(" size=%d", 950+g.r.IntN(120))
	case 1:
		body = fmt.Sprintf(" size=%d", 1025+g.r.IntN(3000))
	}
	if g.chance(3) {
		body += " delay=" + g.one("0", "1", "2", "5", "10", "61", "901")
	}
	if g.chance(8) {
		body += " group=g" + g.one("1", "2")
	}
	return body
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
	switch n := g.r.IntN(1000); {
	case n < 200:
		g.emit("send q=%s%s", q, g.message())
	case n < 260:
		g.batch("send-batch q="+q, g.message)
	case n < 280:
		size := 5 + g.r.IntN(25)
		if g.large && g.chance(3) {
			size = 1500 + g.r.IntN(2000)
		}
		g.emit("fill q=%s n=%d%s", q, size, g.message())
	case n < 480:
		g.emit("receive q=%s%s%s%s show=(sent, first, size)", q,
			g.maybe("max", "1", "2", "3", "10", "10"), g.maybe("vt", g.timeout()), g.maybe("wait", "0", "20"))
	case n < 485 && g.large:
		g.emit("receive-many q=%s n=%d vt=%s", q, 1+g.r.IntN(3000), g.timeout())
	case n < 490 && g.large:
		g.emit("drain q=%s n=%d", q, 1+g.r.IntN(2000))
	case n < 590:
		g.emit("delete q=%s r=%s", q, g.handle(receipts))
	case n < 630:
		g.batch("delete-batch q="+q, func() string { return " r=" + g.handle(receipts) })
	case n < 700:
		g.emit("visibility q=%s r=%s vt=%s", q, g.handle(receipts), g.timeout())
	case n < 730:
		g.batch("visibility-batch q="+q, func() string { return " r=" + g.handle(receipts) + " vt=" + g.timeout() })
	case n < 790:
		g.emit("counters q=%s", q)
	case n < 810:
		if a := g.attributes(); a != "" {
			g.emit("set q=%s%s", q, a)
		}
	case n < 815:
		g.emit("purge q=%s", q)
	case n < 825:
		g.emit("create q=%s%s", q, g.attributes())
	case n < 828:
		g.emit("delete-queue q=%s", q)
	case n < 832:
		g.emit("tag q=%s %s=%s", q, g.one("k", "l", "m"), g.one("1", "2"))
		g.emit("tags q=%s", q)
	case n < 835:
		g.emit("list-queues%s", g.maybe("max", "1", "2"))
	case n < 842:
		if g.opened == 0 {
			g.opened = 2 + g.r.IntN(12)
			g.emit("turn")
		}
	case n < 852:
		switch {
		case g.opened > 0:
		case g.chance(2):
			g.emit("restart clean down=%s", g.one("0s", "0s", "1s", "30s"))
		default:
			// The stamp makes the grace the same whatever restarts the variant adds.
			g.emit("stamp")
			g.emit("restart unclean down=%s grace=%s", g.one("1ms", "1s", "10s", "2m"), g.one("0s", "5s", "60s"))
		}
	case n < 858:
		g.emit("sweep max=%s", g.one("1", "2", "100"))
	case n < 862 || g.held && n < 880:
		g.held = !g.held
		g.emit("hold %s", map[bool]string{true: "on", false: "off"}[g.held])
	default:
		g.emit("advance %s", g.one("1ms", "1ms", "500ms", "999ms", "1s", "1s", "2s", "5s", "10s", "30s", "60s",
			g.one("59.999s", "5m", "1h", "11h59m59s", "12h")))
	}
	if len(g.queue) == 0 {
		g.more(receipts) // what was drawn made no sense here
	}
}
