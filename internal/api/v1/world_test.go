package v1

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"tenaq/internal/api/handle"
	"tenaq/internal/api/intake"
	"tenaq/internal/broker"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/observe/monitor"
)

const account = "000000000000"

// A world is a handler on a broker on a memory store.
type world struct {
	*Handler
	t      testing.TB
	broker *broker.Broker
}

// newDoor is open.
func newDoor() *auth.Door { return auth.New(auth.Config{Account: account, Sessions: true}) }

func newWorld(t testing.TB) *world { return newWorldOn(t, kv.NewMemory(), 0) }

// newWorldOn keeps the names of deleted queues for some milliseconds.
func newWorldOn(t testing.TB, store kv.Store, delay int64) *world {
	t.Helper()
	b, err := broker.New(broker.Config{Store: store, Engine: engine.Config{
		Region: "us-east-1", InFlightMax: 1000, Fault: func(sentence string) { panic(sentence) },
		RecreateDelay: delay,
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	logger := slog.New(slog.DiscardHandler)
	return &world{Handler: New(Config{
		Broker: b, Door: newDoor(), Policies: auth.NewPolicies(b, logger),
		Intake: intake.New(intake.Config{Polls: func() int64 { return 0 }}), Logger: logger,
		Sealer: handle.New(make([]byte, handle.KeySize)),
	}), t: t, broker: b}
}

func (w *world) do(t *testing.T, op engine.Op) {
	t.Helper()
	if err := w.broker.Do(t.Context(), op); err != nil {
		t.Fatal(err)
	}
}

// useMonitor gives the world a monitor, which has seen nothing yet.
func (w *world) useMonitor(t *testing.T) *monitor.Monitor {
	t.Helper()
	m, err := monitor.New(monitor.Config{Queues: w.broker, Account: account, Keeper: monitor.File(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	w.cfg.Monitor = m
	return m
}

// needed returns what a handler must have to serve a route.
func needed(r *route) (Control, *monitor.Monitor, func(context.Context) (Backup, error)) {
	backup := func(context.Context) (Backup, error) { return nil, ErrBackupRunning }
	control := Control(nil)
	if r.feature() == "cluster" {
		control = &recordedControl{}
	}
	return control, new(monitor.Monitor), backup
}

// ask sends a request, with a body of a kind if that is not empty.
func (w *world) ask(method, path, kind, body string) (status int, answer string) {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	recorder := httptest.NewRecorder()
	w.ServeHTTP(recorder, r)
	if err := matchesSchema(w.Handler, r, recorder.Code, recorder.Body.String()); err != nil && method != "HEAD" {
		w.t.Errorf("%s %s: the answer %s does not match its schema: %v", method, path, recorder.Body, err)
	}
	return recorder.Code, recorder.Body.String()
}
