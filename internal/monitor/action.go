package monitor

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"tenaq/internal/alarm"
	"tenaq/internal/engine"
)

// An Action is something that is done when an alarm changes its state. It is one of the four; the configuration of the
// server is the only place where actions come from.
type Action struct {
	// Webhook is a URL to which the notice is posted: {"text": "..."} as Slack and those that follow it want it, or the
	// whole notice if Whole is set.
	Webhook string
	Whole   bool

	// Queue is the name of a queue of this server to which the notice is sent.
	Queue string

	// Command is run with the notice on its standard input, and in its environment TENAQ_ALARM, TENAQ_QUEUE and
	// TENAQ_STATE. It fails when its status is not zero.
	Command []string

	// Log writes it into the log of the server.
	Log bool
}

// LogAction is the name of the action that there always is: the log of the server.
const LogAction = "log"

// What an action may take. An attempt is what runs once; between two there is a pause that doubles. [ALARM-48]
const (
	attemptMax  = 30 * time.Second
	attempts    = 6
	pauseFirst  = time.Second
	waitingMax  = 256 // notices of one action
	answerMax   = 512 // bytes of what a command or a server says that are kept
	alarmsGroup = "alarms"
)

// Notices says what became of the notices for an action since the process started.
type Notices struct {
	Action          string
	Delivered, Lost int64
}

// Notices returns that of all actions, by name.
func (m *Monitor) Notices() (all []Notices) {
	for _, name := range m.ActionNames() {
		all = append(all, Notices{name, m.runs[name].done.Load(), m.runs[name].lost.Load()})
	}
	return all
}

// A task is a notice for an action, and what to call when it has ended.
type task struct {
	notice Notice
	ended  func()
}

// A runner runs one action, one notice after the other.
type runner struct {
	m      *Monitor
	name   string
	action Action
	tasks  chan task
	client *http.Client

	done, lost atomic.Int64
}

func newRunner(m *Monitor, name string, a Action) *runner {
	return &runner{m: m, name: name, action: a, tasks: make(chan task, waitingMax), client: &http.Client{
		Timeout: attemptMax,
		// A webhook that moves is declared anew; its notices go nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// hand gives a task to the runner. It reports false when too many wait.
func (r *runner) hand(t task) bool {
	select {
	case r.tasks <- t:
		return true
	default:
		return false
	}
}

func (r *runner) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-r.tasks:
			if r.deliver(ctx, &t.notice) {
				t.ended()
			}
		}
	}
}

// deliver runs the action until it succeeds, or has had its attempts. It reports false when ctx ended first.
func (r *runner) deliver(ctx context.Context, n *Notice) bool {
	pause := pauseFirst
	for i := 1; ; i++ {
		err := r.attempt(ctx, n)
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil:
			r.done.Add(1)
			return true
		case i == attempts:
			r.lost.Add(1)
			r.m.cfg.Logger.Error("a notice is lost", "action", r.name, "alarm", n.Alarm, "state", n.State, "error", err)
			return true
		}
		r.m.cfg.Logger.Warn("a notice waits", "action", r.name, "alarm", n.Alarm, "error", err, "again-in", pause)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// attempt runs the action once.
func (r *runner) attempt(ctx context.Context, n *Notice) error {
	ctx, cancel := context.WithTimeout(ctx, attemptMax)
	defer cancel()
	switch {
	case r.action.Webhook != "":
		return r.post(ctx, n)
	case r.action.Queue != "":
		return r.send(ctx, n)
	case len(r.action.Command) > 0:
		return r.exec(ctx, n)
	}
	r.log(n)
	return nil
}

func (r *runner) log(n *Notice) {
	logger := r.m.cfg.Logger
	if n.State != alarm.Alarm {
		logger.Info("an alarm is over, or has no data", "alarm", n.Alarm, "state", n.State, "reason", n.Reason)
		return
	}
	if n.Sample != nil {
		logger = logger.With("message", n.Sample.MessageID)
	}
	if n.Sample != nil && n.Sample.Reason != "" {
		logger = logger.With("message-reason", n.Sample.Reason)
	}
	logger.Warn("alarm", "alarm", n.Alarm, "state", n.State, "reason", n.Reason, "commands", n.Commands)
}

func (r *runner) post(ctx context.Context, n *Notice) error {
	body := n.json()
	if !r.action.Whole {
		body, _ = json.Marshal(map[string]string{"text": n.Text()})
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.action.Webhook, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL of the webhook cannot be used") // it may hold a secret
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("the webhook does not answer: %w", errors.Unwrap(err)) // the outer one has the URL
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the webhook answers %s: %s", resp.Status, strings.TrimSpace(string(answer)))
	}
	return nil
}

// send sends the notice to a queue. The deduplication id is that of the change, so that a FIFO queue has it once.
func (r *runner) send(ctx context.Context, n *Notice) error {
	body := string(n.json())
	entry := engine.Entry{Body: engine.Text{Value: body, Set: true}, BodyMD5: md5.Sum([]byte(body)), Sender: r.m.cfg.Account}
	if strings.HasSuffix(r.action.Queue, ".fifo") {
		sum := sha256.Sum256([]byte(n.Alarm + "\n" + string(n.State) + "\n" + n.At.String() + "\n" + fmt.Sprint(n.Again)))
		entry.Group, entry.Dedup = engine.Text{Value: alarmsGroup, Set: true}, engine.Text{Value: hex.EncodeToString(sum[:]), Set: true}
	}
	_, err := r.m.cfg.Queues.Do(ctx, &engine.SendMessage{
		Queue: engine.QueueName{Account: r.m.cfg.Account, Name: r.action.Queue}, Draft: engine.NewDraft(entry),
	})
	return err
}

func (r *runner) exec(ctx context.Context, n *Notice) error {
	cmd := exec.CommandContext(ctx, r.action.Command[0], r.action.Command[1:]...)
	cmd.Env = append(cmd.Environ(), "TENAQ_ALARM="+n.Alarm, "TENAQ_QUEUE="+n.Queue, "TENAQ_STATE="+string(n.State))
	cmd.Stdin = bytes.NewReader(append(n.json(), '\n'))
	said := &head{}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.WaitDelay = time.Second // for a child of it that keeps the pipes
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", r.action.Command[0], err, strings.TrimSpace(string(said.b)))
	}
	return nil
}

// A head keeps the beginning of what is written to it.
type head struct{ b []byte }

func (h *head) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), answerMax-len(h.b))]...)
	return len(p), nil
}
