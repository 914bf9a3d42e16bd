// Package dynamorecords keeps records in DynamoDB, one item each, for all processes that reach the
// table.
//
// Every write is one conditional PutItem, which answers a conflict with the current item, and Get
// is one strongly consistent GetItem. Put of a new record needs a second PutItem if a process with
// a faster clock wrote an earlier record of the key. List scans the whole table and pays for that:
// use it for operations and tests only.
//
// DynamoDB has no clock that a condition could use. Age is records.AgeUnknown, and the clock of
// each process decides what has expired. A version is the larger of that clock in microseconds and
// the previous version plus one. For versions to rise, an expired or deleted record stays as an
// invisible item. DynamoDB removes the item (attribute TTL) one day after the record expired, and
// no earlier than one day after the time in its version. So versions rise unless two clocks differ
// by a day.
//
// If an answer is lost, the SDK repeats the request, as its Retryer decides, and the second request
// may find the write of the first. A random nonce in each write identifies it. If another process
// may have written in between, the outcome is unknown, and the error is not a *records.Conflict,
// which would say that nothing was written.
//
// The labels of a record (records.Write) are attributes of its item, for the console and for
// queries. CreateIndex creates an index of records by their Due. ListDue uses it to find due
// records without reading the whole table. Records that an earlier version of this package wrote
// have neither until their next write.
//
// The table must not be a global table, because the replicas do not agree on conditions. A role
// needs GetItem, PutItem and Scan on it, and Query on its index.
package dynamorecords

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"tenaq/records"
)

// A Store keeps records in one table.
type Store struct {
	client *dynamodb.Client
	table  string
	now    func() time.Time
}

var _ records.Store = (*Store)(nil)

// A Config says where the records are. Both fields are required.
type Config struct {
	Client *dynamodb.Client
	Table  string // its name or ARN
}

// New returns a store over a table. It does not use the table: call CreateTable to create it.
func New(cfg Config) (*Store, error) {
	switch {
	case cfg.Client == nil:
		return nil, errors.New("dynamorecords: Config.Client is missing: set it to a client of DynamoDB (dynamodb.NewFromConfig)")
	case cfg.Table == "":
		return nil, errors.New("dynamorecords: Config.Table is missing: set it to the name or ARN of the table of the records")
	}
	return &Store{client: cfg.Client, table: cfg.Table, now: time.Now}, nil
}

// Close does nothing. The caller closes the client.
func (s *Store) Close() error { return nil }

// Get returns a record, or records.ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (records.Record, error) {
	if err := records.CheckKey(key); err != nil {
		return records.Record{}, err
	}
	it, err := s.get(ctx, key)
	now := micros(s.now())
	switch {
	case err != nil:
		return records.Record{}, err
	case !it.live(now):
		return records.Record{}, records.ErrNotFound
	}
	return it.record(now), nil
}

// get returns an item, which may be expired or deleted, or the zero value.
func (s *Store) get(ctx context.Context, key string) (it item, err error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:      &s.table,
		Key:            attributes{"Key": text(key)},
		ConsistentRead: aws.Bool(true),
	})
	if err == nil {
		it, err = decode(out.Item)
	}
	if err != nil {
		return item{}, fmt.Errorf("get record %q: %w", key, err)
	}
	return it, nil
}

// createMax is how often Put tries to create a record whose key has had versions ahead of the clock
// of this process. One retry is enough, unless other processes create and delete it meanwhile.
const createMax = 100

// Put writes a record if it has the version that w names; otherwise it returns a *records.Conflict.
func (s *Store) Put(ctx context.Context, w records.Write) (records.Record, error) {
	if err := w.Check(); err != nil {
		return records.Record{}, err
	}
	least := w.If + 1
	for range createMax {
		now := s.now()
		next := item{
			key:     w.Key,
			value:   slices.Clone(w.Value),
			version: max(least, micros(now)),
			nonce:   newNonce(),
			labels:  w.Labels,
		}
		if !w.Due.IsZero() {
			next.due = dueText(w.Due)
		}
		if w.TTL > 0 {
			next.mortal, next.expires = true, expiry(now, w.TTL)
		}
		there, outcome, err := s.write(ctx, next, w.If, micros(now))
		switch {
		case err != nil:
			return records.Record{}, fmt.Errorf("put record %q: %w", w.Key, err)
		case outcome == written:
			return next.record(micros(now)), nil
		// An earlier request may have taken effect, or may still do so. The exception: it named an
		// earlier version of the record, and the record is older than what it would have written.
		case outcome == unsure &&
			(w.If == 0 || there.version == 0 || there.version >= next.version):
			return records.Record{}, fmt.Errorf("put record %q: %w", w.Key, errUnsure)
		case there.live(micros(now)):
			return records.Record{}, &records.Conflict{Current: there.record(micros(now))}
		case w.If != 0:
			return records.Record{}, &records.Conflict{}
		}
		least = there.version + 1 // the version of the expired or deleted record
	}
	return records.Record{}, fmt.Errorf("put record %q: other processes keep creating and deleting it: try again", w.Key)
}

// Delete removes a record if it has the version; otherwise it returns a *records.Conflict.
func (s *Store) Delete(ctx context.Context, key string, version records.Version) error {
	if err := records.CheckKey(key); err != nil {
		return err
	}
	now := micros(s.now())
	gone := item{key: key, version: version, mortal: true, nonce: newNonce(), removed: now}
	there, outcome, err := s.write(ctx, gone, version, now)
	switch {
	case err != nil:
		return fmt.Errorf("delete record %q: %w", key, err)
	case outcome == written:
		return nil
	// If the record still has the version, it expired, and this call did not delete it.
	case outcome == unsure && there.version != version:
		return fmt.Errorf("delete record %q: %w", key, errUnsure)
	case there.live(now):
		return &records.Conflict{Current: there.record(now)}
	}
	return &records.Conflict{}
}

// List returns up to limit records whose keys begin with prefix and come after the key after, in
// order. It reads the whole table.
func (s *Store) List(
	ctx context.Context, prefix, after string, limit int,
) ([]records.Record, error) {
	limit, err := records.CheckList(limit, prefix, after)
	if err != nil {
		return nil, err
	}
	now := micros(s.now())
	var list []records.Record
	trim := func() {
		slices.SortFunc(list, func(a, b records.Record) int {
			return strings.Compare(a.Key, b.Key)
		})
		clear(list[min(limit, len(list)):])
		list = list[:min(limit, len(list))]
	}
	pages := dynamodb.NewScanPaginator(s.client, s.scan(prefix, after, now))
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list records %q: %w", prefix, err)
		}
		for _, attrs := range page.Items {
			it, err := decode(attrs)
			if err != nil {
				return nil, fmt.Errorf("list records %q: %w", prefix, err)
			}
			list = append(list, it.record(now))
		}
		if len(list) > 2*limit {
			trim()
		}
	}
	trim()
	return list, nil
}

// scan returns the request for the items of a List.
func (s *Store) scan(prefix, after string, now records.Version) *dynamodb.ScanInput {
	in := &dynamodb.ScanInput{
		TableName:                 &s.table,
		ConsistentRead:            aws.Bool(true),
		ExpressionAttributeNames:  map[string]string{"#expires": "Expires"},
		ExpressionAttributeValues: attributes{":now": number(now)},
	}
	filter := []string{living}
	if prefix != "" {
		filter = append(filter, "begins_with(#key, :prefix)")
		in.ExpressionAttributeValues[":prefix"] = text(prefix)
	}
	if after != "" {
		filter = append(filter, "#key > :after")
		in.ExpressionAttributeValues[":after"] = text(after)
	}
	if len(filter) > 1 {
		in.ExpressionAttributeNames["#key"] = "Key"
	}
	in.FilterExpression = aws.String(strings.Join(filter, " AND "))
	return in
}

// Sweep does nothing: DynamoDB removes expired items.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) { return 0, ctx.Err() }

// errUnsure is the error of a write whose answer was lost and that met another write.
var errUnsure = errors.New("an answer was lost and the record was written since; whether this write took effect is unknown, read the record")

// An outcome is the result of a write.
type outcome int

const (
	written outcome = iota
	refused         // nothing was written, and nothing will be
	unsure          // refused, but an earlier request without an answer may have been written
)

// living is the condition that a record exists.
const living = "(attribute_not_exists(#expires) OR #expires > :now)"

// write replaces the record that has the version expected, or creates one if that is zero. If it is
// refused, it returns the current item, or the zero value.
func (s *Store) write(
	ctx context.Context, it item, expected, now records.Version,
) (there item, o outcome, err error) {
	in := &dynamodb.PutItemInput{
		TableName: &s.table,
		Item:      it.encode(),
		ExpressionAttributeNames: map[string]string{"#expires": "Expires",
			"#version": "Version"},
		ExpressionAttributeValues:           attributes{":now": number(now)},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if expected == 0 && !it.tombstone() {
		// An expired or deleted record is replaced only by a larger version.
		in.ConditionExpression = aws.String("attribute_not_exists(#version) OR (#expires <= :now AND #version < :next)")
		in.ExpressionAttributeValues[":next"] = number(it.version)
	} else {
		in.ConditionExpression = aws.String("#version = :expected AND " + living)
		in.ExpressionAttributeValues[":expected"] = number(expected)
	}

	var lost lostAnswers
	_, err = s.client.PutItem(ctx, in, lost.watch)
	failed, refusal := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !refusal {
		return item{}, written, err
	}
	there, err = decode(failed.Item)
	switch {
	case err != nil:
		return item{}, refused, err
	case bytes.Equal(there.nonce, it.nonce):
		return item{}, written, nil
	case lost.any:
		return there, unsure, nil
	}
	return there, refused, nil
}

func newNonce() []byte {
	nonce := make([]byte, 16)
	rand.Read(nonce)
	return nonce
}
