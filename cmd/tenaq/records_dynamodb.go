package main

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

// A dynamoPlace is a table of DynamoDB, by its name or ARN. It connects with its first use.
type dynamoPlace struct {
	table string
	index bool // make and schema include the index

	endpoint endpoint
	client   *dynamodb.Client
	store    *dynamorecords.Store
}

func (p *dynamoPlace) String() string { return "the DynamoDB table " + p.table }

// connect makes the client, from the environment as every AWS program does.
func (p *dynamoPlace) connect(ctx context.Context) error {
	if p.client != nil {
		return nil
	}
	p.endpoint.origin, p.endpoint.foreign = "default", true
	for _, name := range []string{"AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"} {
		if v := os.Getenv(name); v != "" {
			p.endpoint.url, p.endpoint.origin = strings.TrimRight(v, "/"), name
			break
		}
	}
	region := resolveRegion("", os.Getenv)
	if arn := strings.Split(p.table, ":"); len(arn) == 6 && arn[0] == "arn" {
		region = arn[3]
	}
	cfg, err := awsConfig(ctx, p.endpoint, region)
	switch {
	case exitCode(err) == exitFailed:
		return codedf(exitFailed, "there are no credentials for %s; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE", p.server())
	case err != nil:
		return err
	}
	p.client = dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if !p.endpoint.isAmazon() {
			o.BaseEndpoint = aws.String(p.endpoint.url)
		}
	})
	p.store = dynamorecords.New(p.client, p.table)
	return nil
}

// server says who answers.
func (p *dynamoPlace) server() string {
	if p.endpoint.isAmazon() {
		return "Amazon DynamoDB"
	}
	return p.endpoint.url
}

// exists reads a record, which need not be there, because that is what those may do who use the table.
func (p *dynamoPlace) exists(ctx context.Context) (bool, error) {
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
	return false, p.explain("look for records", err)
}

func (p *dynamoPlace) make(ctx context.Context) error {
	if err := p.connect(ctx); err != nil {
		return err
	}
	err := p.store.CreateTable(ctx)
	if err == nil && p.index {
		err = p.store.CreateIndex(ctx)
	}
	return p.explain("make the table", err)
}

func (p *dynamoPlace) open(ctx context.Context) (records.Store, error) {
	if err := p.connect(ctx); err != nil {
		return nil, err
	}
	return p.store, nil
}

func (p *dynamoPlace) schema() string {
	store := dynamorecords.New(nil, p.table)
	if p.index {
		return store.SchemaWithIndex()
	}
	return store.Schema()
}

func (p *dynamoPlace) close() {}

// explain says what to do about an error of DynamoDB, where there is something to do.
func (p *dynamoPlace) explain(doing string, err error) error {
	var answer smithy.APIError
	switch errors.As(err, &answer); {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return codedf(exitFailed, "%s: interrupted", doing)
	case errors.Is(err, syscall.ECONNREFUSED):
		return codedf(exitFailed, "nothing listens at %s; check the address, which comes from %s", p.server(), p.endpoint.origin)
	case answer != nil && isCredentialError(answer.ErrorCode()):
		return codedf(exitFailed, "%s in %s: %s refuses the credentials: %s (%s); check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and what they may do with the table",
			doing, p, p.server(), strings.TrimSuffix(answer.ErrorMessage(), "."), answer.ErrorCode())
	case answer != nil && answer.ErrorMessage() != "":
		return codedf(exitFailed, "%s in %s: %s (%s)", doing, p, strings.TrimSuffix(answer.ErrorMessage(), "."), answer.ErrorCode())
	}
	return codedf(exitFailed, "%s in %s: %v", doing, p, err)
}
