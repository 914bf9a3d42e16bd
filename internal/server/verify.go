package server

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"tenaq/internal/engine/verify"
	"tenaq/internal/kv/pebblekv"
)

// A Finding is a problem in a store.
type Finding struct {
	Account string `json:"account,omitempty"` // of the queue
	Queue   string `json:"queue,omitempty"`
	Row     string `json:"row,omitempty"` // key, in hexadecimal digits
	Text    string `json:"text"`
}

func (f Finding) String() string {
	switch {
	case f.Queue != "" && f.Row != "":
		return fmt.Sprintf("queue %s, row %s: %s", f.Queue, f.Row, f.Text)
	case f.Queue != "":
		return fmt.Sprintf("queue %s: %s", f.Queue, f.Text)
	case f.Row != "":
		return fmt.Sprintf("row %s: %s", f.Row, f.Text)
	}
	return f.Text
}

// Verified summarizes a verification.
type Verified struct {
	Store    string `json:"store"`  // its identity
	Commit   uint64 `json:"commit"` // the last one
	Queues   int64  `json:"queues"`
	Messages int64  `json:"messages"`
	Rows     int64  `json:"rows"`
	// of the rows, as they are before Pebble makes them smaller
	Bytes      int64 `json:"bytes"`
	TableBytes int64 `json:"tableBytes"` // of the files whose checksums were compared
	Findings   int64 `json:"findings"`
}

// Verify reads everything in a data directory that no server has open, and calls found for each
// problem. It writes nothing. It calls progress now and then, unless that is nil. An error means
// that the store could not be read at all: it is of type *Error, or fs.ErrNotExist if there is no
// store. [DUR-29]
func Verify(dir string, found func(Finding), progress func(Verified)) (Verified, error) {
	if err := checkDataDir(dir); err != nil {
		return Verified{}, err
	}
	return verifyStore(dir, found, progress)
}

// firstFinding verifies a store that was just written, and returns the first thing that is wrong.
func firstFinding(dir string) (v Verified, first *Finding, err error) {
	v, err = verifyStore(dir, func(f Finding) {
		if first == nil {
			first = &f
		}
	}, nil)
	return v, first, err
}

func verifyStore(dir string, found func(Finding), progress func(Verified)) (v Verified, err error) {
	r, err := pebblekv.OpenRead(pebblekv.Options{Dir: dir})
	switch {
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, pebblekv.ErrDamaged):
		return v, err
	case err != nil:
		return v, storeError(dir, err)
	}
	defer func() {
		if closed := r.Close(); closed != nil && err == nil && v.Findings == 0 {
			err = storeError(dir, closed)
		}
	}()
	tell := func(f Finding) {
		v.Findings++
		found(f)
	}
	v.Store, v.Commit = r.ID().String(), r.CommitNumber()
	for _, doubt := range r.Doubts() {
		tell(Finding{Text: doubt.Error()})
	}
	if v.TableBytes, err = r.CheckTables(func(table string, err error) {
		tell(Finding{Text: fmt.Sprintf("the file store/%s is damaged: %v", table, err)})
	}); err != nil {
		return v, storeError(dir, err)
	}
	add := func(read verify.Read) Verified {
		v.Queues, v.Messages, v.Rows, v.Bytes = read.Queues, read.Messages, read.Rows, read.Bytes
		return v
	}
	a := verify.Verifier{
		Store: r,
		Try:   r.Try,
		Found: func(f verify.Finding) {
			tell(Finding{Account: f.Queue.Account, Queue: f.Queue.Name,
				Row: hex.EncodeToString(f.Key), Text: f.Text})
		},
	}
	if progress != nil {
		a.Progress = func(read verify.Read) { progress(add(read)) }
	}
	add(a.Run())
	return v, nil
}
