package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"tenaq/internal/testing/audit"
)

// Operators take messages with tasks from the queue to others and back: one of them works on each
// queue. They select by parts of bodies.
type Operators struct {
	Queues  []string // URLs of the other queues
	Selects []string
}

// Operated is what operators and workers did that plain SQS has not.
type Operated struct {
	Tasks    int // that were started and have ended
	Found    int // of these, whose start had no answer, and that the list of tasks had
	Taken    int // messages
	Deleted  int // of these
	Failed   int // tasks that found more messages to delete than were confirmed
	Paused   int // tasks that did nothing for a while
	Canceled int
	Replaced int // messages
	Nacked   int // messages, by workers
}

// Operated returns what operators have done.
func (l *Load) Operated() Operated {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

// A shownTask is a task as the server shows it.
type shownTask struct {
	ID, State, Note string
	Done            int
}

func (t *shownTask) ended() bool {
	return slices.Contains([]string{"COMPLETED", "CANCELLED", "FAILED"}, t.State)
}

// operate is an operator of one queue.
func (l *Load) operate(
	ctx context.Context, rng *rand.Rand, q *queue, disturbed <-chan struct{},
) error {
	for ctx.Err() == nil {
		pause(ctx, about(rng, 40*time.Millisecond))
		select {
		case <-disturbed:
			return nil
		default:
		}
		err := l.replaceOne(ctx, rng, q)
		if err == nil {
			err = l.runTask(ctx, rng, q)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// another returns one of the queues, but not this one.
func (l *Load) another(rng *rand.Rand, q *queue) *queue {
	all := slices.DeleteFunc(append([]*queue{l.main}, l.desks...), func(o *queue) bool {
		return o == q
	})
	return all[rng.IntN(len(all))]
}

// works are what tasks do, as often as they are here. Deletes are few, so that something is left. A
// kind of task that sends again what is gone belongs here too, with its rule in package audit.
var works = []audit.Work{audit.MoveWork, audit.MoveWork, audit.MoveWork, audit.MoveWork,
	audit.ParkWork, audit.ParkWork, audit.ParkWork, audit.DeleteWork}

// runTask starts a task, steers it, and goes on when it has ended.
func (l *Load) runTask(ctx context.Context, rng *rand.Rand, q *queue) error {
	t := audit.Task{Do: works[rng.IntN(len(works))], Source: q.name}
	rate := 0
	if rng.IntN(4) > 0 { // so slow that the server dies in the middle of it
		rate = 10 + rng.IntN(90)
	}
	if selects := l.cfg.Operators.Selects; rng.IntN(5) > 0 {
		t.Selects = selects[rng.IntN(len(selects))]
	}
	if t.Do == audit.DeleteWork {
		t.Confirm = 1 + rng.IntN(4)
	} else {
		t.Destination = l.another(rng, q).name
	}
	found, err := l.record.startTask(ctx, &t, rate, fmt.Sprintf("start %x", rng.Uint64()))
	if err == nil && t.Outcome == audit.Done {
		err = l.awaitTask(ctx, rng, &t)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if found {
		l.done.Found++
	}
	if t.Ended {
		l.done.Tasks++
		l.done.Taken += t.Done
		if t.Do == audit.DeleteWork {
			l.done.Deleted += t.Done
		}
	}
	l.record.mu.Lock()
	defer l.record.mu.Unlock()
	l.record.history.Tasks = append(l.record.history.Tasks, t)
	return err
}

// startTask starts a task. If there is no answer, the list of tasks says whether it was started:
// the server that was asked has ended by the time at which another one answers.
func (r *recorder) startTask(
	ctx context.Context, t *audit.Task, rate int, note string,
) (found bool, err error) {
	in := map[string]any{"queue": t.Source, "do": t.Do, "rate": rate, "note": note}
	if t.Destination != "" {
		in["to"] = t.Destination
	}
	if t.Selects != "" {
		in["filter"] = map[string]string{"text": t.Selects}
	}
	if t.Do == audit.DeleteWork {
		in["confirm"] = t.Confirm
	}
	var is shownTask
	t.Call = r.now()
	status, err := r.v1.do(ctx, http.MethodPost, "/tasks", in, &is)
	t.Return, t.Outcome, t.ID = r.now(), outcome(status), is.ID
	for status == 0 && ctx.Err() == nil {
		pause(ctx, 20*time.Millisecond)
		var list struct{ Tasks []shownTask }
		if status, err = r.v1.do(ctx, http.MethodGet, "/tasks?queue="+t.Source, nil,
			&list); status == 0 {
			continue
		}
		t.Outcome = audit.Refused // it is not there and will not come
		for _, other := range list.Tasks {
			if other.Note == note {
				found, t.Outcome, t.ID = true, audit.Done, other.ID
			}
		}
	}
	return found, err
}

// awaitTask pauses, resumes or cancels a task, or changes its rate, and waits for its end.
func (l *Load) awaitTask(ctx context.Context, rng *rand.Rand, t *audit.Task) error {
	steered := false
	for ctx.Err() == nil {
		pause(ctx, about(rng, 30*time.Millisecond))
		var is shownTask
		status, err := l.record.v1.do(ctx, http.MethodGet, "/tasks/"+t.ID, nil, &is)
		switch {
		case err != nil:
			return fmt.Errorf("a task that was started cannot be shown: %w", err)
		case status == 0:
			continue
		case is.ended():
			t.Ended, t.Done = true, is.Done
			l.noteEnd(&is)
			return nil
		case is.State == "PAUSED": // the answer to the resume was lost
			_, err = l.steer(ctx, t, "resume", nil)
		case !steered && rng.IntN(2) == 0:
			steered = true
			err = l.steerOnce(ctx, rng, t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Load) noteEnd(is *shownTask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch is.State {
	case "CANCELLED":
		l.done.Canceled++
	case "FAILED":
		l.done.Failed++
	}
}

// steer changes a task, which may have ended. [TASK-15]
func (l *Load) steer(
	ctx context.Context, t *audit.Task, change string, in map[string]any,
) (is shownTask, err error) {
	if in == nil {
		in = map[string]any{}
	}
	_, err = l.record.v1.do(ctx, http.MethodPost, "/tasks/"+t.ID+"/"+change, in, &is,
		http.StatusConflict)
	return is, err
}

// steerOnce does one of the things that can be done to a task. While it is paused it takes nothing,
// also if the server is another one meanwhile. [TASK-12]
func (l *Load) steerOnce(ctx context.Context, rng *rand.Rand, t *audit.Task) error {
	switch rng.IntN(4) {
	case 0:
		_, err := l.steer(ctx, t, "cancel", nil)
		return err
	case 1:
		_, err := l.steer(ctx, t, "rate", map[string]any{"rate": rng.IntN(2) * 300})
		return err
	}
	paused, err := l.steer(ctx, t, "pause", nil)
	if err != nil || paused.State != "PAUSED" {
		return err
	}
	pause(ctx, about(rng, 300*time.Millisecond))
	var is shownTask
	status, err := l.record.v1.do(ctx, http.MethodGet, "/tasks/"+t.ID, nil, &is)
	if err != nil {
		return err
	}
	if status != 0 && (is.State != "PAUSED" || is.Done != paused.Done) {
		return fmt.Errorf("task %s was paused when it had taken %d messages, and is %s with %d",
			t.ID, paused.Done, is.State, is.Done)
	}
	l.mu.Lock()
	l.done.Paused++
	l.mu.Unlock()
	_, err = l.steer(ctx, t, "resume", nil)
	return err
}

// replaceOne replaces the body of a waiting message. Operators select messages by another part of
// it.
func (l *Load) replaceOne(ctx context.Context, rng *rand.Rand, q *queue) error {
	var list struct {
		Messages []struct{ MessageID, Place, Body string }
	}
	status, err := l.record.v1.do(ctx, http.MethodGet,
		"/queues/"+q.name+"/messages?state=visible&limit=20&body=1024", nil, &list)
	if err != nil || status == 0 || len(list.Messages) == 0 {
		return err
	}
	m := list.Messages[rng.IntN(len(list.Messages))]
	selects := l.cfg.Operators.Selects
	body := m.Body
	for _, part := range selects {
		if strings.Contains(body, part) {
			body = strings.Replace(body, part, selects[rng.IntN(len(selects))], 1)
			break
		}
	}
	r := audit.Replacement{Queue: q.name, Destination: l.another(rng, q).name,
		MessageID: m.MessageID, Body: m.Body,
		Gives: fmt.Sprintf("%s edited %x", body, rng.Uint64())}
	var out struct{ MessageID string }
	r.Call = l.record.now()
	status, err = l.record.v1.do(ctx, http.MethodPost, "/replace", map[string]any{"queue": r.Queue,
		"place": m.Place, "to": r.Destination, "body": r.Gives}, &out, http.StatusConflict,
		http.StatusNotFound)
	r.Return = l.record.now()
	r.Outcome, r.NewID = outcome(status), out.MessageID
	l.record.mu.Lock()
	l.record.history.Replacements = append(l.record.history.Replacements, r)
	l.record.mu.Unlock()
	if r.Outcome == audit.Done {
		l.mu.Lock()
		l.done.Replaced++
		l.mu.Unlock()
	}
	return err
}
