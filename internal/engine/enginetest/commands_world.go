package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"tenaq/internal/engine"
)

// advance lets time pass.
func (p *Player) advance(a *args, _ []string) (string, error) {
	d, err := time.ParseDuration(a.word())
	if err != nil || d < 0 {
		return "", errors.New("advance needs a duration")
	}
	p.now += d.Milliseconds()
	return "", a.done()
}

// holdExpiry says whether the clock is to be trusted.
func (p *Player) holdExpiry(a *args, _ []string) (string, error) {
	switch word := a.word(); word {
	case "on", "off":
		p.hold = word == "on"
	default:
		return "", errors.New("hold is on or off")
	}
	return "", a.done()
}

// config changes settings of the server, which takes a restart.
func (p *Player) config(a *args, _ []string) (string, error) {
	if n := a.number("in-flight-max"); n.Set {
		p.cfg.InFlightMax = n.Value
	}
	ms := func(key string, v *int64) { *v = a.millis(key, time.Duration(*v)*time.Millisecond) }
	ms("purge-interval", &p.cfg.PurgeInterval)
	ms("recreate-delay", &p.cfg.RecreateDelay)
	if err := a.done(); err != nil {
		return "", err
	}
	p.machine.Stop(p.now, true)
	p.machine.Start(p.cfg, p.now, graceDefault.Milliseconds())
	return "", nil
}

// graceDefault bounds the visibility grace where a script does not say otherwise.
const graceDefault = time.Minute

// restart stops the server, cleanly or not, and starts it again after it was down for a while.
func (p *Player) restart(a *args, _ []string) (string, error) {
	clean := true
	switch word := a.word(); word {
	case "", "clean":
	case "unclean":
		clean = false
	default:
		return "", fmt.Errorf("cannot restart %s", word)
	}
	grace, down := a.millis("grace", graceDefault), a.millis("down", 0)
	if err := a.done(); err != nil {
		return "", err
	}
	p.machine.Stop(p.now, clean)
	p.now += down
	p.machine.Start(p.cfg, p.now, grace)
	return "", nil
}

// stamp stores the time, as the server does every few seconds.
func (p *Player) stamp(a *args, _ []string) (string, error) {
	return p.simple(a, &engine.Stamp{})
}

// sweep visits every queue, max of them at a time.
func (p *Player) sweep(a *args, _ []string) (string, error) {
	size := a.number("max")
	if !size.Set {
		size.Value = 100
	}
	if err := a.done(); err != nil {
		return "", err
	}
	op := &engine.Sweep{Max: int(size.Value)}
	// How many pages there are depends on how many graves are still there, and the seeds of what
	// follows must not.
	defer func(count uint64) { p.count = count + 1 }(p.count)
	for range 10_000 {
		refusal, err := p.do(op)
		if refusal != "" || err != nil || !op.More {
			return refusal, err
		}
		op.After = op.Last
	}
	return "", errors.New("the sweep does not end")
}

func (p *Player) beginTurn(a *args, _ []string) (string, error) {
	if p.world != nil {
		p.world.hold(true)
	}
	return "", a.done()
}

func (p *Player) endTurn(a *args, _ []string) (string, error) {
	if p.world != nil {
		p.world.hold(false)
	}
	return "", a.done()
}

// rows says how many rows of each kind the store has for messages.
func (p *Player) rows(a *args, _ []string) (string, error) {
	if p.world == nil {
		return "", errors.New("only an engine has rows")
	}
	return p.world.rows(), a.done()
}

// stirred names the queues that something happened to since it was last asked.
func (p *Player) stirred(a *args, _ []string) (string, error) {
	if p.world == nil {
		return "", errors.New("only an engine has stirred queues")
	}
	return strings.Join(p.world.takeStirred(), "\n"), a.done()
}
