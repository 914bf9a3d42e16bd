package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
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
	Timeout     time.Duration // of a request
}

func (f *ClientFlags) Register(cmd *cobra.Command) {
	p := cmd.PersistentFlags()
	p.StringVar(&f.EndpointURL, "endpoint-url", "", "SQS API `URL`, or aws (default: tenaq --help)")
	p.BoolVar(&f.AWS, "aws", false, "use Amazon SQS, ignoring the environment")
	p.StringVar(&f.Region, "region", "", "sign for this `region` (default: tenaq --help)")
	Value(p, &f.Timeout, "timeout", "15s", "maximum `duration` of a request", SomeDuration)
}

func (f *ClientFlags) Resolve() (Endpoint, error) {
	switch {
	case f.AWS && f.EndpointURL != "" && f.EndpointURL != Amazon:
		return Endpoint{}, Usagef("--aws and --endpoint-url=%s exclude each other; leave one out", f.EndpointURL)
	case f.AWS:
		return Endpoint{Origin: "--aws"}, nil
	}
	return ResolveEndpoint(f.EndpointURL, os.Getenv)
}

// A Client speaks the SQS API at one endpoint. Its methods bound the time of every request and
// return errors that say what to do next.
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
	cfg, err := AWSConfig(ctx, e, ResolveRegion(f.Region, os.Getenv))
	if err != nil {
		return nil, err
	}
	api := sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		// The endpoint is decided. The SDK would read it from the environment.
		o.BaseEndpoint = nil
		if !e.IsAmazon() {
			o.BaseEndpoint = aws.String(e.URL)
		}
	})
	return &Client{api, e, f.Timeout}, nil
}

// Run connects for a command.
func (f *ClientFlags) Run(
	do func(ctx context.Context, c *Client, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := f.Connect(cmd.Context())
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, args)
	}
}

// OnQueue connects for a command whose first argument is a queue. do gets the URL of the queue and
// the other arguments.
func (f *ClientFlags) OnQueue(
	do func(ctx context.Context, c *Client, url string, args []string) error,
) func(*cobra.Command, []string) error {
	return f.Run(func(ctx context.Context, c *Client, args []string) error {
		url, err := c.QueueURL(ctx, args[0])
		if err != nil {
			return err
		}
		return do(ctx, c, url, args[1:])
	})
}

// awsSettings says where the settings of the AWS SDK come from, without their values.
func awsSettings() string {
	from := []string{"the files in ~/.aws"}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			from = append(from, name)
		}
	}
	slices.Sort(from[1:])
	return strings.Join(from, ", ")
}

// AWSConfig loads the settings of the AWS SDK. Without credentials it takes placeholders for a
// server on this machine.
func AWSConfig(ctx context.Context, e Endpoint, region string) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{
		config.WithDefaultRegion(DefaultRegion),
		config.WithRetryer(NewRetryer),
		config.WithLogger(logging.Nop{}), // errors are returned
		config.WithHTTPClient(awshttp.NewBuildableClient().WithDialerOptions(func(d *net.Dialer) {
			d.Timeout = 5 * time.Second
		})),
	}
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	if !e.IsAmazon() {
		// The role of a machine is not meant for other servers than Amazon's, and asking for one
		// where there is no such service takes seconds.
		options = append(options, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, Codedf(ExitUsage,
			"the AWS settings of this environment are unusable: %v; they are %s", err, awsSettings())
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

// OwnKey returns the key of a tenaq server from the variables that the server reads, too. It wins
// over credentials for Amazon, and is never used for requests to Amazon.
func (e Endpoint) OwnKey(getenv func(string) string) (id, secret string, ok bool) {
	if e.IsAmazon() || IsAmazonURL(e.URL) || e.service != "" {
		return "", "", false
	}
	id, secret = getenv("TENAQ_ACCESS_KEY_ID"), getenv("TENAQ_SECRET_ACCESS_KEY")
	return id, secret, id != "" && secret != ""
}

// NewRetryer retries as the SDK does, except where nothing listens, or a server without TLS: that
// does not change within seconds, and the error says what to do.
func NewRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		refused := retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, http.ErrSchemeMismatch) {
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

// Attributes reads attributes of a queue, all of them if none are named. doing begins the sentence
// of an error.
func (c *Client) Attributes(
	ctx context.Context, doing, url string, names ...types.QueueAttributeName,
) (map[string]string, error) {
	if len(names) == 0 {
		names = []types.QueueAttributeName{types.QueueAttributeNameAll}
	}
	out, err := Ask(ctx, c, doing, url, c.GetQueueAttributes,
		&sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: names})
	switch {
	case err != nil:
		return nil, err
	case out.Attributes == nil:
		return map[string]string{}, nil
	}
	return out.Attributes, nil
}

func (c *Client) AllAttributes(ctx context.Context, url string) (map[string]string, error) {
	return c.Attributes(ctx, "read the attributes of", url)
}

// pageMax is how many queues are asked for at a time. Without MaxResults SQS returns the first
// thousand and no token to continue with.
const pageMax = 1000

// Queues lists up to limit queues whose names begin with a prefix, and reports whether there are
// more. A limit of 0 means all queues.
func (c *Client) Queues(
	ctx context.Context, prefix string, limit int,
) (refs []QueueRef, more bool, err error) {
	in := &sqs.ListQueuesInput{MaxResults: aws.Int32(pageMax)}
	if prefix != "" {
		in.QueueNamePrefix = &prefix
	}
	for {
		out, err := Ask(ctx, c, "list queues", "", c.ListQueues, in)
		if err != nil {
			return nil, false, err
		}
		for _, url := range out.QueueUrls {
			if limit > 0 && len(refs) == limit {
				return refs, true, nil
			}
			refs = append(refs, QueueRef{QueueNameOf(url), url})
		}
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
			return refs, false, nil
		}
	}
}

// Sources lists the URLs of the queues whose dead letters go to a queue.
func (c *Client) Sources(ctx context.Context, url string) (urls []string, err error) {
	in := &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: &url, MaxResults: aws.Int32(pageMax)}
	for {
		out, err := Ask(ctx, c, "find the sources of", url, c.ListDeadLetterSourceQueues, in)
		if err != nil {
			return urls, err
		}
		urls = append(urls, out.QueueUrls...)
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
			return urls, nil
		}
	}
}

// Call makes one request that is answered without waiting.
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

// Ask is Call with an error that Explain has explained.
func Ask[In, Out any](
	ctx context.Context, c *Client, doing, queue string,
	do func(context.Context, In, ...func(*sqs.Options)) (Out, error),
	in In, options ...func(*sqs.Options),
) (Out, error) {
	out, err := Call(ctx, c, do, in, options...)
	return out, c.Explain(doing, queue, err)
}

type QueueRef struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}
