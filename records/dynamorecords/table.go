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
)

// Schema returns a table of records as a CloudFormation template, for operators who do not use
// CreateTable. The billing mode is theirs to choose. The index, which is optional, is in it as a
// comment.
func Schema(table string) string {
	return "# The lines that begin with # are optional: the index by which \"tenaq claims stuck\" finds claims\n" +
		"# without reading the whole table.\n" + template(table, "# ")
}

// SchemaWithIndex is Schema with the index of CreateIndex.
func SchemaWithIndex(table string) string { return template(table, "") }

// template has what the index needs on lines that begin with prefix.
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

// createTime is how long DynamoDB may take to make a table.
const createTime = 5 * time.Minute

// CreateTable makes the table, billed per request, if it is not there, and waits until it can be
// used. Any number of processes may call it at once. A table of that name with another key is an
// error.
func (s *Store) CreateTable(ctx context.Context) error {
	_, err := s.client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:   &s.table,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("Key"),
			AttributeType: types.ScalarAttributeTypeS}},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("Key"),
			KeyType: types.KeyTypeHash}},
	})
	var there *types.ResourceInUseException
	if errors.As(err, &there) {
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

// checkTable refuses a table that was made for something else.
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
		return errors.New("it is there and its key is not one text named Key; choose another name")
	case len(t.Replicas) > 0:
		return errors.New("it is a global table, whose replicas do not agree on conditions; choose another")
	}
	return nil
}

// indexTime is how long DynamoDB may take to fill an index from a table that has records.
const indexTime = 30 * time.Minute

// CreateIndex gives the table, which exists, the index of ListDue if it has none, and waits until
// it can be used. The table can be used meanwhile. What it costs: a write that makes a record due,
// or changes when it is, is one more write, or two.
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
				return errors.New("the table has provisioned throughput, and so would the index: add it as the printed schema has it, with a throughput of your choice")
			}
			if err := s.addIndex(ctx); err != nil {
				return err
			}
			asked = true
			continue
		}
		timer := time.NewTimer(indexPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("it is being made still: %w", ctx.Err())
		}
	}
}

// indexPause is between two looks whether the index is there.
const indexPause = 2 * time.Second

// indexStatus is empty where there is no index.
func indexStatus(t *types.TableDescription) types.IndexStatus {
	for _, index := range t.GlobalSecondaryIndexes {
		if aws.ToString(index.IndexName) == indexName {
			return index.IndexStatus
		}
	}
	return ""
}

// addIndex asks for the index. Another process may have been faster.
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

// enableTTL has DynamoDB remove what has expired.
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
				return fmt.Errorf("it expires items by their attribute %q, and should by TTL", name)
			}
			return nil
		}
	}
	_, err = s.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &s.table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("TTL"),
			Enabled: aws.Bool(true)},
	})
	if err != nil {
		// Another process may have been faster.
		again, e := s.client.DescribeTimeToLive(ctx,
			&dynamodb.DescribeTimeToLiveInput{TableName: &s.table})
		if e == nil && again.TimeToLiveDescription != nil &&
			aws.ToString(again.TimeToLiveDescription.AttributeName) == "TTL" {
			return nil
		}
	}
	return err
}
