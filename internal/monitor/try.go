package monitor

import (
	"context"
	"fmt"
	"time"

	"tenaq/internal/alarm"
)

// Try runs an action once with a notice that says that it is a test, and returns what went wrong. It fails with
// ErrNotFound when the configuration declares no such action.
func (m *Monitor) Try(ctx context.Context, action string) error {
	r := m.runs[ActionName(action)]
	if r == nil {
		return fmt.Errorf("%w: there is no action %q: declare it in the configuration of the server", ErrNotFound, action)
	}
	return r.attempt(ctx, &Notice{
		Alarm: "test", Description: "Somebody tries out whether notices arrive.", State: alarm.Alarm, Was: alarm.OK,
		Reason: "This is a test, there is nothing to be done.", At: m.Now().UTC().Truncate(time.Millisecond),
	})
}
