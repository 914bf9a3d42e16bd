package redrive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/work/trail"
	"tenaq/records/sqliterecords"
	redriver "tenaq/redrive"
)

// A Task is what a redriver process is told in the first line of its standard input. When the rest of it ends,
// so does the process.
type Task struct {
	Queues Queues        `json:"queues"`
	Dir    string        `json:"dir"`
	URL    string        `json:"url"` // where to report to
	Look   time.Duration `json:"look"`
	Break  Breakage      `json:"break"`
}

// stepPause is the time between two steps.
const stepPause = 100 * time.Millisecond

// Work is a redriver process. It returns when ctx or in ends.
func Work(ctx context.Context, in io.Reader, api *sqs.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	var t Task
	if err := json.Unmarshal(line, &t); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		cancel()
	}()
	store, err := sqliterecords.New(sqliterecords.Config{Path: filepath.Join(t.Dir, recordsFile)})
	if err != nil {
		return err
	}
	defer store.Close()
	ledger, err := claims.New(store, claims.Config{})
	if err != nil {
		return err
	}
	r, err := redriver.New(redriver.Config{
		Client: &witness{api, t}, Store: store, Claims: ledger,
		DeadLetterURL: t.Queues.Dead, ParkingURL: t.Queues.Parking,
		Policy: policy(t.Break), Interval: t.Look, Look: t.Look,
	})
	if err != nil {
		return err
	}
	// As Run does, which wants more than a second between two steps.
	for ; ctx.Err() == nil; sleep(ctx, stepPause) {
		report, err := r.Step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			slog.Warn("a step failed", "error", err)
		}
		t.tell(ctx, "/step", newStep(report))
	}
	return nil
}

// A step is what a report says that is worth knowing.
type step struct {
	Breaker  string `json:"breaker"`
	Trips    int    `json:"trips"`
	OnTheWay int    `json:"on_the_way"`
	Canaries int    `json:"canaries"` // sent
	Parked   int    `json:"parked"`
	Redriven int    `json:"redriven"`
}

func newStep(r redriver.Report) step {
	s := step{
		Breaker: string(r.State.Breaker.State), Trips: r.State.Breaker.Trips, OnTheWay: len(r.State.Flights),
		Parked: r.State.Parked, Redriven: r.State.Redriven,
	}
	for _, d := range r.Decisions {
		if d.Action == redriver.Redrive && d.Why == "a canary" {
			s.Canaries++
		}
	}
	return s
}

// A witness tells of every order that was sent on its way, and does not go on before it is told to: the process
// may be killed there, before it has deleted the dead letter.
type witness struct {
	redriver.SQS
	task Task
}

// SendMessage sends, and tells.
func (w *witness) SendMessage(ctx context.Context, in *sqs.SendMessageInput, options ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	if aws.ToString(in.QueueUrl) != w.task.Queues.Work {
		return w.SQS.SendMessage(ctx, in, options...)
	}
	if w.task.Break == Identities {
		bare := *in
		bare.MessageAttributes = maps.Clone(in.MessageAttributes)
		delete(bare.MessageAttributes, trail.Attribute)
		in = &bare
	}
	out, err := w.SQS.SendMessage(ctx, in, options...)
	if err == nil {
		var b booking
		_ = json.Unmarshal([]byte(aws.ToString(in.MessageBody)), &b) // all bodies are bookings
		w.task.tell(ctx, "/sent", b)
	}
	return out, err
}

// tell tells the demo something, and waits for its answer.
func (t *Task) tell(ctx context.Context, path string, what any) {
	body, _ := json.Marshal(what) // nothing in it can fail to be encoded
	in, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL+path, bytes.NewReader(body))
	if err != nil {
		return
	}
	in.Header.Set("Content-Type", "application/json")
	if out, err := http.DefaultClient.Do(in); err == nil {
		_, _ = io.Copy(io.Discard, out.Body)
		_ = out.Body.Close()
	}
}
