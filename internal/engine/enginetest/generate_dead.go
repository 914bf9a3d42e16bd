package enginetest

import "fmt"

// another returns a queue that may be the dead-letter queue of q: another one of its type, or
// itself.
func (g *Generator) another(q string) string {
	if isFIFO(q) {
		return g.one(fifoNames...)
	}
	return g.one(standardNames...)
}

// policy is a redrive policy for a queue, or the end of one. Rings and chains come by themselves,
// and so do targets that are not there.
func (g *Generator) policy(q string) string {
	if g.chance(8) {
		return ` RedrivePolicy=""`
	}
	target := g.another(q)
	if g.chance(100) {
		target = g.name() // perhaps one of the other type
	}
	return fmt.Sprintf(" redrive=(%s, %s)", target, g.one("1", "1", "2", "3"))
}

// deadStep makes up a step about dead-letter queues and move tasks.
func (g *Generator) deadStep(q string) {
	switch n := g.r.IntN(100); {
	case n < 20:
		if g.chance(10) {
			g.emit("create q=%s%s%s", q, map[bool]string{true: " FifoQueue=true"}[isFIFO(q)],
				g.policy(q))
		} else {
			g.emit("set q=%s%s", q, g.policy(q))
		}
	case n < 25:
		g.emit("sources q=%s%s", q, g.maybe("max", "1", "2"))
	case n < 40:
		g.moveStart(q)
	case n < 50:
		g.emit("move-list source=%s max=10", q)
	case n < 55:
		g.emit("move-cancel task=task%d", 1+g.r.IntN(g.tasks+1))
	case n < 60:
		g.exhaust(q)
	case n < 61:
		g.emit("advance %s", g.one("12h", "35h59m59s", "36h")) // how long a task may run
	case n < 78:
		g.taskStep(q)
	default:
		g.emit("move-step%s", g.maybe("most", "1", "3", "20"))
	}
}

func (g *Generator) moveStart(q string) {
	g.tasks++
	to := ""
	if g.chance(2) {
		to = " to=" + g.another(q)
		if g.chance(100) {
			to = " to=" + g.name()
		}
	}
	g.emit("move-start source=%s%s%s", q, to,
		g.maybe("rate", "1", "2", "3", "7", "10", "100", "500"))
}

// exhaust makes one queue full of messages that were received too often: a receive of another moves
// them there, and the next receive moves them all at once. In large scripts they are more than one
// step can move.
func (g *Generator) exhaust(q string) {
	n := 3 + g.r.IntN(12)
	if g.large {
		n = 110 + g.r.IntN(200)
	}
	to := g.another(q)
	g.emit("set q=%s redrive=(%s, 1)", q, to)
	if isFIFO(q) {
		g.emit("fill q=%s n=%d body=x groups=%s dedups", q, n, g.one("1", "2", "3", "20"))
	} else {
		g.emit("fill q=%s n=%d body=x", q, n)
	}
	g.emit("advance %s", g.one("1ms", "1s", "5s"))
	g.emit("receive-many q=%s n=%d vt=%s", q, n, g.one("0", "0", "1"))
	g.emit("advance 1s")
	g.emit("receive q=%s max=%s", q, g.one("1", "10"))
	g.emit("counters q=%s", to)
	if g.chance(2) {
		g.emit("set q=%s redrive=(%s, 1)", to, g.another(q))
		g.emit("receive q=%s max=%s", to, g.one("1", "3", "10"))
	}
	if g.chance(2) {
		g.moveStart(to)
		g.emit("move-step%s", g.maybe("most", "1", "3", "20"))
		g.emit("move-list source=%s max=10", to)
		g.emit("set q=%s DelaySeconds=%s", q, g.one("0", "1", "5"))
		g.emit("counters q=%s", q)
	}
}
