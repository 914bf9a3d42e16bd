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
	"strconv"
	"strings"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/work/group"
)

// An Action runs when an alarm changes its state. It has one of four forms, and only the
// configuration of the server declares actions.
type Action struct {
	// Webhook is a URL to which the notice is posted: {"text": "..."}, as Slack expects it, or the
	// whole notice if Whole is set.
	Webhook string
	Whole   bool

	// Queue is the name of a queue of this server to which the notice is sent.
	Queue string

	// Command is run with the notice on its standard input, and TENAQ_ALARM, TENAQ_QUEUE and
	// TENAQ_STATE in its environment. It fails if its exit status is not zero.
	Command []string

	// Log writes it into the log of the server.
	Log bool
}

// LogAction is the name of the action that always exists: the log of the server.
const LogAction = "log"

// answerMax is how many bytes are kept of the output of a command or the answer of a webhook.
const answerMax = 512

// tellsTogether reports whether several notices can be one message.
func (a *Action) tellsTogether() bool { return a.Webhook != "" && !a.Whole }

// attempt runs the action once. Only an action that tellsTogether gets several notices.
func (r *runner) attempt(ctx context.Context, notices []*Notice) error {
	ctx, cancel := context.WithTimeout(ctx, attemptMax)
	defer cancel()
	n := notices[0]
	switch {
	case r.action.tellsTogether():
		body, err := json.Marshal(map[string]string{"text": together(notices)})
		if err != nil {
			return err
		}
		return r.poster.post(ctx, r.action.Webhook, body)
	case r.action.Webhook != "":
		return r.poster.post(ctx, r.action.Webhook, n.json())
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
	if len(n.undeclared) > 0 {
		logger = logger.With("undeclared_actions", n.undeclared)
	}
	if n.State != alarm.Alarm {
		logger.Info("alarm ended, or has no data", "alarm", n.Alarm, "state", n.State,
			"reason", n.Reason)
		return
	}
	if n.Sample != nil {
		logger = logger.With("message", n.Sample.MessageID)
	}
	if n.Sample != nil && n.Sample.Reason != "" {
		logger = logger.With("message_reason", n.Sample.Reason)
	}
	logger.Warn("alarm", "alarm", n.Alarm, "state", n.State, "reason", n.Reason, "commands",
		n.Commands, "page", n.Page)
}

// A poster posts to webhooks. Its errors leave out the URL, which may hold a secret.
type poster struct{ client *http.Client }

func newPoster() poster {
	return poster{&http.Client{
		Timeout: attemptMax,
		// A redirect is not followed: notices go only to the declared URL.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
}

func (p poster) post(ctx context.Context, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL of the webhook is not valid")
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		// the outer one has the URL
		return fmt.Errorf("cannot reach the webhook: %w", errors.Unwrap(err))
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if resp.StatusCode/100 == 2 {
		return nil
	}
	err = fmt.Errorf("the webhook answered %s: %s", resp.Status, clean(string(answer), answerMax))
	if seconds, bad := strconv.Atoi(resp.Header.Get("Retry-After")); bad == nil && seconds > 0 {
		return &later{err, min(time.Duration(seconds)*time.Second, 5*time.Minute)}
	}
	return err
}

// send sends the notice to a queue. The deduplication id identifies the change, so a FIFO queue
// gets it once.
func (r *runner) send(ctx context.Context, n *Notice) error {
	body := string(n.json())
	entry := engine.Entry{Body: engine.Text{Value: body, Set: true}, BodyMD5: md5.Sum([]byte(body)),
		Sender: r.m.cfg.Account}
	if strings.HasSuffix(r.action.Queue, ".fifo") {
		sum := sha256.Sum256([]byte(n.Alarm + "\n" + string(n.State) + "\n" + n.At.String() + "\n" +
			fmt.Sprint(n.Again)))
		entry.Group, entry.Dedup = engine.Text{Value: "alarms",
			Set: true}, engine.Text{Value: hex.EncodeToString(sum[:]), Set: true}
	}
	return r.m.cfg.Queues.Do(ctx, &engine.SendMessage{
		Queue: engine.QueueName{Account: r.m.cfg.Account, Name: r.action.Queue},
		Draft: engine.NewDraft(entry),
	})
}

// exec runs the command in its own process group, which is killed as a whole when it takes too
// long. What a successful command leaves in the background continues.
func (r *runner) exec(ctx context.Context, n *Notice) error {
	cmd := exec.CommandContext(ctx, r.action.Command[0], r.action.Command[1:]...)
	cmd.Env = append(cmd.Environ(), "TENAQ_ALARM="+clean(n.Alarm, nameMax),
		"TENAQ_QUEUE="+clean(n.Queue, nameMax), "TENAQ_STATE="+string(n.State))
	cmd.Stdin = bytes.NewReader(append(n.json(), '\n'))
	said := &head{}
	cmd.Stdout, cmd.Stderr = said, said
	group.Lead(cmd)
	cmd.WaitDelay = time.Second // for a child of it that keeps the pipes
	err := cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success() {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", r.action.Command[0], err, clean(string(said.b), answerMax))
}

// A head keeps the first bytes that are written to it.
type head struct{ b []byte }

func (h *head) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), answerMax-len(h.b))]...)
	return len(p), nil
}
