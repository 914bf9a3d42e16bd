package budget

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"tenaq/internal/bench"
	"tenaq/internal/cli"
)

// measureReplay receives and deletes at half of the rate that the closed loop has just reached, in
// turns while past messages of another queue are replayed as fast as the server does it, and while
// this replay is paused. So a disk that is slow for a while is slow for both.
func measureReplay(ctx context.Context, e *env) (found []measure, err error) {
	n := e.count(1_000_000, 20_000)
	past, lab := e.work(bench.Work{Kind: bench.Send, Size: 100, Depth: n,
		Tags: map[string]string{"tenaq:history": "1d/16GiB"}}), e.work(bench.Work{Kind: bench.Send})
	for _, w := range []bench.Work{past, lab} {
		if _, err := bench.Fill(ctx, w, e.telling("fill the queue")); err != nil {
			return nil, err
		}
	}
	// A message that a task deletes ends like one that a consumer deletes.
	if _, err := e.carryOut(ctx, map[string]any{"queue": past.Queue, "do": "delete",
		"confirm": 2 * n}); err != nil {
		return nil, err
	}
	load := bench.Load{Clients: 16, Round: e.seconds(2, 0.5)}
	c, err := bench.New(e.work(
		bench.Work{Kind: bench.Receive, Depth: int64(e.choose(200_000, 20_000))}))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Prepare(ctx, e.telling("prepare")); err != nil {
		return nil, err
	}
	closed, err := c.Round(ctx, load)
	if err != nil {
		return nil, err
	}
	load.Rate = max(1, closed.Rate()/2)
	var alone, beside bench.Latencies
	var replayed time.Duration
	task, err := e.task(ctx, "POST", "/v1/tasks", map[string]any{"queue": past.Queue,
		"do": "replay", "filter": map[string]string{"outcome": "removed"}, "to": lab.Queue})
	if err != nil {
		return nil, err
	}
	for task.Ended == nil {
		e.tell("receives beside a replay", float64(task.Done)/float64(n))
		t, err := c.Round(ctx, load)
		if err != nil {
			return nil, err
		}
		if task, err = e.pause(ctx, task.ID); err != nil {
			return nil, err
		}
		replayed += t.Took
		if task.Ended == nil || beside.Count() == 0 { // what outlasts the replay is not beside it
			beside.Merge(&t.Latency)
		}
		if t, err = c.Round(ctx, load); err != nil {
			return nil, err
		}
		alone.Merge(&t.Latency)
		if task.Ended == nil {
			task, err = e.task(ctx, "POST", "/v1/tasks/"+task.ID+"/resume", map[string]any{})
			if err != nil {
				return nil, err
			}
		}
	}
	if task.State != "COMPLETED" || task.Done < n {
		return nil, fmt.Errorf("the replay of %d messages is %s after %d", n, task.State, task.Done)
	}
	return []measure{{"p99 of receives", beside.At(99).Seconds() / alone.At(99).Seconds(),
		fmt.Sprintf("%s of %d receives and deletes against %s of %d, %.0f/s; %d messages replayed in %s",
			cli.ShortDuration(beside.At(99)), beside.Count(), cli.ShortDuration(alone.At(99)),
			alone.Count(), load.Rate, task.Done, cli.ShortDuration(replayed))}}, nil
}

// A task is a task, or the count for one, as the server shows it.
type task struct {
	ID, State string
	Done      int64
	Ended     *time.Time

	Count, Looked int64
	Next          string
}

// carryOut starts a task and waits for its end.
func (e *env) carryOut(ctx context.Context, in map[string]any) (t task, err error) {
	if t, err = e.task(ctx, "POST", "/v1/tasks", in); err != nil {
		return t, err
	}
	for t.Ended == nil {
		e.tell(fmt.Sprintf("%s messages", in["do"]), 0)
		if err := rest(ctx, 100*time.Millisecond); err != nil {
			return t, err
		}
		if t, err = e.task(ctx, "GET", "/v1/tasks/"+t.ID, nil); err != nil {
			return t, err
		}
	}
	if t.State != "COMPLETED" {
		return t, fmt.Errorf("the task %s is %s", t.ID, t.State)
	}
	return t, nil
}

// pause pauses a task that has not ended meanwhile.
func (e *env) pause(ctx context.Context, id string) (task, error) {
	t, err := e.task(ctx, "POST", "/v1/tasks/"+id+"/pause", map[string]any{})
	if err != nil {
		if t, failed := e.task(ctx, "GET", "/v1/tasks/"+id, nil); failed == nil && t.Ended != nil {
			return t, nil
		}
	}
	return t, err
}

// task sends a request about a task.
func (e *env) task(ctx context.Context, method, path string, in any) (t task, err error) {
	_, err = e.ask(ctx, method, path, in, &t)
	return t, err
}

// ask sends a request to the server, which takes it unsigned, and reads the answer into out. It
// returns how long the answer took.
func (e *env) ask(
	ctx context.Context, method, path string, in, out any,
) (took time.Duration, err error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(text)
	}
	u := strings.TrimSuffix(e.endpoint.URL.String(), "/") + path
	r, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	began := time.Now()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	took = time.Since(began)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s answers %d: %.500s", method, path, answer.StatusCode, text)
	}
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	return took, err
}
