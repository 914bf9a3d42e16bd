// Package dynamorecords keeps records in DynamoDB, one item each, for all processes that reach the
// table.
//
// Every write is one conditional PutItem, which a conflict answers with what is there, and Get is
// one strongly consistent GetItem. Put of a new record takes a second one when an earlier record of
// its key was written by a process whose clock is ahead. List scans the whole table and pays for
// that: it is for operators and tests, not for every minute.
//
// DynamoDB has no clock that a condition could use. Age is records.AgeUnknown, and what has expired
// is told by the clock of each process. A version is the larger of that clock in microseconds and
// one more than the version before. For versions to rise, what expired or was deleted stays as an
// item of a few bytes or as it was, unseen, and DynamoDB removes it a day after it expired and a
// day after the time in its version (attribute TTL). So they rise as long as no clock is a day
// behind another.
//
// A request whose answer was lost is repeated by the SDK, as its Retryer says, and may find what it
// has written itself. Each write carries a random nonce by which it is told. Where others may have
// written in between the outcome is an error, and not a *records.Conflict, which would say that
// nothing was written.
//
// Labels of a record (records.Write) are attributes of its item, which the console shows and
// queries can use. CreateIndex makes an index of records by their Due, and ListDue finds those that
// are due without reading the whole table. Records that an earlier version of this package wrote
// have neither until they are written again.
//
// The table is not to be a global table: its replicas do not agree on conditions. A role needs
// GetItem, PutItem and Scan on it, and Query on its index.
package dynamorecords

import (
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
	Table  string // name or ARN
}

// New returns a store over a table, which exists or is created with CreateTable. It does not use
// the table.
func New(cfg Config) (*Store, error) {
	switch {
	case cfg.Client == nil:
		return nil, errors.New("dynamorecords: Config.Client is missing: set it to a client of DynamoDB (dynamodb.NewFromConfig)")
	case cfg.Table == "":
		return nil, errors.New("dynamorecords: Config.Table is missing: set it to the name or ARN of the table of the records")
	}
	return &Store{client: cfg.Client, table: cfg.Table, now: time.Now}, nil
}

// Close does nothing: the client remains the caller's.
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

// get reads an item, which may be dead or none.
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

// createMax is how often Put tries to create a record whose key had versions ahead of our clock.
// Once is enough, but for others who do so at the same time.
const createMax = 100

// Put writes a record if it has the version that w names; else the error is a *records.Conflict.
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
		// An earlier request may have been carried out, or may still be, unless it named a version
		// that the record had before and the record is older than what it would have written.
		case outcome == unsure &&
			(w.If == 0 || there.version == 0 || there.version >= next.version):
			return records.Record{}, fmt.Errorf("put record %q: %w", w.Key, errUnsure)
		case there.live(micros(now)):
			return records.Record{}, &records.Conflict{Current: there.record(micros(now))}
		case w.If != 0:
			return records.Record{}, &records.Conflict{}
		}
		least = there.version + 1 // of what expired or was deleted
	}
	return records.Record{}, fmt.Errorf("put record %q: too many others create and delete it",
		w.Key)
}

// Delete removes a record if it has the version; else the error is a *records.Conflict.
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
	// A record that still has the version ended otherwise, and we did not delete it.
	case outcome == unsure && there.version != version:
		return fmt.Errorf("delete record %q: %w", key, errUnsure)
	case there.live(now):
		return &records.Conflict{Current: there.record(now)}
	}
	return &records.Conflict{}
}

// List returns up to limit records whose keys begin with prefix and come behind after, in order. It
// reads the whole table.
func (s *Store) List(
	ctx context.Context, prefix, after string, limit int,
) ([]records.Record, error) {
	for _, key := range []string{prefix, after} {
		if key != "" {
			if err := records.CheckKey(key); err != nil {
				return nil, err
			}
		}
	}
	if limit < 1 || limit > records.ListMax {
		limit = records.ListMax
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

// scan asks for the items that List wants, a page of DynamoDB's choosing at a time.
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

// Sweep does nothing: DynamoDB removes what has expired.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) { return 0, ctx.Err() }

// errUnsure is the error of a write that met another after its own answer was lost.
var errUnsure = errors.New("an answer was lost and the record was written since; whether this write took effect is unknown, read the record")

// An outcome is what became of a write.
type outcome int

const (
	written outcome = iota
	refused         // and it never will be written
	unsure          // refused, but an earlier request that was not answered may not have been
)

// living is the condition that a record exists.
const living = "(attribute_not_exists(#expires) OR #expires > :now)"

// write puts an item in the place of the record that has the version expected, or if that is zero
// of none. When that is refused it returns what is there, empty for nothing.
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
		// What expired or was deleted is replaced by a larger version only.
		in.ConditionExpression = aws.String("attribute_not_exists(#version) OR (#expires <= :now AND #version < :next)")
		in.ExpressionAttributeValues[":next"] = number(it.version)
	} else {
		in.ConditionExpression = aws.String("#version = :expected AND " + living)
		in.ExpressionAttributeValues[":expected"] = number(expected)
	}

	var lost lostAnswers
	_, err = s.client.PutItem(ctx, in, lost.watch)
	var failed *types.ConditionalCheckFailedException
	if err == nil || !errors.As(err, &failed) {
		return item{}, written, err
	}
	there, err = decode(failed.Item)
	switch {
	case err != nil:
		return item{}, refused, err
	case string(there.nonce) == string(it.nonce):
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
