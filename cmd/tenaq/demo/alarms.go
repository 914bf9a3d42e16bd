package demo

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/demo/order"
)

// demoMinute is how long a minute of the alarms takes in a demo, whose incidents are over in seconds.
const demoMinute = time.Second

// firedAlarms returns the names of the alarms that the server has raised. Those that what has just happened raises are
// among them: it waits for two of its minutes.
func (s *demoSQS) firedAlarms(ctx context.Context) (names []string, err error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(2*demoMinute + demoMinute/4):
	}
	v := &cli.V1Client{C: &cli.Client{Endpoint: cli.Endpoint{URL: s.endpoint, Origin: "the demo"}, Timeout: 10 * time.Second}, HTTP: http.DefaultClient, Lack: "has no alarms"}
	var history cli.AlarmHistory
	if err := v.Get(ctx, "look at the alarms", "", "/alarms/history", nil, &history); err != nil {
		return nil, err
	}
	for _, c := range history.Changes {
		if c.State == "ALARM" && !slices.Contains(names, c.Alarm) {
			names = append(names, c.Alarm)
		}
	}
	return names, nil
}

// alarmRow shows which alarms there were. It is one of a server of the demo's own.
func (s *demoSQS) alarmRow(ctx context.Context) demoRow {
	const check = "alarms that fired"
	if s.server == nil {
		return skippedRow(check, "they are those of a tenaq server")
	}
	names, err := s.firedAlarms(ctx)
	switch {
	case err != nil:
		return wantRow(check, "known", err)
	case len(names) == 0:
		return shownRow(check, "none")
	}
	return shownRow(check, strings.Join(names, ", "))
}

// orderAlarmRows shows that the usual workers would have been noticed, and that ours do not look like them.
func (s *demoSQS) orderAlarmRows(ctx context.Context, usual, ours string, broken order.Breakage) []demoRow {
	rows := []demoRow{s.alarmRow(ctx)}
	if s.server == nil || broken != order.Nothing {
		return rows
	}
	fired := func(queue, kind string) string {
		if strings.Contains(" "+strings.ReplaceAll(rows[0].Got, ",", "")+" ", " "+queue+"/"+kind+" ") {
			return "fired"
		}
		return "silent"
	}
	return append(rows,
		wantRow("as usual: alarm on work done twice", "fired", fired(usual, "double-deletes")),
		wantRow("as usual: alarm on visibility timeouts that end too early", "fired", fired(usual, "timed-out")),
		wantRow("with claims: alarm on work done twice", "silent", fired(ours, "double-deletes")),
	)
}
