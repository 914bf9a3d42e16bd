// Package serverrecords keeps records in a tenaq server, beside its queues. A program that uses
// such a server needs no database for its claims, and every process that reaches the queue reaches
// the records.
//
//	client := sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.BaseEndpoint = &endpoint })
//	store, err := serverrecords.New(serverrecords.Config{Client: client})
//
// Package records lists what every Store guarantees. This one also guarantees:
//
//   - An answered write is as durable as an answered send: the server has forced it to disk, and in
//     a cluster a majority of the nodes has.
//   - The clock is that of the server. If it jumps ahead, nothing expires until it is trusted
//     again, as with messages.
//   - Concurrent writes of a process share requests, of up to 32 writes. Each keeps its own
//     condition and its own outcome. A write whose context ends before its request is sent never
//     takes effect.
//   - A refusal of the server is an error with its message, and implements smithy.APIError.
//
// The server removes expired records itself, so Sweep does nothing. It keeps the records of each
// account apart. A key of the server needs tenaq:ReadRecords and tenaq:WriteRecords.
//
// It leaves retries to the caller, as package claims does them.
package serverrecords

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/work/plainjson"
	"tenaq/internal/work/v1client"
	"tenaq/records"
)

// Config configures a Store.
type Config struct {
	// Client is a client of the SQS API of the server, such as an *sqs.Client. The store takes its
	// address, its HTTP client and its credentials.
	Client interface{ Options() sqs.Options }
}

// A Store keeps records in a tenaq server.
type Store struct {
	server *v1client.Client
	line   line
}

var (
	_ records.Store     = (*Store)(nil)
	_ records.Unlabeled = (*Store)(nil)
)

// New returns a store. It does not use the server.
func New(cfg Config) (*Store, error) {
	server := v1client.New(cfg.Client)
	if server == nil {
		return nil, errors.New("the client of the records has no address of its own: set BaseEndpoint to the URL of a tenaq server")
	}
	s := &Store{server: server}
	s.line.send = s.write
	return s, nil
}

// Offered reports whether the server of a client keeps records. It is false for Amazon SQS, for
// other servers, and for a tenaq server of an earlier version.
func Offered(ctx context.Context, client interface{ Options() sqs.Options }) (bool, error) {
	server := v1client.New(client)
	if server == nil {
		return false, nil
	}
	err := server.Get(ctx, "/records", url.Values{"key": {"tenaq"}}, &list{})
	refusal, refused := errors.AsType[*v1client.Error](err)
	if err == v1client.ErrOther || refused && refusal.Status == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// A record is a record in an answer of the server.
type record struct {
	Key     string `json:"key"`
	Value   []byte `json:"value"`
	Version uint64 `json:"version"`
	AgeMS   int64  `json:"ageMs"`
	TTLMS   int64  `json:"ttlMs"`
}

func (r *record) record() records.Record {
	if r == nil {
		return records.Record{}
	}
	return records.Record{Key: r.Key, Value: r.Value, Version: records.Version(r.Version),
		Age: time.Duration(r.AgeMS) * time.Millisecond,
		TTL: time.Duration(r.TTLMS) * time.Millisecond}
}

// A list is a page of records.
type list struct {
	Records []*record `json:"records"`
	Next    string    `json:"next"`
}

// explain adds to an error what was being done, and what to do about it.
func explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case err == v1client.ErrOther:
		err = fmt.Errorf("%w, or an earlier version of it: name another store of records", err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Get returns a record, or records.ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (records.Record, error) {
	if err := records.CheckKey(key); err != nil {
		return records.Record{}, err
	}
	var found list
	if err := s.server.Get(ctx, "/records", url.Values{"key": {key}}, &found); err != nil {
		return records.Record{}, explain("get a record", err)
	}
	if len(found.Records) == 0 {
		return records.Record{}, records.ErrNotFound
	}
	return found.Records[0].record(), nil
}

// List returns records in the order of their keys.
func (s *Store) List(
	ctx context.Context, prefix, after string, limit int,
) ([]records.Record, error) {
	limit, err := records.CheckList(limit, prefix, after)
	if err != nil {
		return nil, err
	}
	var all []records.Record
	for {
		query := url.Values{"limit": {strconv.Itoa(limit - len(all))}}
		for name, value := range map[string]string{"prefix": prefix, "after": after} {
			if value != "" {
				query.Set(name, value)
			}
		}
		var page list
		if err := s.server.Get(ctx, "/records", query, &page); err != nil {
			return nil, explain("list records", err)
		}
		for _, r := range page.Records {
			all = append(all, r.record())
		}
		if after = page.Next; after == "" || len(all) >= limit {
			return all, nil
		}
	}
}

// A change is a write.
type change struct {
	key     string
	version uint64 // that the record must have
	value   []byte
	ttlMS   int64
	delete  bool
	message *message
}

// A message is a received message that a write deletes.
type message struct{ queue, handle string }

// size is about how many bytes a change has in a request.
func (c *change) size() int {
	size := len(c.key) + base64.StdEncoding.EncodedLen(len(c.value)) + 64
	if c.message != nil {
		size += len(c.message.queue) + len(c.message.handle) + 64
	}
	return size
}

// appendTo appends a change as the server takes it.
func (c *change) appendTo(b []byte) []byte {
	b = plainjson.AppendString(append(b, `{"key":`...), c.key)
	if c.version != 0 {
		b = strconv.AppendUint(append(b, `,"if":`...), c.version, 10)
	}
	if len(c.value) > 0 {
		b = plainjson.AppendBytes(append(b, `,"value":`...), c.value)
	}
	if c.ttlMS != 0 {
		b = strconv.AppendInt(append(b, `,"ttlMs":`...), c.ttlMS, 10)
	}
	if c.delete {
		b = append(b, `,"delete":true`...)
	}
	if m := c.message; m != nil {
		b = plainjson.AppendString(append(b, `,"message":{"queue":`...), m.queue)
		b = plainjson.AppendString(append(b, `,"receiptHandle":`...), m.handle)
		b = append(b, '}')
	}
	return append(b, '}')
}

// A result is what became of a change.
type result struct {
	Record   *record         `json:"record"`
	Conflict bool            `json:"conflict"`
	Error    *v1client.Error `json:"error"`
	Deleted  bool            `json:"deleted"`
}

// A resultList is the answer to changes, in their order.
type resultList struct {
	Results []result `json:"results"`
}

// UnmarshalJSON reads the results of changes without reflection, unless they say more than that
// records were written.
func (l *resultList) UnmarshalJSON(text []byte) error {
	s := plainjson.New(bytes.TrimSpace(text))
	var all []result
	s.Object(func(name []byte) {
		if string(name) != "results" || all != nil {
			s.Fail()
		}
		all = make([]result, 0, batchMax)
		written := make([]record, batchMax)
		s.List(func() {
			rec := &written[len(all)%batchMax] // no request has more results
			all = append(all, result{})
			r := &all[len(all)-1]
			s.Object(func(name []byte) { r.readPlain(s, name, rec) })
		})
	})
	if s.Done() {
		l.Results = all
		return nil
	}
	type reflected resultList
	return json.Unmarshal(text, (*reflected)(l))
}

// readPlain reads a part of a result. Its record, if it has one, goes into rec.
func (r *result) readPlain(s *plainjson.Scanner, name []byte, rec *record) {
	switch {
	case string(name) == "deleted":
		r.Deleted = s.Bool()
	case string(name) == "record" && r.Record == nil:
		r.Record = rec
		s.Object(func(name []byte) {
			switch string(name) {
			case "key":
				r.Record.Key = s.String()
			case "version":
				r.Record.Version = s.Uint()
			case "ageMs":
				r.Record.AgeMS = int64(s.Uint())
			case "ttlMs":
				r.Record.TTLMS = int64(s.Uint())
			default:
				s.Fail()
			}
		})
	default:
		s.Fail()
	}
}

// Put writes a record if it has the version that w names.
func (s *Store) Put(ctx context.Context, w records.Write) (records.Record, error) {
	rec, _, err := s.put(ctx, w, nil)
	return rec, err
}

// PutAndDelete is Put and, if the record is written, deletes a received message of a queue of the
// same server in the same step: neither is ever seen without the other. Queue is the name of the
// queue, and handle the receipt handle. Deleted is false if the record was written but the message
// could not be deleted, for example because the handle is no longer valid, or if that is unknown;
// another delete finds out. The key needs sqs:DeleteMessage on the queue; without it, nothing is
// written.
func (s *Store) PutAndDelete(
	ctx context.Context, w records.Write, queue, handle string,
) (rec records.Record, deleted bool, err error) {
	return s.put(ctx, w, &message{queue, handle})
}

// Deletes reports whether PutAndDelete can be used for a queue of the server of a client. It is
// false if that is another server, or one of an earlier version, or if the key may not delete
// messages of the queue. It changes nothing.
func (s *Store) Deletes(
	ctx context.Context, client interface{ Options() sqs.Options }, queue string,
) bool {
	if other := v1client.New(client); other == nil || other.URL != s.server.URL {
		return false
	}
	// No record has the largest version, so this is always a conflict.
	r, err := s.line.do(ctx,
		change{key: "tenaq", version: math.MaxUint64, message: &message{queue, "-"}})
	return err == nil && r.Conflict
}

func (s *Store) put(
	ctx context.Context, w records.Write, m *message,
) (rec records.Record, deleted bool, err error) {
	if err := w.Check(); err != nil {
		return rec, false, err
	}
	r, err := s.line.do(ctx, change{key: w.Key, version: uint64(w.If), value: w.Value,
		ttlMS: int64((w.TTL + time.Millisecond - 1) / time.Millisecond), message: m})
	if err != nil {
		return rec, false, explain("put a record", err)
	}
	if r.Conflict {
		return rec, false, &records.Conflict{Current: r.Record.record()}
	}
	rec = r.Record.record()
	rec.Value = append([]byte(nil), w.Value...) // which the server does not send back
	return rec, r.Deleted, nil
}

// Delete removes a record if it has the version.
func (s *Store) Delete(ctx context.Context, key string, version records.Version) error {
	if err := records.CheckKey(key); err != nil {
		return err
	}
	r, err := s.line.do(ctx, change{key: key, version: uint64(version), delete: true})
	switch {
	case err != nil:
		return explain("delete a record", err)
	case r.Conflict:
		return &records.Conflict{Current: r.Record.record()}
	}
	return nil
}

// write sends a request of n changes.
func (s *Store) write(ctx context.Context, body []byte, n int) ([]result, error) {
	var out resultList
	if err := s.server.PostJSON(ctx, "/records", body, &out); err != nil {
		return nil, err
	}
	if len(out.Results) != n {
		return nil, fmt.Errorf("the server answers %d of %d writes: this version cannot use it",
			len(out.Results), n)
	}
	return out.Results, nil
}

// Unlabeled says that the store ignores labels.
func (s *Store) Unlabeled() {}

// Sweep does nothing, because the server removes expired records.
func (s *Store) Sweep(ctx context.Context, _ int) (int, error) { return 0, ctx.Err() }

// Close waits for the requests in progress.
func (s *Store) Close() error {
	s.line.close()
	return nil
}
