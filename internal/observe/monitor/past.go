package monitor

import (
	"cmp"
	"time"

	"tenaq/internal/observe/series"
)

// A Past is what queues were in some periods of the same length, up to the last minute that has
// ended.
type Past struct {
	From    time.Time // when the first period began
	Period  time.Duration
	Periods int
	Since   time.Time            // when the monitor began: of earlier it knows nothing
	Queues  map[string]QueuePast // that have data in one of the periods, by name
}

// A QueuePast has a value for each period, nil where the queue has no data. Rates are means of the
// minutes that have data, and the others the greatest value.
type QueuePast struct {
	SentPerS, ReceivedPerS, DeletedPerS []*float64
	Visible, InFlight, Delayed, AgeMS   []*float64
}

// pastMinutes is the longest time of which a Past has every minute. Of a longer one, a period has
// five.
const pastMinutes = 6 * time.Hour

// Past returns what queues were in the last time, which is at most a day. It looks at these queues
// and at no other.
func (m *Monitor) Past(queues []string, last time.Duration) Past {
	m.seen.Lock()
	to := cmp.Or(m.sights.minute, m.minute()) // this minute has no data before its end
	m.seen.Unlock()
	period := int64(series.Minute)
	if last > pastMinutes {
		period *= 5
	}
	n := (last.Milliseconds() + period - 1) / period
	from := to - n*period
	p := Past{From: m.wall(from), Period: m.real(time.Duration(period) * time.Millisecond),
		Periods: int(n), Since: m.began, Queues: make(map[string]QueuePast)}
	for _, queue := range queues {
		var q QueuePast
		found := false
		read := func(into *[]*float64, namespace, name string, stat series.Stat, unit float64) {
			*into = make([]*float64, n)
			metric := ofQueue(namespace, name, queue)
			for _, point := range m.series.Points(metric, stat, period/1000, from, to) {
				(*into)[(point.At-from)/period], found = new(point.Value*unit), true
			}
		}
		perS := 1 / m.cfg.Minute.Seconds()
		read(&q.SentPerS, awsSQS, nameSent, series.Average, perS)
		read(&q.ReceivedPerS, awsSQS, nameReceived, series.Average, perS)
		read(&q.DeletedPerS, awsSQS, nameDeleted, series.Average, perS)
		read(&q.Visible, awsSQS, nameVisible, series.Maximum, 1)
		read(&q.InFlight, awsSQS, nameInFlight, series.Maximum, 1)
		read(&q.Delayed, awsSQS, nameDelayed, series.Maximum, 1)
		read(&q.AgeMS, tenaqSQS, nameAge, series.Maximum, 1000)
		if found {
			p.Queues[queue] = q
		}
	}
	return p
}

// wall is when a moment of the time of the alarms is by the clock on the wall.
func (m *Monitor) wall(ms int64) time.Time {
	at := time.UnixMilli(ms)
	if m.cfg.Minute == time.Minute {
		return at
	}
	return m.began.Add(m.real(at.Sub(m.began)))
}
