package broker

import (
	"math/rand/v2"
	"time"
)

// A meddler sets the wall clock of a machine, while it runs and while it is off.
type meddler struct {
	rng     *rand.Rand
	wall    *wall
	right   time.Duration // offset of the wall clock when it is right
	most    time.Duration // it is never further from that
	running []time.Duration
	off     []time.Duration
	long    bool // the machine is off for hours, now and then
	steps   int
}

// newMeddler returns one with habits of its own. Some leave the clock alone.
func newMeddler(rng *rand.Rand, most time.Duration) *meddler {
	m := &meddler{rng: rng, wall: newWall(), most: most, long: rng.IntN(4) == 0}
	m.right = m.wall.ahead()
	drift := []time.Duration{10 * time.Millisecond, -10 * time.Millisecond, 300 * time.Millisecond, -300 * time.Millisecond}
	switch rng.IntN(8) {
	case 0, 1, 2:
	case 3:
		m.running, m.off = drift, drift
	case 4:
		m.running = steps[1:]
	case 5:
		m.off = steps[1:]
	case 6:
		m.running, m.off = steps[1:], []time.Duration{5 * time.Minute, -5 * time.Minute, day, -day}
	case 7:
		m.running, m.off = append(steps[1:], drift...), steps[1:]
	}
	return m
}

// choose returns how the clock is set next, zero for not at all.
func (m *meddler) choose(from []time.Duration) time.Duration {
	if len(from) == 0 {
		return 0
	}
	by := from[m.rng.IntN(len(from))]
	if (m.wall.ahead() - m.right + by).Abs() > m.most {
		return 0
	}
	return by
}

// meddle sets the clock now and then until the machine is off or stops, one step alone or several
// in a row.
func (m *meddler) meddle(h *history, off, stopped <-chan struct{}) {
	sleep := func(mean time.Duration) bool {
		timer := time.NewTimer(time.Duration(m.rng.ExpFloat64() * float64(mean)))
		defer timer.Stop()
		select {
		case <-off:
			return false
		case <-stopped:
			return false
		case <-timer.C:
			return true
		}
	}
	for len(m.running) > 0 && sleep(15*time.Second) {
		for row := 1 + m.rng.IntN(2)*m.rng.IntN(10); row > 0; row-- {
			if by := m.choose(m.running); by != 0 {
				h.step(m.wall, by)
				m.steps++
			}
			if row > 1 && !sleep(500*time.Millisecond) {
				return
			}
		}
	}
}

// pause lets the machine be off for a while.
func (m *meddler) pause() {
	mean := 10 * time.Second
	if m.long && m.rng.IntN(3) == 0 {
		mean = []time.Duration{20 * time.Minute, 2 * time.Hour, 12 * time.Hour}[m.rng.IntN(3)]
	}
	if m.rng.IntN(4) > 0 {
		time.Sleep(time.Duration(m.rng.ExpFloat64() * float64(mean)))
	}
	if m.rng.IntN(2) == 0 {
		if by := m.choose(m.off); by != 0 {
			m.wall.step(by)
			m.steps++
		}
	}
}
