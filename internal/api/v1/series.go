package v1

import (
	"time"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/observe/monitor"
)

// Bounds of GET /v1/series.
const (
	seriesQueues    = 100
	seriesMost      = monitor.Day
	seriesOfSeveral = time.Hour // at most, of more than one queue
)

// A seriesList is the answer to GET /v1/series.
type seriesList struct {
	From     time.Time `json:"from" doc:"when the first period began"`
	PeriodMS int64     `json:"periodMs" doc:"a minute; five minutes of more than six hours"`
	Periods  int       `json:"periods" doc:"up to the last minute that has ended"`
	Since    time.Time `json:"since" doc:"when the server started; nothing earlier is known"`

	Queues map[string]queueSeries `json:"queues" doc:"by name, without those that have no data"`
}

// A queueSeries has a value for each period. It is null where the server has no data.
type queueSeries struct {
	SentPerS     []*float64 `json:"sentPerS" doc:"rates are means of the period"`
	ReceivedPerS []*float64 `json:"receivedPerS"`
	DeletedPerS  []*float64 `json:"deletedPerS"`
	Visible      []*float64 `json:"visible" doc:"the most that there were, like the next ones"`
	InFlight     []*float64 `json:"inFlight"`
	Delayed      []*float64 `json:"delayed"`
	AgeMS        []*float64 `json:"oldestAgeMs" doc:"to the second"`
}

type seriesIn struct {
	Queues string        `query:"queues" doc:"names between commas, at most 100"`
	Last   time.Duration `query:"last" default:"1h" doc:"up to 24h, and 1h of more than one queue"`
}

// series answers GET /v1/series. [V1-19]
func (c *call) series(in seriesIn) (list seriesList, err error) {
	names := namesIn(in.Queues)
	most, want := seriesMost, "a duration from 1m to 24h, and to 1h of more than one queue"
	if len(names) > 1 {
		most = seriesOfSeveral
	}
	switch {
	case c.principal.Account() != c.cfg.Door.Account():
		return list, sqswire.Errorf(sqswire.InvalidParameterValue,
			"Only the queues of the server's own account have series.")
	case len(names) == 0 || len(names) > seriesQueues:
		return list, sqswire.Errorf(sqswire.InvalidParameterValue,
			"The parameter queues has %d names: give it 1 to %d.", len(names), seriesQueues)
	case in.Last < time.Minute || in.Last > most:
		return list, errValue("last", in.Last.String(), want)
	}
	past := c.cfg.Monitor.Past(names, in.Last)
	utc := func(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
	list = seriesList{From: utc(past.From), PeriodMS: past.Period.Milliseconds(),
		Periods: past.Periods, Since: utc(past.Since), Queues: make(map[string]queueSeries)}
	for name, q := range past.Queues {
		list.Queues[name] = queueSeries(q)
	}
	return list, nil
}
