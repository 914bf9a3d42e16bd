package stage

import (
	"context"
	"runtime"
	"sync"
)

// An Act is the work of a scenario, or of one of its processes. It ends as a whole when a part of
// it fails, as a test does.
type Act struct {
	Ctx    context.Context // ends when the act fails
	cancel context.CancelCauseFunc

	mu  sync.Mutex
	err error // the first failure
}

func newAct(ctx context.Context) *Act {
	a := &Act{}
	a.Ctx, a.cancel = context.WithCancelCause(ctx)
	return a
}

// Fail ends the act, unless err is nil.
func (a *Act) Fail(err error) {
	if err == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
	}
	a.cancel(err)
}

// Must ends the act and the goroutine, as testing.T.FailNow does, unless err is nil.
func (a *Act) Must(err error) {
	if err != nil {
		a.Fail(err)
		runtime.Goexit()
	}
}

// Failure returns why the act has failed.
func (a *Act) Failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Play runs a part, and returns when it has come to its end or failed.
func (a *Act) Play(part func()) { <-start(part) }

// Beside runs a part beside the story, and returns what waits for its end.
func (a *Act) Beside(part func()) (wait func()) {
	ended := start(part)
	return func() {
		<-ended
		a.Must(a.Failure())
	}
}

func start(part func()) (ended chan struct{}) {
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		part()
	}()
	return ended
}
