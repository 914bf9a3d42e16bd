package monitor

import (
	"context"
	"fmt"
	"time"

	"tenaq/internal/observe/alarm"
)

// Try runs an action once with a test notice. The reason of a failure is in the log only, because
// it may show parts of the configuration. Errors are ErrNoAction for an action that is not
// declared, ErrBusy while another test of it runs, and ErrAction. [ALARM-43]
func (m *Monitor) Try(ctx context.Context, action string) error {
	r := m.runs[ActionName(action)]
	if r == nil {
		return fmt.Errorf("%w: %s", ErrNoAction, m.undeclared(action))
	}
	if !r.testing.TryLock() {
		return fmt.Errorf("%w: a test of %s is in progress; try again when it is done", ErrBusy, r.name)
	}
	defer r.testing.Unlock()
	err := r.attempt(ctx, []*Notice{{
		Alarm: "test", Description: "An operator is testing whether notices arrive.",
		State: alarm.Alarm, Was: alarm.OK,
		Reason: "This is a test. Nothing needs to be done.",
		At:     m.Now().UTC().Truncate(time.Millisecond),
	}})
	if err == nil {
		return nil
	}
	m.cfg.Logger.Warn("test of an action failed", "action", r.name, "error", err)
	return fmt.Errorf("%w: the log of the server has the reason", ErrAction)
}
