package dynamorecords

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"tenaq/internal/dynamotest"
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
	return s.table
}

func open(t testing.TB, table string, options ...func(*dynamodb.Options)) *Store {
	t.Helper()
	return New(dynamotest.Client(t, options...), table)
}
