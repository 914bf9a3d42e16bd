package http1

import "time"

// A deadline is that of the reads or of the writes of a connection. It is moved only if it has to
// be, because each move is work for the runtime.
type deadline struct {
	set   func(time.Time) error
	at    time.Time // where it is
	least time.Time // where it is wanted
	slack time.Duration
}

// want sets the time of the deadline, which may be up to slack later. The next apply moves it.
func (d *deadline) want(t time.Time, slack time.Duration) { d.least, d.slack = t, slack }

// within is want for a limit that begins now; zero means no deadline.
func (d *deadline) within(limit time.Duration, now time.Time, slack time.Duration) {
	if d.want(time.Time{}, 0); limit > 0 {
		d.want(now.Add(limit), slack)
	}
}

func (d *deadline) apply() {
	switch {
	case d.least.IsZero():
		if !d.at.IsZero() {
			d.move(time.Time{})
		}
	case d.at.Before(d.least), d.at.Sub(d.least) > d.slack:
		d.move(d.least.Add(d.slack))
	}
}

func (d *deadline) move(t time.Time) {
	d.at = t
	_ = d.set(t) // reads and writes of a closed connection fail by themselves
}
