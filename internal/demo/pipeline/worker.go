package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"tenaq/claims"
	"tenaq/records/sqliterecords"
	"tenaq/worker"
	"tenaq/worker/pipe"
)

// Work is the process of a worker: it starts the command args for each message. It ends with ctx, and when
// standard input ends.
func (s *Settings) Work(ctx context.Context, client worker.SQS, args []string, stdin io.Reader, stderr io.Writer) error {
	go untilEOF(stdin)
	h, err := openHistory(s.historyFile())
	if err != nil {
		return err
	}
	defer h.close()
	store, err := sqliterecords.New(sqliterecords.Config{Path: s.recordsFile()})
	if err != nil {
		return err
	}
	defer store.Close()
	ledger, err := s.openLedger(store)
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{
		Client:   client,
		QueueURL: s.QueueURL,
		Claims:   ledger,
		NoClaims: ledger == nil,
		Handler: &pipe.Command{
			Args:   args,
			Grace:  time.Second,
			Pause:  time.Second,
			Output: &deathbed{settings: s, history: h},
		},
		Key:         fileID,
		Concurrency: 1, // so that a death is that of one task
		Lease:       s.Lease,
		Drain:       5 * time.Second,
		Attempts:    attempts,
		RetryBase:   200 * time.Millisecond,
		RetryMax:    time.Second,
		Events:      s.events(h),
		Logger:      slog.New(slog.NewTextHandler(stderr, nil)),
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// fileID is the key of the work: what the message itself says, and not what SQS knows of it, because SQS forgets.
func fileID(m *worker.Message) (string, error) {
	var r request
	if err := json.Unmarshal([]byte(m.Body), &r); err != nil {
		return "", err
	}
	if r.FileID == "" {
		return "", errors.New("the body names no file")
	}
	return r.FileID, nil
}

// events writes down what the worker does, and ends it where the plan says so.
func (s *Settings) events(h *history) worker.Events {
	note := func(w what, m *worker.Message, why string) {
		h.note(event{
			What: w, File: m.Key, Message: m.ID, Attempt: m.Attempt(), Fence: m.Fence(),
			TakenOver: w == started && m.TakenOver() != nil, Why: why,
		})
	}
	return worker.Events{
		Received: func(m *worker.Message) {
			note(received, m, "")
			s.dieAt(beforeClaim, m.Key, h)
		},
		Started: func(m *worker.Message) { note(started, m, "") },
		Done: func(m *worker.Message, _ time.Duration) {
			note(completed, m, "")
			s.dieAt(afterComplete, m.Key, h)
		},
		Failed:       func(m *worker.Message, err error, _ time.Duration) { note(failed, m, err.Error()) },
		Deferred:     func(m *worker.Message, _ time.Duration, reason string) { note(givenBack, m, reason) },
		Busy:         func(m *worker.Message, b *claims.Busy) { note(busy, m, b.Error()) },
		Duplicate:    func(m *worker.Message, _ *claims.Done) { note(duplicate, m, "") },
		DeadLettered: func(m *worker.Message, reason, _ string) { note(deadLettered, m, reason) },
		Lost:         func(m *worker.Message, err error) { note(lost, m, err.Error()) },
	}
}

// lastWords is what a task prints when it is so far that its worker is to die.
const lastWords = "so far, and the worker dies"

// A deathbed hears what tasks print, and ends the worker in the middle of a download.
type deathbed struct {
	settings *Settings
	history  *history
}

// Write is called with one line.
func (d *deathbed) Write(line []byte) (int, error) {
	id, said, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " | ")
	if said == lastWords {
		d.settings.dieAt(amidWorker, id, d.history)
	}
	return len(line), nil
}
