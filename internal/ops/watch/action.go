package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/work/group"
)

// Bounds of actions. The pause between two attempts doubles.
const (
	attempts   = 4
	attemptMax = 30 * time.Second
	firstPause = time.Second
	farewell   = 10 * time.Second // for notices that wait when the command ends
	waitingMax = 256
	answerMax  = 512 // bytes of the output of an action that are shown
)

// An action reports a change. Its errors name the action without secrets.
type action func(ctx context.Context, n *Notice) error

func execAction(command string) action {
	return func(ctx context.Context, n *Notice) error {
		text, err := json.Marshal(n)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
		cmd.Env = append(os.Environ(), "TENAQ_ALARM="+n.Alarm, "TENAQ_QUEUE="+n.Queue,
			"TENAQ_STATE="+string(n.State))
		cmd.Stdin = bytes.NewReader(append(text, '\n'))
		var said limitedBuffer
		cmd.Stdout, cmd.Stderr = &said, &said
		group.Lead(cmd) // children of the shell are killed, too
		cmd.WaitDelay = time.Second
		if err := cmd.Run(); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("--exec: %w%s", err, said.text())
		}
		return nil
	}
}

// webhookAction posts the notice as text, as Slack expects.
func webhookAction(url string) action {
	client := &http.Client{
		// Notices go to the given URL only.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	return func(ctx context.Context, n *Notice) error {
		body, err := json.Marshal(map[string]string{"text": n.Text()})
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return errors.New("--webhook: the URL cannot be used")
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			if inner := errors.Unwrap(err); inner != nil {
				err = inner // without the URL
			}
			return fmt.Errorf("--webhook: %w", err)
		}
		defer resp.Body.Close()
		var said limitedBuffer
		_, _ = io.Copy(&said, io.LimitReader(resp.Body, answerMax))
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("--webhook: it answered %s%s", resp.Status, said.text())
		}
		return nil
	}
}

// A limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct{ b []byte }

func (l *limitedBuffer) Write(p []byte) (int, error) {
	l.b = append(l.b, p[:min(len(p), answerMax-len(l.b))]...)
	return len(p), nil
}

func (l *limitedBuffer) text() string {
	if t := strings.TrimSpace(string(l.b)); t != "" {
		return ": " + t
	}
	return ""
}

type runner struct {
	*cli.App
	actions []action
	notices chan Notice
	ended   chan struct{}

	mu   sync.Mutex
	lost int
}

func newRunner(a *cli.App, actions []action) *runner {
	return &runner{App: a, actions: actions, notices: make(chan Notice, waitingMax),
		ended: make(chan struct{})}
}

// hand gives a notice to the actions, without waiting for them.
func (r *runner) hand(n Notice) {
	if len(r.actions) == 0 {
		return
	}
	select {
	case r.notices <- n:
	default:
		r.lose(&n, errors.New("too many notices are waiting"))
	}
}

func (r *runner) lose(n *Notice, err error) {
	r.mu.Lock()
	r.lost++
	r.mu.Unlock()
	r.Note("a notice about %s was not delivered: %s", cli.OneLine(n.Alarm),
		cli.OneLine(err.Error()))
}

// run runs the actions until finish is called. When ctx ends, the remaining notices are lost.
func (r *runner) run(ctx context.Context) {
	defer close(r.ended)
	for n := range r.notices {
		for _, act := range r.actions {
			if err := r.deliver(ctx, act, &n); err != nil {
				r.lose(&n, err)
			}
		}
	}
}

// deliver runs an action until it succeeds or has used up its attempts.
func (r *runner) deliver(ctx context.Context, act action, n *Notice) error {
	pause := firstPause
	for i := 1; ; i++ {
		err := r.attempt(ctx, act, n)
		if err == nil || i == attempts || ctx.Err() != nil {
			return err
		}
		if cli.Pause(ctx, pause); ctx.Err() != nil {
			return err
		}
		pause *= 2
	}
}

func (r *runner) attempt(ctx context.Context, act action, n *Notice) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptMax, errActionSlow)
	defer cancel()
	return act(ctx, n)
}

var errActionSlow = fmt.Errorf("it did not end within %s", cli.HumanDuration(attemptMax))

// finish waits until all notices are delivered, for patience at most, and then calls stop, which
// ends the context of run. It returns how many notices were lost. hand must not be called after it.
func (r *runner) finish(patience time.Duration, stop func()) int {
	close(r.notices)
	select {
	case <-r.ended:
	case <-time.After(patience):
		stop()
		<-r.ended
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}
