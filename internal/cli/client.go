package cli

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

// OpenID and OpenSecret are the credentials for a server that checks none. The SDKs sign every
// request and refuse to start without a key.
const (
	OpenID     = "tenaq"
	OpenSecret = "tenaq"
)

// ClientFlags say which server a client command talks to.
type ClientFlags struct {
	EndpointURL string
	AWS         bool
	Region      string
	Timeout     string
}

func (f *ClientFlags) Register(cmd *cobra.Command) {
	p := cmd.PersistentFlags()
	p.StringVar(&f.EndpointURL, "endpoint-url", "", "SQS API `URL`, or aws (default: tenaq --help)")
	p.BoolVar(&f.AWS, "aws", false, "use Amazon SQS, ignoring the environment")
	p.StringVar(&f.Region, "region", "", "sign for this `region` (default: tenaq --help)")
	p.StringVar(&f.Timeout, "timeout", "15s", "request timeout, a `duration`")
}

// Resolve finds the endpoint.
func (f *ClientFlags) Resolve() (Endpoint, error) {
	switch {
	case f.AWS && f.EndpointURL != "" && f.EndpointURL != Amazon:
		return Endpoint{}, Usagef("--aws and --endpoint-url=%s exclude each other", f.EndpointURL)
	case f.AWS:
		return Endpoint{Origin: "--aws"}, nil
	}
	return ResolveEndpoint(f.EndpointURL, os.Getenv)
}

// A Client speaks the SQS API at one endpoint. Its methods bound every request in time and return
// errors that say what to do next.
type Client struct {
	*sqs.Client
	Endpoint Endpoint
	Timeout  time.Duration
}

func (f *ClientFlags) Connect(ctx context.Context) (*Client, error) {
	e, err := f.Resolve()
	if err != nil {
		return nil, err
	}
	timeout, err := ParseDuration(f.Timeout)
	if err != nil || timeout == 0 {
		return nil, Usagef("--timeout: %q is not a duration such as 15s", f.Timeout)
	}
	cfg, err := AWSConfig(ctx, e, ResolveRegion(f.Region, os.Getenv))
	if err != nil {
		return nil, err
	}
	api := sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		// The SDK would read the endpoint from the environment itself; it has been decided.
		o.BaseEndpoint = nil
		if !e.IsAmazon() {
			o.BaseEndpoint = aws.String(e.URL)
		}
	})
	return &Client{api, e, timeout}, nil
}

// AWSConfig loads the settings of the AWS SDK: credentials and region as everywhere, but dummies
// for a server on this machine when there are none.
func AWSConfig(ctx context.Context, e Endpoint, region string) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{
		config.WithDefaultRegion(DefaultRegion),
		config.WithRetryer(NewRetryer),
		config.WithLogger(logging.Nop{}), // what matters comes back as an error
		config.WithHTTPClient(awshttp.NewBuildableClient().WithDialerOptions(func(d *net.Dialer) {
			d.Timeout = 5 * time.Second
		})),
	}
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	if !e.IsAmazon() {
		// No machine's role is meant for a server that is not Amazon's, and asking for one where
		// there is no such service costs seconds.
		options = append(options, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, Codedf(ExitUsage,
			"the AWS settings of this environment are unusable: %v", err)
	}
	if id, secret, ok := e.OwnKey(os.Getenv); ok {
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
	if e.IsLoopback() {
		cfg.Credentials = credentials.NewStaticCredentialsProvider(OpenID, OpenSecret, "")
		return cfg, nil
	}
	return aws.Config{}, Codedf(ExitFailed,
		"there are no credentials for %s; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE", e)
}

// OwnKey is the key that requests to e are signed with if it is in the variables from which a
// server takes its key too. It comes before what is there for Amazon, which never sees it, also
// where its address is given.
func (e Endpoint) OwnKey(getenv func(string) string) (id, secret string, ok bool) {
	if e.IsAmazon() || IsAmazonURL(e.URL) || e.foreign {
		return "", "", false
	}
	id, secret = getenv("TENAQ_ACCESS_KEY_ID"), getenv("TENAQ_SECRET_ACCESS_KEY")
	return id, secret, id != "" && secret != ""
}

// NewRetryer retries as the SDK does, but not where nobody listens: that does not change within
// seconds, and whoever forgot to start the server should hear it at once.
func NewRetryer() aws.Retryer {
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

// Bound limits one request, plus the time that the server may spend waiting in it.
func (c *Client) Bound(
	ctx context.Context, wait time.Duration,
) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.Timeout+wait, ErrNoAnswer)
}

// QueueURL returns the URL of a queue given by name, URL or ARN. It asks the server for it, because
// only the server knows the account and the address that its URLs carry.
func (c *Client) QueueURL(ctx context.Context, queue string) (string, error) {
	if IsQueueURL(queue) {
		if IsAmazonURL(queue) && c.Endpoint.IsLoopback() {
			return "", Usagef("%s is a queue of Amazon and requests go to %s; add --aws", queue,
				c.Endpoint)
		}
		return queue, nil
	}
	if queue == "" {
		return "", Usagef("the name of the queue is empty")
	}
	in := &sqs.GetQueueUrlInput{QueueName: &queue}
	if IsQueueARN(queue) {
		arn := strings.Split(queue, ":")
		switch {
		case len(arn) != 6 || arn[2] != "sqs":
			return "", Usagef("%q is not the ARN of a queue, such as arn:aws:sqs:us-east-1:000000000000:orders", queue)
		case c.Endpoint.IsAmazon() && arn[3] != c.Options().Region:
			return "", Usagef("%s is in another region than %s; add --region %s", queue,
				c.Options().Region, arn[3])
		}
		in.QueueName, in.QueueOwnerAWSAccountId = &arn[5], &arn[4]
	}
	out, err := Call(ctx, c, c.GetQueueUrl, in)
	if err != nil {
		return "", c.Explain("find queue", queue, err)
	}
	return aws.ToString(out.QueueUrl), nil
}

// QueueARN returns the ARN of a queue given by name, URL or ARN. An ARN is taken as it is.
func (c *Client) QueueARN(ctx context.Context, queue string) (string, error) {
	if IsQueueARN(queue) {
		return queue, nil
	}
	url, err := c.QueueURL(ctx, queue)
	if err != nil {
		return "", err
	}
	out, err := Call(ctx, c, c.GetQueueAttributes, &sqs.GetQueueAttributesInput{
		QueueUrl:       &url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	})
	if err != nil {
		return "", c.Explain("find queue", queue, err)
	}
	return out.Attributes[string(types.QueueAttributeNameQueueArn)], nil
}

// Call makes one request that answers without waiting.
func Call[In, Out any](
	ctx context.Context, c *Client,
	do func(context.Context, In, ...func(*sqs.Options)) (Out, error),
	in In, options ...func(*sqs.Options),
) (Out, error) {
	ctx, cancel := c.Bound(ctx, 0)
	defer cancel()
	out, err := do(ctx, in, options...)
	return out, WithCause(ctx, err)
}

// A QueueRef is a queue as a listing shows it.
type QueueRef struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}
