package dynamorecords

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"tenaq/internal/testing/dynamotest"
	"tenaq/records"
	"tenaq/records/recordstest"
)

func TestContract(t *testing.T) {
	recordstest.Run(t, func(t testing.TB) recordstest.Backend {
		table := newTable(t)
		return recordstest.Backend{
			Open: func(t testing.TB) records.Store { return open(t, table) },
			Skewed: func(t testing.TB, ahead time.Duration) records.Store {
				s := open(t, table)
				s.now = func() time.Time { return time.Now().Add(ahead) }
				return s
			},
			Labels:       func(t testing.TB, key string) map[string]string { return labelsOf(t, open(t, table), key) },
			NoClock:      true,
			SweepsItself: true,
		}
	})
}

var tables atomic.Int64

// newTable makes a table and returns its name.
func newTable(t testing.TB) string {
	t.Helper()
	s := open(t, fmt.Sprintf("test%d", tables.Add(1)))
	if err := s.CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.CreateIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.table
}

// labelsOf returns the attributes of an item that are labels.
func labelsOf(t testing.TB, s *Store, key string) map[string]string {
	t.Helper()
	out, err := s.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &s.table, Key: attributes{"Key": text(key)}})
	if err != nil {
		t.Fatal(err)
	}
	labels := make(map[string]string)
	for name, value := range out.Item {
		if text, ok := value.(*types.AttributeValueMemberS); ok && !slices.Contains([]string{"Key", shardName, dueName}, name) {
			labels[name] = text.Value
		}
	}
	return labels
}

func open(t testing.TB, table string, options ...func(*dynamodb.Options)) *Store {
	t.Helper()
	s, err := New(Config{Client: dynamotest.Client(t, options...), Table: table})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
