package dynamorecords

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"tenaq/internal/work/parallel"
	"tenaq/records"
)

// The index of due records: a global secondary index over two attributes, which only records with a
// Write.Due have. A partition of an index accepts 1,000 writes per second, so there are several.
const (
	indexName  = "Due"
	shardName  = "DueShard" // the partition: a hexadecimal digit, derived from the key
	dueName    = "DueAt"    // in UTC, so that times sort as text
	dueShards  = 16
	dueFormat  = "2006-01-02T15:04:05.000Z"
	dueReaders = 8 // requests at once
)

func shardOf(key string) string {
	h := fnv.New32a()
	h.Write([]byte(key))
	return fmt.Sprintf("%x", h.Sum32()%dueShards)
}

// dueText returns a time in the format of the index, rounded up.
func dueText(t time.Time) string {
	return t.Add(time.Millisecond - 1).UTC().Truncate(time.Millisecond).Format(dueFormat)
}

var _ records.DueLister = (*Store)(nil)

// ListDue implements records.DueLister. It needs the index of CreateIndex, and the right to Query
// it. The index lags behind the table, so ListDue reads each record from the table again.
func (s *Store) ListDue(
	ctx context.Context, prefix string, until time.Time, limit int,
) ([]records.Record, error) {
	limit, err := records.CheckList(limit, prefix)
	if err != nil {
		return nil, err
	}
	list, err := s.listDue(ctx, prefix, until.UTC().Format(dueFormat), limit)
	if err != nil {
		return nil, fmt.Errorf("list due records %q: %w", prefix, err)
	}
	return list, nil
}

func (s *Store) listDue(
	ctx context.Context, prefix, until string, limit int,
) (list []records.Record, err error) {
	var found []item
	for shard := range dueShards {
		some, err := s.queryDue(ctx, fmt.Sprintf("%x", shard), prefix, until, limit)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	slices.SortFunc(found, func(a, b item) int {
		return strings.Compare(a.due+a.key, b.due+b.key) // times have one length
	})
	found = found[:min(limit, len(found))]
	items, errs := make([]item, len(found)), make([]error, len(found))
	parallel.Each(dueReaders, len(found), func(i int) {
		items[i], errs[i] = s.get(ctx, found[i].key)
	})
	now := micros(s.now())
	for i, it := range items {
		switch {
		case errs[i] != nil:
			return nil, errs[i]
		case it.live(now) && it.due != "" && it.due <= until:
			list = append(list, it.record(now))
		}
	}
	return list, nil
}

// queryDue reads one partition of the index.
func (s *Store) queryDue(
	ctx context.Context, shard, prefix, until string, limit int,
) (found []item, err error) {
	in := &dynamodb.QueryInput{
		TableName:                 &s.table,
		IndexName:                 aws.String(indexName),
		KeyConditionExpression:    aws.String("#shard = :shard AND #due <= :until"),
		ExpressionAttributeNames:  map[string]string{"#shard": shardName, "#due": dueName},
		ExpressionAttributeValues: attributes{":shard": text(shard), ":until": text(until)},
	}
	if prefix != "" {
		in.FilterExpression = aws.String("begins_with(#key, :prefix)")
		in.ExpressionAttributeNames["#key"] = "Key"
		in.ExpressionAttributeValues[":prefix"] = text(prefix)
	}
	pages := dynamodb.NewQueryPaginator(s.client, in)
	for pages.HasMorePages() && len(found) < limit {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, missingIndex(err)
		}
		for _, attrs := range page.Items {
			key, _ := attrs["Key"].(*types.AttributeValueMemberS)
			due, _ := attrs[dueName].(*types.AttributeValueMemberS)
			if key == nil || due == nil {
				return nil, errors.New("an item of the index has no Key or no DueAt: is this a table of records?")
			}
			found = append(found, item{key: key.Value, due: due.Value})
		}
	}
	return found, nil
}

// missingIndex recognizes that there is no usable index: it is missing or being filled, or the role
// may not query it.
func missingIndex(err error) error {
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return err
	}
	switch about := strings.Contains(answer.ErrorMessage(), "index"); {
	case about && answer.ErrorCode() == "ValidationException",
		about && answer.ErrorCode() == "ResourceNotFoundException", // of emulators
		answer.ErrorCode() == "AccessDeniedException":
		return fmt.Errorf("%w: %s (%s)", records.ErrNoIndex, answer.ErrorMessage(),
			answer.ErrorCode())
	}
	return err
}
