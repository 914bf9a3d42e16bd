package v1

import (
	"time"

	"tenaq/internal/observe/monitor"
)

// An outbox is in the database of a program, and its relay elsewhere. The server knows what relays
// report to it each minute.

type outboxList struct {
	Outboxes []outbox `json:"outboxes"`
}

// An outbox is what its relays reported last. What an earlier relay does not report is null.
type outbox struct {
	Name        string  `json:"name"`
	Reported    *string `json:"reported" doc:"when, to the minute"`
	OldestDueMS int64   `json:"oldestDueMs" doc:"for how long the oldest due row has been due; 0 if none is"`
	Parked      *int64  `json:"parked" doc:"rows that were set aside"`
	Pending     *int64  `json:"pending" doc:"rows that are not sent"`
	Due         *int64  `json:"due" doc:"rows that could be sent now"`
}

// lately is when a relay that works has reported last. Earlier minutes are read for others only.
const lately = 5 * time.Minute

// outboxes answers GET /v1/outbox. [V1-18]
func (c *call) outboxes(none) (list outboxList, err error) {
	m := c.cfg.Monitor
	list.Outboxes = []outbox{}
	for _, name := range m.Outboxes() {
		within := lately
		told := m.Told(monitor.Relays, monitor.DueAge, name, within)
		if len(told) == 0 {
			within = monitor.Day
			told = m.Told(monitor.Relays, monitor.DueAge, name, within)
		}
		if len(told) == 0 {
			continue // the day has just ended
		}
		last := told[len(told)-1]
		rows := func(metric string) *int64 {
			for _, t := range m.Told(monitor.Relays, metric, name, within) {
				if t.At == last.At {
					rows := int64(t.Most)
					return &rows
				}
			}
			return nil
		}
		list.Outboxes = append(list.Outboxes, outbox{
			Name: name, Reported: timeText(last.At), OldestDueMS: int64(1000 * last.Most),
			Parked: rows(monitor.ParkedRows), Pending: rows(monitor.PendingRows),
			Due: rows(monitor.DueRows),
		})
	}
	return list, nil
}
