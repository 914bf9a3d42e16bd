package main

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go/logging"
	"github.com/spf13/cobra"
)

// openID and openSecret are the credentials for a server that checks none. The SDKs sign every request
// and refuse to start without a key.
const (
	openID     = "tenaq"
	openSecret = "tenaq"
)

// clientFlags say which server a client command talks to.
type clientFlags struct {
	endpointURL string
	aws         bool
	region      string
	timeout     string
}

func (f *clientFlags) register(cmd *cobra.Command) {
	p := cmd.PersistentFlags()
	p.StringVar(&f.endpointURL, "endpoint-url", "", "`URL` of the SQS API, or aws (default: tenaq --help)")
	p.BoolVar(&f.aws, "aws", false, "talk to Amazon SQS, whatever the environment says")
	p.StringVar(&f.region, "region", "", "sign for this `region` (default: tenaq --help)")
	p.StringVar(&f.timeout, "timeout", "15s", "`duration` after which a request fails")
}

// resolve finds the endpoint.
func (f *clientFlags) resolve() (endpoint, error) {
	switch {
	case f.aws && f.endpointURL != "" && f.endpointURL != amazon:
		return endpoint{}, usagef("--aws and --endpoint-url=%s exclude each other", f.endpointURL)
	case f.aws:
		return endpoint{origin: "--aws"}, nil
	}
	return resolveEndpoint(f.endpointURL, os.Getenv)
}

// A client speaks the SQS API at one endpoint. Its methods bound every request in time and return errors
// that say what to do next.
type client struct {
	*sqs.Client
	endpoint endpoint
	timeout  time.Duration
}

func (f *clientFlags) connect(ctx context.Context) (*client, error) {
	e, err := f.resolve()
	if err != nil {
		return nil, err
	}
	timeout, err := parseDuration(f.timeout)
	if err != nil || timeout == 0 {
		return nil, usagef("--timeout: %q is not a duration such as 15s", f.timeout)
	}
	cfg, err := awsConfig(ctx, e, resolveRegion(f.region, os.Getenv))
	if err != nil {
		return nil, err
	}
	api := sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		// The SDK would read the endpoint from the environment itself; it has been decided.
		o.BaseEndpoint = nil
		if !e.isAmazon() {
			o.BaseEndpoint = aws.String(e.url)
		}
	})
	return &client{api, e, timeout}, nil
}

// awsConfig loads the settings of the AWS SDK: credentials and region as everywhere, but dummies for a
// server on this machine when there are none.
func awsConfig(ctx context.Context, e endpoint, region string) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{
		config.WithDefaultRegion(defaultRegion),
		config.WithRetryer(newRetryer),
		config.WithLogger(logging.Nop{}), // what matters comes back as an error
		config.WithHTTPClient(awshttp.NewBuildableClient().WithDialerOptions(func(d *net.Dialer) {
			d.Timeout = 5 * time.Second
		})),
	}
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	if !e.isAmazon() {
		// No machine's role is meant for a server that is not Amazon's, and asking for one where there is
		// no such service costs seconds.
		options = append(options, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, codedf(exitUsage, "the AWS settings of this environment are unusable: %v", err)
	}
	if id, secret, ok := e.ownKey(os.Getenv); ok {
		cfg.Credentials = credentials.NewStaticCredentialsProvider(id, secret, "")
		return cfg, nil
	}
	if cfg.Credentials != nil {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if _, err = cfg.Credentials.Retrieve(ctx); err == nil {
			return cfg, nil
		}
	}
	if e.isLoopback() {
		cfg.Credentials = credentials.NewStaticCredentialsProvider(openID, openSecret, "")
		return cfg, nil
	}
	return aws.Config{}, codedf(exitFailed, "there are no credentials for %s; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE", e)
}

// ownKey is the key that requests to e are signed with if it is in the variables from which a server takes its key too. It
// comes before what is there for Amazon, which never sees it, also where its address is given.
func (e endpoint) ownKey(getenv func(string) string) (id, secret string, ok bool) {
	if e.isAmazon() || isAmazonURL(e.url) || e.foreign {
		return "", "", false
	}
	id, secret = getenv("TENAQ_ACCESS_KEY_ID"), getenv("TENAQ_SECRET_ACCESS_KEY")
	return id, secret, id != "" && secret != ""
}

// newRetryer retries as the SDK does, but not where nobody listens: that does not change within seconds,
// and whoever forgot to start the server should hear it at once.
func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		refused := retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			if errors.Is(err, syscall.ECONNREFUSED) {
				return aws.FalseTernary
			}
			return aws.UnknownTernary
		})
		o.Retryables = append([]retry.IsErrorRetryable{refused}, o.Retryables...)
	})
}

// bound limits one request, plus the time that the server may spend waiting in it.
func (c *client) bound(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.timeout+wait, errNoAnswer)
}

// queueURL returns the URL of a queue given by name, URL or ARN. It asks the server for it, because only
// the server knows the account and the address that its URLs carry.
func (c *client) queueURL(ctx context.Context, queue string) (string, error) {
	if isQueueURL(queue) {
		if isAmazonURL(queue) && c.endpoint.isLoopback() {
			return "", usagef("%s is a queue of Amazon and requests go to %s; add --aws", queue, c.endpoint)
		}
		return queue, nil
	}
	if queue == "" {
		return "", usagef("the name of the queue is empty")
	}
	in := &sqs.GetQueueUrlInput{QueueName: &queue}
	if isQueueARN(queue) {
		arn := strings.Split(queue, ":")
		switch {
		case len(arn) != 6 || arn[2] != "sqs":
			return "", usagef("%q is not the ARN of a queue, such as arn:aws:sqs:us-east-1:000000000000:orders", queue)
		case c.endpoint.isAmazon() && arn[3] != c.Options().Region:
			return "", usagef("%s is in another region than %s; add --region %s", queue, c.Options().Region, arn[3])
		}
		in.QueueName, in.QueueOwnerAWSAccountId = &arn[5], &arn[4]
	}
	out, err := call(ctx, c, c.GetQueueUrl, in)
	if err != nil {
		return "", c.explain("find queue", queue, err)
	}
	return aws.ToString(out.QueueUrl), nil
}

// queueARN returns the ARN of a queue given by name, URL or ARN. An ARN is taken as it is.
func (c *client) queueARN(ctx context.Context, queue string) (string, error) {
	if isQueueARN(queue) {
		return queue, nil
	}
	url, err := c.queueURL(ctx, queue)
	if err != nil {
		return "", err
	}
	out, err := call(ctx, c, c.GetQueueAttributes, &sqs.GetQueueAttributesInput{
		QueueUrl:       &url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	})
	if err != nil {
		return "", c.explain("find queue", queue, err)
	}
	return out.Attributes[string(types.QueueAttributeNameQueueArn)], nil
}

// call makes one request that answers without waiting.
func call[In, Out any](ctx context.Context, c *client, do func(context.Context, In, ...func(*sqs.Options)) (Out, error), in In, options ...func(*sqs.Options)) (Out, error) {
	ctx, cancel := c.bound(ctx, 0)
	defer cancel()
	out, err := do(ctx, in, options...)
	return out, withCause(ctx, err)
}
