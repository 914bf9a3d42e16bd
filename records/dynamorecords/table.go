package dynamorecords

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"tenaq/internal/work/backoff"
)

// Schema returns a table of records as a CloudFormation template, for operators who do not use
// CreateTable. They may choose another billing mode. The optional index is in it as a comment.
func Schema(table string) string {
	return "# The lines that begin with # are optional: the index by which \"tenaq claims stuck\" finds claims\n" +
		"# without reading the whole table.\n" + template(table, "# ")
}

// SchemaWithIndex is Schema with the index of CreateIndex.
func SchemaWithIndex(table string) string { return template(table, "") }

// template puts prefix in front of the lines of the index.
func template(table, prefix string) string {
	return strings.NewReplacer("{{table}}", strconv.Quote(table), "{{index}}",
		prefix).Replace(cloudFormation)
}

const cloudFormation = `Resources:
  Records:
    Type: AWS::DynamoDB::Table
    DeletionPolicy: Retain
    Properties:
      TableName: {{table}}
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions:
        - AttributeName: Key
          AttributeType: S
{{index}}        - AttributeName: DueShard
{{index}}          AttributeType: S
{{index}}        - AttributeName: DueAt
{{index}}          AttributeType: S
      KeySchema:
        - AttributeName: Key
          KeyType: HASH
{{index}}      GlobalSecondaryIndexes:
{{index}}        - IndexName: Due
{{index}}          KeySchema:
{{index}}            - AttributeName: DueShard
{{index}}              KeyType: HASH
{{index}}            - AttributeName: DueAt
{{index}}              KeyType: RANGE
{{index}}          Projection:
{{index}}            ProjectionType: KEYS_ONLY
      TimeToLiveSpecification:
        AttributeName: TTL
        Enabled: true
`

// createTime is how long DynamoDB may take to create a table.
const createTime = 5 * time.Minute

// CreateTable creates the table, billed per request, if there is none, and waits until it can be
// used. Any number of processes may call it at once. It returns an error if the table has another
// key.
func (s *Store) CreateTable(ctx context.Context) error {
	_, err := s.client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:   &s.table,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("Key"),
			AttributeType: types.ScalarAttributeTypeS}},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("Key"),
			KeyType: types.KeyTypeHash}},
	})
	if _, exists := errors.AsType[*types.ResourceInUseException](err); exists {
		err = nil
	}
	if err == nil {
		err = dynamodb.NewTableExistsWaiter(s.client, func(o *dynamodb.TableExistsWaiterOptions) {
			o.MinDelay, o.MaxDelay = time.Second, 5*time.Second
		}).Wait(ctx, &dynamodb.DescribeTableInput{TableName: &s.table}, createTime)
	}
	if err == nil {
		err = s.checkTable(ctx)
	}
	if err == nil {
		err = s.enableTTL(ctx)
	}
	if err != nil {
		return fmt.Errorf("create the table %q for records: %w", s.table, err)
	}
	return nil
}

// checkTable refuses a table that was created for something else.
func (s *Store) checkTable(ctx context.Context) error {
	out, err := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table})
	if err != nil {
		return err
	}
	switch t := out.Table; {
	case len(t.KeySchema) != 1 || aws.ToString(t.KeySchema[0].AttributeName) != "Key" ||
		!slices.ContainsFunc(t.AttributeDefinitions, func(d types.AttributeDefinition) bool {
			return aws.ToString(d.AttributeName) == "Key" &&
				d.AttributeType == types.ScalarAttributeTypeS
		}):
		return errors.New("it exists and its key is not a string named Key: choose another name")
	case len(t.Replicas) > 0:
		return errors.New("it is a global table, whose replicas do not agree on conditions: choose another")
	}
	return nil
}

// indexTime is how long DynamoDB may take to fill an index from an existing table.
const indexTime = 30 * time.Minute

// CreateIndex adds the index of ListDue to an existing table if it has none, and waits until the
// index can be used. The table can be used meanwhile. With the index, a write that sets or changes
// the time at which a record is due costs one or two more writes.
func (s *Store) CreateIndex(ctx context.Context) error {
	if err := s.createIndex(ctx); err != nil {
		return fmt.Errorf("create the index %s of the table %q: %w", indexName, s.table, err)
	}
	return nil
}

func (s *Store) createIndex(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, indexTime)
	defer cancel()
	for asked := false; ; {
		out, err := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table})
		if err != nil {
			return err
		}
		switch status := indexStatus(out.Table); {
		case status == types.IndexStatusActive:
			return nil
		case status == "" && !asked:
			if b := out.Table.BillingModeSummary; b == nil ||
				b.BillingMode != types.BillingModePayPerRequest {
				return errors.New("the table has provisioned throughput, and the index would need it too: add the index of the printed schema yourself, with a throughput of your choice")
			}
			if err := s.addIndex(ctx); err != nil {
				return err
			}
			asked = true
			continue
		}
		if err := backoff.Sleep(ctx, indexPause); err != nil {
			return fmt.Errorf("it is still being created: %w", err)
		}
	}
}

// indexPause is the pause between two checks of the index.
const indexPause = 2 * time.Second

// indexStatus returns the status of the index, empty if there is none.
func indexStatus(t *types.TableDescription) types.IndexStatus {
	for _, index := range t.GlobalSecondaryIndexes {
		if aws.ToString(index.IndexName) == indexName {
			return index.IndexStatus
		}
	}
	return ""
}

// addIndex asks DynamoDB for the index. Another process may have done so already.
func (s *Store) addIndex(ctx context.Context) error {
	_, err := s.client.UpdateTable(ctx, &dynamodb.UpdateTableInput{
		TableName: &s.table,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("Key"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(shardName), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(dueName), AttributeType: types.ScalarAttributeTypeS},
		},
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{
			Create: &types.CreateGlobalSecondaryIndexAction{
				IndexName: aws.String(indexName),
				KeySchema: []types.KeySchemaElement{
					{AttributeName: aws.String(shardName), KeyType: types.KeyTypeHash},
					{AttributeName: aws.String(dueName), KeyType: types.KeyTypeRange},
				},
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
			},
		}},
	})
	if err == nil {
		return nil
	}
	out, failed := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table})
	if failed == nil && indexStatus(out.Table) != "" {
		return nil
	}
	return err
}

// enableTTL makes DynamoDB remove expired items.
func (s *Store) enableTTL(ctx context.Context) error {
	out, err := s.client.DescribeTimeToLive(ctx,
		&dynamodb.DescribeTimeToLiveInput{TableName: &s.table})
	if err != nil {
		return err
	}
	if d := out.TimeToLiveDescription; d != nil {
		switch d.TimeToLiveStatus {
		case types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling:
			if name := aws.ToString(d.AttributeName); name != "TTL" {
				return fmt.Errorf("it expires items by their attribute %q, not by TTL", name)
			}
			return nil
		}
	}
	_, err = s.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &s.table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("TTL"),
			Enabled: aws.Bool(true)},
	})
	if err != nil { // another process may have done so already
		again, e := s.client.DescribeTimeToLive(ctx,
			&dynamodb.DescribeTimeToLiveInput{TableName: &s.table})
		if e == nil && again.TimeToLiveDescription != nil &&
			aws.ToString(again.TimeToLiveDescription.AttributeName) == "TTL" {
			return nil
		}
	}
	return err
}
