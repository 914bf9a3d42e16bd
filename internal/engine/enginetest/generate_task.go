package enginetest

import (
	"fmt"
	"strings"
)

// taskStep makes up a step about tasks that select messages.
func (g *Generator) taskStep(q string) {
	switch g.r.IntN(12) {
	case 0, 1, 2, 3:
		g.selections++
		work := g.work(q)
		g.emit("task-start q=%s%s%s%s", q, work, g.filter(q),
			g.maybe("rate", "1", "3", "10", "1000"))
		g.emit("move-step%s", g.maybe("most", "1", "3", "20"))
		if _, to, ok := strings.Cut(work, " to="); ok {
			to, _, _ = strings.Cut(to, " ")
			g.emit("receive q=%s max=10 vt=1", to)
		}
	case 4:
		move := g.one("", "", " back", g.edit(), g.edit()+" to="+g.another(q))
		g.emit("task-count q=%s%s%s%s%s", q, g.maybe("max", "1", "5"), g.one("", " newest"), move,
			g.filter(q))
	case 5:
		g.emit("task-list%s", g.one("", " active", " q="+q))
	case 6:
		g.emit("task-rate task=%s rate=%s by=ops", g.selection(), g.one("0", "2", "100", "501"))
	case 7, 8:
		g.emit("task-%s task=%s", g.one("pause", "resume", "resume", "cancel"), g.selection())
	case 9:
		g.emit("actions max=4")
	case 10:
		g.emit("log-action by=ops name=Purge about=%s", q)
	default:
		g.emit("replace q=%s m=m%d%s%s by=ops", q, 1+g.r.IntN(60), g.message(q),
			g.maybe("to", g.another(q)))
	}
}

// selection names a task that was started, perhaps.
func (g *Generator) selection() string { return fmt.Sprintf("k%d", 1+g.r.IntN(g.selections+1)) }

// work is what a task does.
func (g *Generator) work(q string) string {
	work := g.maybe("max", "1", "5", "100")
	work += g.one("", "", "", " newest")
	switch g.r.IntN(6) {
	case 0:
		return work + fmt.Sprintf(" do=delete confirm=%s", g.one("1", "2", "120", "1000"))
	case 1:
		return work + " do=park to=" + g.another(q)
	case 2:
		return work + " do=move to=" + g.another(q)
	case 3, 4:
		work += g.one("", " delay=0s", " delay=1s", " delay=5s", " delay=10s", " delay=15m1s") +
			g.one("", " to="+g.another(q), " to="+g.another(q)) + g.edit()
	}
	return work
}

// edit is what a move changes in each message, perhaps.
func (g *Generator) edit() string {
	return g.one("", " body=fixed", " size=1500", " attr=(k:String=z)", " without=(k)",
		" body=y attr=(c:Binary=q) without=(k, n)", " without=(tenaq)")
}

// filter is what a task takes: mostly everything.
func (g *Generator) filter(q string) string {
	switch g.r.IntN(13) {
	case 9:
		return " reason=" + g.one("no", "Timeout", "zzz")
	case 10:
		return " kind-of=" + g.one("no-answer-7", "zzz")
	case 8:
		return " with=(k=" + g.one("v", "w") + ")"
	case 0:
		return " text=" + g.one("x", "ell", "zzz")
	case 1:
		return " group=" + g.one("g1", "g2", "a")
	case 2:
		return " receives=" + g.one("1", "2")
	case 3:
		return " receives-max=" + g.one("1", "3")
	case 4:
		return " older=" + g.one("1s", "10s", "1m")
	case 5:
		return " younger=" + g.one("1s", "10s", "1m")
	case 6:
		return " from=" + g.another(q)
	case 7:
		return fmt.Sprintf(" m=m%d", 1+g.r.IntN(40))
	}
	return ""
}

// written is the source that a worker wrote into its dead letter.
func (g *Generator) written(q string) string {
	name := standardNames[0]
	if isFIFO(q) {
		name = fifoNames[0]
	}
	return "arn%3Aaws%3Asqs%3Aus-east-1%3A" + accountDefault + "%3A" + name
}

// replay makes up a replay, a few of its steps, and what else may happen to it.
func (g *Generator) replay(q string) {
	if !g.chance(4) { // mostly a queue that has had a history for long
		q = g.names[0]
	}
	what := g.replayFilter() + g.maybe("to", g.another(q))
	if g.chance(3) {
		what += " missing"
	}
	if g.chance(3) {
		g.emit("task-count q=%s replay%s%s", q, g.maybe("max", "1", "5"), what)
		return
	}
	g.selections++
	g.emit("task-start q=%s do=replay%s%s%s", q, g.maybe("max", "1", "5", "100"),
		g.maybe("rate", "1", "10", "1000"), what)
	switch g.r.IntN(8) {
	case 0:
		g.emit("task-%s task=%s", g.one("pause", "cancel"), g.selection())
	case 1:
		g.emit("untag q=%s tenaq:history", q)
		g.emit("tag q=%s tenaq:history=8760h", q)
	case 2:
		g.emit("send q=%s%s", q, g.message(q))
		g.emit("drain q=%s n=3", q)
	}
	for range 1 + g.r.IntN(3) {
		g.emit("move-step%s", g.maybe("most", "1", "3", "20"))
	}
	if g.chance(2) {
		g.emit("drain q=%s n=%d", q, 1+g.r.IntN(20))
	}
}

// replayFilter is which outcomes a replay is about.
func (g *Generator) replayFilter() string {
	switch g.r.IntN(14) {
	case 0, 1:
		return " outcome=" + g.one("expired", "dead_lettered", "moved", "parked", "replaced",
			"removed")
	case 2:
		return " text=" + g.one("x", "ell", "zzz")
	case 3:
		return " group=" + g.one("g1", "g2")
	case 4:
		return " key=" + g.one("w1", "w2", "w1")
	case 5, 6:
		return g.maybe("older", "1s", "10s", "1m") + g.maybe("younger", "1m1s", "1h", "12h")
	case 7:
		return fmt.Sprintf(" m=m%d", 1+g.r.IntN(40))
	case 8:
		return " reason=" + g.one("no", "Timeout")
	case 9:
		return " with=(k=" + g.one("v", "w") + ")"
	}
	return ""
}
