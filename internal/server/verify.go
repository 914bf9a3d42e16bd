package server

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"tenaq/internal/cluster/node"
	"tenaq/internal/cluster/raftlog"
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
	// of a node of a cluster: how many entries its log has, and which of them is the last one in
	// the rows on disk. A start applies the others.
	Entries int64  `json:"entries,omitempty"`
	Applied uint64 `json:"applied,omitempty"`

	// of the rows, as they are before Pebble makes them smaller
	Bytes      int64 `json:"bytes"`
	TableBytes int64 `json:"tableBytes"` // of the files whose checksums were compared
	Findings   int64 `json:"findings"`
}

// Verify reads everything in a data directory that no server has open, that of a single server or
// of a node of a cluster, and calls found for each problem. It writes nothing. It calls progress
// now and then, unless that is nil. An error means that the store could not be read at all: it is
// of type *Error, or fs.ErrNotExist if there is no store. [DUR-29]
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

func verifyStore(dir string, found func(Finding), progress func(Verified)) (Verified, error) {
	v := &verifying{dir: dir, found: found, progress: progress}
	if isNode(dir) {
		err := v.node()
		return v.Verified, err
	}
	r, err := pebblekv.OpenRead(pebblekv.Options{Dir: dir})
	err = v.part("store", r, err, v.rows)
	return v.Verified, err
}

// A verifying is a verification under way.
type verifying struct {
	Verified
	dir      string
	found    func(Finding)
	progress func(Verified)
}

func (v *verifying) tell(f Finding) {
	v.Findings++
	v.found(f)
}

// node verifies the directory of a node of a cluster: its log, and its rows.
func (v *verifying) node() error {
	var first, last uint64
	r, err := pebblekv.OpenReadLog(pebblekv.Options{Dir: node.LogDir(v.dir)})
	if err := v.part(node.LogDir("")+"/store", r, err, func(r *pebblekv.Reader) {
		if err := r.Try(func() {
			first, last = raftlog.Check(r.Scan(nil, nil), func(key []byte, text string) {
				v.tell(Finding{Row: hex.EncodeToString(key), Text: text})
			})
		}); err != nil {
			v.tell(Finding{Text: err.Error()})
		}
	}); err != nil {
		return err
	}
	if first > 0 {
		v.Entries = int64(last - first + 1)
	}
	r, err = pebblekv.OpenReadState(pebblekv.Options{Dir: node.GroupDir(v.dir)})
	return v.part(node.GroupDir("")+"/state", r, err, func(r *pebblekv.Reader) {
		if v.Applied = r.Index(); first > v.Applied+1 {
			v.tell(Finding{Text: fmt.Sprintf("the rows end at entry %d, and the log begins with entry %d", v.Applied, first)})
		}
		v.rows(r)
	})
}

// part verifies one folder of a directory.
func (v *verifying) part(
	folder string, r *pebblekv.Reader, err error, rows func(r *pebblekv.Reader),
) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, pebblekv.ErrDamaged):
		return err
	case err != nil:
		if locked, ok := errors.AsType[*pebblekv.LockedError](err); ok {
			locked.Dir = v.dir
		}
		return storeError(v.dir, err)
	}
	v.Store, v.Commit = r.ID().String(), r.CommitNumber()
	for _, doubt := range r.Doubts() {
		v.tell(Finding{Text: doubt.Error()})
	}
	size, err := r.CheckTables(func(table string, err error) {
		v.tell(Finding{Text: fmt.Sprintf("the file %s/%s is damaged: %v", folder, table, err)})
	})
	v.TableBytes += size
	if err == nil {
		rows(r)
	}
	if closed := r.Close(); err == nil && v.Findings == 0 {
		err = closed
	}
	if err != nil {
		return storeError(v.dir, err)
	}
	return nil
}

// rows verifies the rows of a store.
func (v *verifying) rows(r *pebblekv.Reader) {
	add := func(read verify.Read) {
		v.Queues, v.Messages, v.Rows, v.Bytes = read.Queues, read.Messages, read.Rows, read.Bytes
	}
	a := verify.Verifier{
		Store: r,
		Try:   r.Try,
		Found: func(f verify.Finding) {
			v.tell(Finding{Account: f.Queue.Account, Queue: f.Queue.Name,
				Row: hex.EncodeToString(f.Key), Text: f.Text})
		},
	}
	if v.progress != nil {
		a.Progress = func(read verify.Read) { add(read); v.progress(v.Verified) }
	}
	add(a.Run())
}
