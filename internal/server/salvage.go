package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tenaq/internal/engine/salvage"
	"tenaq/internal/kv/pebblekv"
)

// Salvaged describes a salvaged store, and what could not be read.
type Salvaged struct {
	Store  string            `json:"store"` // the identity of the new store
	Kept   int64             `json:"messagesKept"`
	Lost   int64             `json:"messagesLost"` // as far as it is known
	Damage []pebblekv.Damage `json:"damage"`       // by file
	Queues []SalvagedQueue   `json:"queues"`
	// queues whose name and settings cannot be read and of which no message was found
	LostRows  int      `json:"queuesLost"`
	Cancelled int      `json:"tasksCancelled"` // move tasks that were running
	Outcomes  int64    `json:"outcomesLost"`   // of histories, as far as their rows were found
	Verified  Verified `json:"verified"`

	Records     int `json:"recordsKept"` // of programs, such as claims
	LostRecords int `json:"recordsLost"` // as far as it is known
}

// A SalvagedQueue is what was kept of a queue.
type SalvagedQueue struct {
	Account   string `json:"account"`
	Name      string `json:"name"`
	Recovered bool   `json:"recovered"` // its name and settings are lost; this is a new name
	Kept      int64  `json:"messagesKept"`
	Lost      int64  `json:"messagesLost"`
	// of the messages that are lost, those of which a part is there
	NoBody int64 `json:"bodiesLost"`
	// messages that are kept without their delay, visibility and receive count
	Forgotten int64 `json:"deliveriesLost"`
}

// Salvage reads the intact parts of the store in source, which may be damaged, and makes a new
// store of them in dir, which must be empty or not exist. It writes nothing into source. The new
// store has an identity of its own, and earlier receipt handles are not valid in it. Errors are of
// type *Error, or fs.ErrNotExist if source has no store. A salvage that fails leaves nothing,
// unless it is interrupted. [DUR-36, DUR-37]
func Salvage(
	ctx context.Context, source, dir string, progress func(rows int64),
) (s Salvaged, err error) {
	if err := checkDataDir(source); err != nil {
		return s, err
	}
	if isNode(source) {
		return s, configError("cannot salvage %s: it belongs to a node of a cluster, and the other nodes have its rows. Replace it with \"tenaq cluster replace OLD NEW\", or restore a backup.", source)
	}
	if info, err := os.Stat(source); err != nil {
		return s, err
	} else if other, err := os.Stat(dir); err == nil && os.SameFile(info, other) {
		return s, configError("cannot salvage %s into itself. Pass another directory to --to.",
			source)
	}
	t, err := newTarget(dir, "--to")
	if err != nil {
		return s, err
	}
	defer func() {
		if err != nil {
			t.undo()
		}
	}()
	if err := s.read(ctx, source, dir, progress); err != nil {
		return s, err
	}
	if err := s.copyAlarms(source, t); err != nil {
		return s, restoreError(dir, err)
	}
	var first *Finding
	if s.Verified, first, err = firstFinding(dir); err != nil {
		return s, err
	}
	if first != nil {
		return s, &Error{ErrDamaged,
			fmt.Errorf("the store salvaged from %s is not consistent: %s; keep the directory and report this", source, first)}
	}
	if err := t.finish(); err != nil {
		return s, restoreError(dir, err)
	}
	return s, nil
}

func (s *Salvaged) read(ctx context.Context, source, dir string, progress func(rows int64)) error {
	fatal := oneSentence(nil)
	store, err := pebblekv.Open(pebblekv.Options{Dir: dir, Fatal: func(err error) {
		fatal(storeError(dir, err))
	}})
	if err != nil {
		return storeError(dir, err)
	}
	batch, rows := store.NewBatch(), int64(0)
	read, err := pebblekv.ReadDamaged(pebblekv.Options{Dir: source}, func(k, v []byte) error {
		if rows++; rows%progressRows == 0 {
			if ctx.Err() != nil {
				return errInterrupted
			}
			if progress != nil {
				progress(rows)
			}
		}
		if !salvage.Takes(k) {
			return nil
		}
		if batch.Set(k, v); batch.Len() > 1<<20 {
			batch.Apply()
			batch = store.NewBatch()
		}
		return nil
	})
	batch.Apply()
	if err == nil {
		s.complete(store, read)
	}
	closed := store.Close()
	switch {
	case errors.Is(err, errInterrupted), errors.Is(err, os.ErrNotExist) &&
		!errors.Is(err, pebblekv.ErrDamaged):
		return err
	case err != nil:
		return storeError(source, err)
	case closed != nil:
		return storeError(dir, closed)
	}
	return nil
}

// progressRows is how many rows are read between two reports of progress.
const progressRows = 10_000

// complete makes the rows a consistent store with a key of its own for receipt handles.
func (s *Salvaged) complete(store *pebblekv.Store, read *pebblekv.Salvage) {
	out := salvage.Complete(store)
	b := store.NewBatch()
	b.Set(secretKey, newSecret())
	b.Force()()
	s.Store, s.LostRows, s.Cancelled = store.ID().String(), out.Lost, out.Cancelled
	s.Records, s.LostRecords = out.Records, out.LostRecords
	s.Outcomes = out.Outcomes
	s.Damage, s.Queues = append([]pebblekv.Damage{}, read.Damage...), []SalvagedQueue{}
	for _, q := range out.Queues {
		s.Kept, s.Lost = s.Kept+q.Kept, s.Lost+q.Lost
		s.Queues = append(s.Queues, SalvagedQueue{
			Account: q.Queue.Account, Name: q.Queue.Name, Recovered: q.Recovered,
			Kept: q.Kept, Lost: q.Lost, NoBody: q.NoBody, Forgotten: q.Forgotten,
		})
	}
}

// copyAlarms copies the alarms if they can be read.
func (s *Salvaged) copyAlarms(source string, t *target) error {
	text, err := os.ReadFile(filepath.Join(source, alarmsName))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err == nil && json.Valid(text):
		return t.write(alarmsName, bytes.NewReader(text))
	case err == nil:
		err = errors.New("it is not JSON")
	}
	s.Damage = append(s.Damage,
		pebblekv.Damage{File: alarmsName, Text: "it cannot be read: " + err.Error()})
	return nil
}
