package dynamorecords

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Schema returns the table as a CloudFormation template, for those who make it otherwise than by
// CreateTable. The billing mode is theirs to choose.
func (s *Store) Schema() string {
	return fmt.Sprintf(`Resources:
  Records:
    Type: AWS::DynamoDB::Table
    DeletionPolicy: Retain
    Properties:
      TableName: %q
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions:
        - AttributeName: Key
          AttributeType: S
      KeySchema:
        - AttributeName: Key
          KeyType: HASH
      TimeToLiveSpecification:
        AttributeName: TTL
        Enabled: true
`, s.table)
}

// createTime is how long DynamoDB may take to make a table.
const createTime = 5 * time.Minute

// CreateTable makes the table, billed per request, if it is not there, and waits until it can be used. Any
// number of processes may call it at once. A table of that name with another key is an error.
func (s *Store) CreateTable(ctx context.Context) error {
	_, err := s.client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            &s.table,
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("Key"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("Key"), KeyType: types.KeyTypeHash}},
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
		len(t.AttributeDefinitions) == 0 || t.AttributeDefinitions[0].AttributeType != types.ScalarAttributeTypeS:
		return errors.New("it is there and its key is not one text named Key; choose another name")
	case len(t.Replicas) > 0:
		return errors.New("it is a global table, whose replicas do not agree on conditions; choose another")
	}
	return nil
}

// enableTTL has DynamoDB remove what has expired.
func (s *Store) enableTTL(ctx context.Context) error {
	out, err := s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.table})
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
		TableName:               &s.table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("TTL"), Enabled: aws.Bool(true)},
	})
	if err != nil {
		// Another process may have been faster.
		again, e := s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.table})
		if e == nil && again.TimeToLiveDescription != nil && aws.ToString(again.TimeToLiveDescription.AttributeName) == "TTL" {
			return nil
		}
	}
	return err
}
