package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"tenaq/records"
	"tenaq/records/dynamorecords"
)

// A DynamoPlace is a table of DynamoDB, by its name or ARN. It connects with its first use.
type DynamoPlace struct {
	table string
	Index bool // make and schema include the index

	endpoint Endpoint
	client   *dynamodb.Client
	store    *dynamorecords.Store
}

func (p *DynamoPlace) String() string { return "the DynamoDB table " + p.table }

// connect makes the client, from the environment as every AWS program does.
func (p *DynamoPlace) connect(ctx context.Context) error {
	if p.client != nil {
		return nil
	}
	p.endpoint = ServiceEndpoint("DynamoDB", os.Getenv)
	region := ResolveRegion("", os.Getenv)
	if arn := strings.Split(p.table, ":"); len(arn) == 6 && arn[0] == "arn" {
		region = arn[3]
	}
	cfg, err := AWSConfig(ctx, p.endpoint, region)
	if err != nil {
		return err
	}
	p.client = dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if !p.endpoint.IsAmazon() {
			o.BaseEndpoint = aws.String(p.endpoint.URL)
		}
	})
	p.store, err = dynamorecords.New(dynamorecords.Config{Client: p.client, Table: p.table})
	return err
}

// Exists reads a record, which need not exist: users of the table are allowed to do that.
func (p *DynamoPlace) Exists(ctx context.Context) (bool, error) {
	if err := p.connect(ctx); err != nil {
		return false, err
	}
	_, err := p.store.Get(ctx, "tenaq")
	var missing *types.ResourceNotFoundException
	switch {
	case errors.As(err, &missing):
		return false, nil
	case err == nil || errors.Is(err, records.ErrNotFound):
		return true, nil
	}
	return false, p.Explain("look for records", err)
}

func (p *DynamoPlace) Make(ctx context.Context) error {
	if err := p.connect(ctx); err != nil {
		return err
	}
	err := p.store.CreateTable(ctx)
	if err == nil && p.Index {
		err = p.store.CreateIndex(ctx)
	}
	return p.Explain("make the table", err)
}

func (p *DynamoPlace) Open(ctx context.Context) (records.Store, error) {
	if err := p.connect(ctx); err != nil {
		return nil, err
	}
	return p.store, nil
}

func (p *DynamoPlace) Schema() string {
	if p.Index {
		return dynamorecords.SchemaWithIndex(p.table)
	}
	return dynamorecords.Schema(p.table)
}

func (p *DynamoPlace) Close() {}

// Explain says what to do about an error of DynamoDB, where there is something to do.
func (p *DynamoPlace) Explain(doing string, err error) error {
	var answer smithy.APIError
	switch errors.As(err, &answer); {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return Codedf(ExitFailed, "%s: interrupted", doing)
	case errors.Is(err, syscall.ECONNREFUSED):
		return Codedf(ExitFailed, "nothing listens at %s; check the address, which comes from %s",
			p.endpoint, p.endpoint.Origin)
	case answer != nil && IsCredentialError(answer.ErrorCode()):
		return Codedf(ExitFailed,
			"%s in %s: %s refuses the credentials: %s (%s); check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and what they may do with the table",
			doing, p, p.endpoint, strings.TrimSuffix(answer.ErrorMessage(),
				"."), answer.ErrorCode())
	case answer != nil && answer.ErrorMessage() != "":
		return Codedf(ExitFailed, "%s in %s: %s (%s)", doing, p,
			strings.TrimSuffix(answer.ErrorMessage(), "."), answer.ErrorCode())
	}
	return Codedf(ExitFailed, "%s in %s: %v", doing, p, err)
}
