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
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

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

var _ records.Store = (*Store)(nil)

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

// A change is a write as the server takes it.
type change struct {
	Key    string `json:"key"`
	If     uint64 `json:"if,omitempty"`
	Value  []byte `json:"value,omitempty"`
	TTLMS  int64  `json:"ttlMs,omitempty"`
	Delete bool   `json:"delete,omitempty"`
}

// A result is what became of a change.
type result struct {
	Record   *record         `json:"record"`
	Conflict bool            `json:"conflict"`
	Error    *v1client.Error `json:"error"`
}

// Put writes a record if it has the version that w names.
func (s *Store) Put(ctx context.Context, w records.Write) (records.Record, error) {
	if err := w.Check(); err != nil {
		return records.Record{}, err
	}
	r, err := s.line.do(ctx, change{Key: w.Key, If: uint64(w.If), Value: w.Value,
		TTLMS: int64((w.TTL + time.Millisecond - 1) / time.Millisecond)})
	if err != nil {
		return records.Record{}, explain("put a record", err)
	}
	if r.Conflict {
		return records.Record{}, &records.Conflict{Current: r.Record.record()}
	}
	rec := r.Record.record()
	rec.Value = append([]byte(nil), w.Value...) // which the server does not send back
	return rec, nil
}

// Delete removes a record if it has the version.
func (s *Store) Delete(ctx context.Context, key string, version records.Version) error {
	if err := records.CheckKey(key); err != nil {
		return err
	}
	r, err := s.line.do(ctx, change{Key: key, If: uint64(version), Delete: true})
	switch {
	case err != nil:
		return explain("delete a record", err)
	case r.Conflict:
		return &records.Conflict{Current: r.Record.record()}
	}
	return nil
}

// write sends changes in one request.
func (s *Store) write(ctx context.Context, changes []change) ([]result, error) {
	var out struct {
		Results []result `json:"results"`
	}
	in := struct {
		Writes []change `json:"writes"`
	}{changes}
	if err := s.server.Post(ctx, "/records", in, &out); err != nil {
		return nil, err
	}
	if len(out.Results) != len(changes) {
		return nil, fmt.Errorf("the server answers %d of %d writes: this version cannot use it",
			len(out.Results), len(changes))
	}
	return out.Results, nil
}

// Sweep does nothing, because the server removes expired records.
func (s *Store) Sweep(ctx context.Context, _ int) (int, error) { return 0, ctx.Err() }

// Close waits for the requests in progress.
func (s *Store) Close() error {
	s.line.close()
	return nil
}
