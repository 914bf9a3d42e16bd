package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/kv/pebblekv"
)

// Engine returns the contender that does the work of a Work of the kind Life with nothing but the
// engine and its store, in a directory that must be empty. There is no HTTP and no goroutine per
// client. Turns have 256 commands, and each is forced to disk while the next one is made. The
// difference to a server is what the server adds.
func Engine(dir string, w Work) Contender {
	w.Batch, w.Size = max(w.Batch, 1), cmp.Or(w.Size, 200)
	return &engineOnly{dir: dir, Work: w}
}

type engineOnly struct {
	Work
	dir    string
	store  *pebblekv.Store
	engine *engine.Engine
	queue  engine.QueueName
	began  time.Time
	seed   uint64
	sent   int64
	inTurn int
	waits  chan func() error
	forced sync.WaitGroup
}

func (e *engineOnly) Prepare(context.Context, func(float64)) (err error) {
	e.store, err = pebblekv.Open(pebblekv.Options{Dir: e.dir, Fatal: func(err error) {
		panic(err)
	}})
	if err != nil {
		return err
	}
	e.began, e.waits = time.Now(), make(chan func() error, 2)
	e.forced.Go(func() {
		for wait := range e.waits {
			wait()
		}
	})
	e.engine = engine.Open(e.store,
		engine.Config{Region: "us-east-1", InFlightMax: 1 << 30, Fault: func(s string) {
			panic(s)
		}})
	e.queue = engine.QueueName{Account: "000000000000", Name: "bench"}
	create := &engine.CreateQueue{Queue: e.queue, NameSet: true, Attributes: map[string]string{}}
	if e.Groups > 0 {
		e.queue.Name += ".fifo"
		create.Queue, create.Attributes = e.queue, map[string]string{"FifoQueue": "true"}
	}
	for _, op := range []engine.Op{&engine.Start{}, create} {
		if err := e.apply(op); err != nil {
			return err
		}
	}
	e.commit()
	return nil
}

// turnMax is how many commands share a turn, as in a server.
const turnMax = 256

func (e *engineOnly) apply(op engine.Op) error {
	for {
		c := engine.Command{Now: e.began.UnixMilli() + time.Since(e.began).Milliseconds(), Op: op}
		e.seed++
		binary.LittleEndian.PutUint64(c.Seed[:], e.seed)
		err := e.engine.Apply(c)
		if e.inTurn++; e.inTurn >= turnMax || err == engine.ErrAgain {
			e.commit()
		}
		if err != engine.ErrAgain {
			return err
		}
	}
}

func (e *engineOnly) commit() {
	e.inTurn = 0
	if wait := e.engine.Commit(); wait != nil {
		e.waits <- wait
	}
}

// Round alternates: as many sends as a turn has commands, then as many receives and deletes.
func (e *engineOnly) Round(ctx context.Context, load Load) (t Tally, err error) {
	load = load.withDefaults()
	body := strings.Repeat("x", e.Size)
	began := time.Now()
	for time.Since(began) < load.Round && ctx.Err() == nil {
		for range turnMax {
			if err := e.send(body); err != nil {
				return t, err
			}
		}
		for range turnMax {
			n, err := e.consume()
			if err != nil {
				return t, err
			}
			t.Messages += int64(n)
			t.Steps++
		}
	}
	e.commit()
	t.Took = time.Since(began)
	return t, ctx.Err()
}

func (e *engineOnly) send(body string) error {
	drafts := make([]engine.Draft, e.Batch)
	for i := range drafts {
		entry := engine.Entry{ID: engine.Text{Value: strconv.Itoa(i), Set: true},
			Body: engine.Text{Value: body, Set: true}}
		if e.sent++; e.Groups > 0 {
			entry.Group = engine.Text{Value: "g" + strconv.FormatInt(e.sent%int64(e.Groups), 10),
				Set: true}
			entry.Dedup = engine.Text{Value: strconv.FormatInt(e.sent, 10), Set: true}
		}
		drafts[i] = engine.NewDraft(entry)
	}
	return e.apply(&engine.SendMessageBatch{Queue: e.queue, Given: true, Drafts: drafts})
}

func (e *engineOnly) consume() (n int, err error) {
	receive := &engine.ReceiveMessage{Queue: e.queue,
		Max: engine.Int{Value: int64(e.Batch), Set: true}}
	if err := e.apply(receive); err != nil {
		return 0, err
	}
	remove := &engine.DeleteMessageBatch{Queue: e.queue, Given: true}
	for i, m := range receive.Messages {
		remove.Entries = append(remove.Entries, engine.DeleteEntry{
			ID: engine.Text{Value: strconv.Itoa(i), Set: true},
			Handle: engine.Handle{Text: "h", Valid: true, Incarnation: receive.Incarnation,
				Space: m.Space, Seq: m.Seq, Generation: m.Generation},
		})
	}
	if len(remove.Entries) == 0 {
		return 0, fmt.Errorf("the engine has nothing to receive after %d messages", e.sent)
	}
	return len(remove.Entries), e.apply(remove)
}

func (e *engineOnly) Close() error {
	if e.store == nil {
		return nil
	}
	e.commit()
	close(e.waits)
	e.forced.Wait()
	return e.store.Close()
}
