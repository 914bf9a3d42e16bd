package claims_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/testing/dynamotest"
	"tenaq/internal/testing/pgtest"
	"tenaq/queuetest"
	"tenaq/records"
	"tenaq/records/dynamorecords"
	"tenaq/records/pgrecords"
	"tenaq/records/serverrecords"
	"tenaq/records/sqliterecords"
)

// A backend makes empty stores of one kind that processes can share, and says where they are.
type backend struct {
	name string
	make func(testing.TB) (where string)
}

// backends are all of them. A where is a kind, a colon, and what it takes to open such a store.
var backends = []backend{
	{"sqlite", func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "records.db") }},
	{"postgres", func(t testing.TB) string { return pgtest.URL(t) }},
	{"server", func(t testing.TB) string { return "server:" + queuetest.New(t).Endpoint }},
	{"dynamodb", func(t testing.TB) string {
		where := fmt.Sprintf("dynamodb:%s claims%d", *dynamotest.Client(t).Options().BaseEndpoint, tables.Add(1))
		store, err := dynamo(where)
		must(t, err)
		must(t, store.CreateTable(t.Context()))
		return where
	}},
}

var tables atomic.Int64

// openStore opens a store in whatever process.
func openStore(where string) (records.Store, error) {
	kind, rest, _ := strings.Cut(where, ":")
	switch kind {
	case "sqlite":
		return sqliterecords.New(sqliterecords.Config{Path: rest})
	case "postgres":
		return openPostgres(where)
	case "server":
		return serverrecords.New(serverrecords.Config{Client: sqs.New(sqs.Options{
			Region: "us-east-1", BaseEndpoint: &rest, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		})})
	}
	return dynamo(where)
}

func openPostgres(url string) (*pgrecords.Store, error) {
	store, err := pgrecords.New(pgrecords.Config{URL: url})
	if err != nil {
		return nil, err
	}
	return store, store.Migrate(context.Background())
}

func dynamo(where string) (*dynamorecords.Store, error) {
	var endpoint, table string
	if _, err := fmt.Sscanf(where, "dynamodb:%s %s", &endpoint, &table); err != nil {
		return nil, err
	}
	return dynamorecords.New(dynamorecords.Config{Table: table, Client: dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})})
}
