package v1

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/work/plainjson"
	"tenaq/records"
)

// Limits of one request. [REC-10, REC-11]
const (
	recordsBytes = 1 << 20 // values beside the first record
	writesMax    = 32

	// A conflict shows a value of up to showMax bytes without a wait for more memory.
	showMax = 2 << 10
)

// A record is a record in an answer.
type record struct {
	Key     string `json:"key"`
	Value   []byte `json:"value,omitempty"`
	Version uint64 `json:"version"`
	AgeMS   int64  `json:"ageMs"`
	TTLMS   int64  `json:"ttlMs,omitempty" doc:"until it expires; absent if it does not"`

	cut bool // the value has not been read
}

func shownRecord(r *engine.Record) *record {
	return &record{Key: r.Key, Value: r.Value, Version: r.Version, AgeMS: r.Age, TTLMS: r.TTL,
		cut: r.Cut}
}

// A recordList is a page of GET /v1/records.
type recordList struct {
	Records []*record `json:"records"`
	Next    string    `json:"next,omitempty"`
}

type recordsIn struct {
	Key    string `query:"key" doc:"show this record, or none"`
	Prefix string `query:"prefix"`
	After  string `query:"after" doc:"next of the page before"`
	Limit  int    `query:"limit" range:"1,1000" default:"100"`
}

// records answers GET /v1/records. [REC-10]
func (c *call) records(in recordsIn) (list recordList, err error) {
	if _, err := records.CheckList(in.Limit, in.Key, in.Prefix, in.After); err != nil {
		return list, errRecord(err)
	}
	if in.Key != "" && in.Prefix+in.After != "" {
		return list, errRecord(errors.New("key excludes prefix and after: leave them out"))
	}
	account := c.principal.Account()
	c.room = c.cfg.Intake.Answers.Hold(account)
	if err := c.room.Wait(c, intake.AnswerCost*(recordsBytes+records.ValueMax),
		intake.WaitMax); err != nil {
		return list, err
	}
	list.Records = []*record{}
	if in.Key != "" {
		op := &engine.GetRecord{Account: account, Key: in.Key}
		err = c.do(op)
		if err == nil && op.Record.Version != 0 {
			list.Records = append(list.Records, shownRecord(&op.Record))
		}
		return list, err
	}
	op := &engine.ListRecords{Account: account, Prefix: in.Prefix, After: in.After, Max: in.Limit,
		Bytes: recordsBytes}
	if err := c.do(op); err != nil {
		return list, err
	}
	for i := range op.Records {
		list.Records = append(list.Records, shownRecord(&op.Records[i]))
	}
	list.Next = op.Next
	return list, nil
}

type writesIn struct {
	Writes []recordWrite `json:"writes" doc:"1 to 32 writes"`
}

// readPlain reads the writes of a worker.
func (in *writesIn) readPlain(body []byte) bool {
	s, writes := plainjson.New(body), make([]recordWrite, 0, writesMax)
	s.Object(func(name []byte) {
		if string(name) != "writes" || len(writes) > 0 {
			s.Fail()
		}
		s.List(func() {
			if len(writes) == writesMax {
				s.Fail()
				return
			}
			var w recordWrite
			s.Object(func(name []byte) { w.readPlain(s, name) })
			writes = append(writes, w)
		})
	})
	if !s.Done() {
		return false
	}
	in.Writes = writes
	return true
}

func (w *recordWrite) readPlain(s *plainjson.Scanner, name []byte) {
	switch string(name) {
	case "key":
		w.Key = s.String()
	case "if":
		w.If = s.Uint()
	case "value":
		w.Value = s.Bytes()
	case "ttlMs":
		w.TTLMS = int64(s.Uint())
	case "delete":
		w.Delete = s.Bool()
	case "message":
		if w.Message != nil { // encoding/json would join them
			s.Fail()
		}
		w.Message = &recordMessage{}
		s.Object(func(name []byte) {
			switch string(name) {
			case "queue":
				w.Message.Queue = s.String()
			case "receiptHandle":
				w.Message.Handle = s.String()
			default:
				s.Fail()
			}
		})
	default:
		s.Fail()
	}
}

// A recordWrite replaces or removes a record.
type recordWrite struct {
	Key    string `json:"key"`
	If     uint64 `json:"if,omitempty" doc:"the version that the record must have; 0 for none"`
	Value  []byte `json:"value,omitempty"`
	TTLMS  int64  `json:"ttlMs,omitempty" doc:"lifetime; 0 means that it does not expire"`
	Delete bool   `json:"delete,omitempty"`

	Message *recordMessage `json:"message,omitempty" doc:"is deleted in the same step, if the record is written"`
}

// A recordMessage is a received message whose work a record ends.
type recordMessage struct {
	Queue  string `json:"queue"`
	Handle string `json:"receiptHandle"`
}

// A writeList is what became of writes, in their order.
type writeList struct {
	Results []writeResult `json:"results"`
}

// A writeResult is what became of a write. The record is the one that was written, without its
// value, or the current one in case of a conflict, if there is one.
type writeResult struct {
	Record   *record     `json:"record,omitempty"`
	Conflict bool        `json:"conflict,omitempty"`
	Error    *writeError `json:"error,omitempty"`

	// Whether the message was deleted; if not, why not, although the record was written.
	Deleted bool        `json:"deleted,omitempty"`
	Kept    *writeError `json:"kept,omitempty"`
}

// appendJSON appends the answer as encoding/json would write it, in a fraction of its time.
func (l writeList) appendJSON(b []byte) []byte {
	b = append(b, `{"results":[`...)
	for i := range l.Results {
		if i > 0 {
			b = append(b, ',')
		}
		b = l.Results[i].appendJSON(b)
	}
	return append(b, ']', '}')
}

func (r *writeResult) appendJSON(b []byte) []byte {
	rec := r.Record
	if rec == nil || len(rec.Value) > 0 || r.Conflict || r.Error != nil || r.Kept != nil {
		other, _ := json.Marshal(r) // cannot fail
		return append(b, other...)
	}
	b = plainjson.AppendString(append(b, `{"record":{"key":`...), rec.Key)
	b = strconv.AppendUint(append(b, `,"version":`...), rec.Version, 10)
	b = strconv.AppendInt(append(b, `,"ageMs":`...), rec.AgeMS, 10)
	if rec.TTLMS != 0 {
		b = strconv.AppendInt(append(b, `,"ttlMs":`...), rec.TTLMS, 10)
	}
	if b = append(b, '}'); r.Deleted {
		b = append(b, `,"deleted":true`...)
	}
	return append(b, '}')
}

// A writeError says why a write was not carried out, or that its outcome is unknown.
type writeError struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// writeRecords answers POST /v1/records. Each write has its own condition and its own result. The
// request fails if none of its writes was carried out, so that another node may carry them out.
// [REC-11]
func (c *call) writeRecords(in writesIn) (list writeList, err error) {
	if n := len(in.Writes); n < 1 || n > writesMax {
		return list, errRecord(fmt.Errorf("a request has 1 to %d writes, and this one has %d",
			writesMax, n))
	}
	c.room = c.cfg.Intake.Answers.Hold(c.principal.Account())
	if err := c.room.Wait(c, shownBytes*intake.AnswerCost, intake.WaitMax); err != nil {
		return list, err
	}
	ops, errs := make([]engine.Op, len(in.Writes)), make([]error, len(in.Writes))
	pending := make([]broker.Pending, len(in.Writes))
	for i := range in.Writes {
		if ops[i], errs[i] = c.opOf(&in.Writes[i]); errs[i] == nil {
			pending[i], errs[i] = c.cfg.Broker.Submit(ops[i])
		}
	}
	failed := 0
	for i := range ops {
		if errs[i] == nil {
			errs[i] = pending[i].Wait(c)
		}
		if errs[i] != nil {
			failed++
			err = cmp.Or(err, errs[i])
		}
		list.Results = append(list.Results, resultOf(ops[i], errs[i]))
	}
	if failed == len(ops) {
		return list, err
	}
	c.showLarge(list.Results)
	return list, nil
}

// shownBytes are those of values that conflicts show at once.
const shownBytes = writesMax * showMax

// showLarge reads the large values that conflicts left out, as soon as there is memory for them. A
// write whose conflict cannot be shown has not been carried out.
func (c *call) showLarge(results []writeResult) {
	large := int64(0)
	for _, r := range results {
		if r.Record != nil && r.Record.cut {
			large++
		}
	}
	if large == 0 {
		return
	}
	busy := c.room.Wait(c, (shownBytes+large*records.ValueMax)*intake.AnswerCost, intake.WaitMax)
	for i, r := range results {
		if r.Record == nil || !r.Record.cut {
			continue
		}
		op := &engine.GetRecord{Account: c.principal.Account(), Key: r.Record.Key}
		err := busy
		if err == nil {
			err = c.do(op)
		}
		results[i] = writeResult{Conflict: true}
		switch {
		case err != nil:
			results[i] = resultOf(nil, err)
		case op.Record.Version != 0:
			results[i].Record = shownRecord(&op.Record)
		}
	}
}

// opOf returns the operation of a write. To delete a message, the caller needs the right to do so
// for itself; otherwise nothing of the write is carried out. [REC-15]
func (c *call) opOf(w *recordWrite) (engine.Op, error) {
	account := c.principal.Account()
	check := records.Write{Key: w.Key, Value: w.Value}
	if err := check.Check(); err != nil {
		return nil, errRecord(err)
	}
	if w.TTLMS < 0 {
		return nil, errRecord(fmt.Errorf("ttlMs of record %q is %d: delete the record instead", w.Key, w.TTLMS))
	}
	if w.Delete {
		if w.Message != nil {
			return nil, errRecord(errors.New("a write that deletes its record cannot delete a message too"))
		}
		return &engine.DeleteRecord{Account: account, Key: w.Key, If: w.If, ShowMax: showMax}, nil
	}
	op := &engine.PutRecord{Account: account, Key: w.Key, Value: w.Value, If: w.If,
		TTL: w.TTLMS, ShowMax: showMax}
	if w.Message != nil {
		if err := c.allow(w.Message.Queue, "sqs:DeleteMessage"); err != nil {
			return nil, err
		}
		op.Message = &engine.DeleteMessage{Queue: c.queue(w.Message.Queue),
			Handle: c.handle(w.Message.Handle)}
	}
	return op, nil
}

func resultOf(op engine.Op, err error) (r writeResult) {
	if err != nil {
		r.Error = errorOf(err)
		return r
	}
	var current engine.Record
	switch op := op.(type) {
	case *engine.PutRecord:
		current, r.Conflict = op.Record, op.Conflict
		r.Deleted = op.Message != nil && !op.Conflict && op.Refused == nil
		if op.Refused != nil {
			r.Kept = errorOf(op.Refused)
		}
	case *engine.DeleteRecord:
		current, r.Conflict = op.Record, op.Conflict
	}
	if current.Version != 0 {
		if r.Record = shownRecord(&current); !r.Conflict {
			r.Record.Value = nil // the client has it
		}
	}
	return r
}

func errorOf(err error) *writeError {
	e := asError(err)
	return &writeError{e.status, e.Code, e.Message}
}

// errRecord refuses a request for a reason that package records or claims gives.
func errRecord(err error) error {
	return sqswire.Errorf(sqswire.InvalidParameterValue, "%s", err.Error())
}

// serverRecords are the records of an account as a Store for package claims.
type serverRecords struct {
	broker  *broker.Broker
	account string
}

var _ records.Store = serverRecords{}

func (s serverRecords) Get(ctx context.Context, key string) (records.Record, error) {
	op := &engine.GetRecord{Account: s.account, Key: key}
	if err := s.broker.Do(ctx, op); err != nil {
		return records.Record{}, err
	}
	if op.Record.Version == 0 {
		return records.Record{}, records.ErrNotFound
	}
	return storedRecord(&op.Record), nil
}

func (s serverRecords) Put(ctx context.Context, w records.Write) (records.Record, error) {
	if err := w.Check(); err != nil {
		return records.Record{}, errRecord(err)
	}
	op := &engine.PutRecord{Account: s.account, Key: w.Key, Value: w.Value, If: uint64(w.If),
		TTL: milliseconds(w.TTL)}
	if err := s.broker.Do(ctx, op); err != nil {
		return records.Record{}, err
	}
	if op.Conflict {
		return records.Record{}, &records.Conflict{Current: storedRecord(&op.Record)}
	}
	return storedRecord(&op.Record), nil
}

// Delete is not needed by what these records are for.
func (s serverRecords) Delete(context.Context, string, records.Version) error {
	return errors.ErrUnsupported
}

// List is for package timeline.
func (s serverRecords) List(
	ctx context.Context, prefix, after string, limit int,
) (list []records.Record, err error) {
	if limit, err = records.CheckList(limit, prefix, after); err != nil {
		return nil, errRecord(err)
	}
	op := &engine.ListRecords{Account: s.account, Prefix: prefix, After: after, Max: limit,
		Bytes: recordsBytes}
	for {
		if err := s.broker.Do(ctx, op); err != nil {
			return nil, err
		}
		for i := range op.Records {
			list = append(list, storedRecord(&op.Records[i]))
		}
		if op.Max = limit - len(list); op.Next == "" || op.Max == 0 {
			return list, nil
		}
		op.After = op.Next
	}
}

func (s serverRecords) Sweep(context.Context, int) (int, error) { return 0, nil }
func (s serverRecords) Close() error                            { return nil }

func storedRecord(r *engine.Record) records.Record {
	if r.Version == 0 {
		return records.Record{}
	}
	return records.Record{Key: r.Key, Value: r.Value, Version: records.Version(r.Version),
		Age: time.Duration(r.Age) * time.Millisecond, TTL: time.Duration(r.TTL) * time.Millisecond}
}

// milliseconds rounds a lifetime up.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
