package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/child"
	"tenaq/internal/cli"
)

// alarmMinute is the length of one minute of the alarms in a demo, whose incidents end within
// seconds.
const alarmMinute = time.Second

// An SQS is where the queues of a scenario are.
type SQS struct {
	Env      *Env
	AWS      aws.Config
	Endpoint string // empty for Amazon's
	API      *sqs.Client
	Server   *child.Server // nil if it is not ours

	queues []string // URLs of those that were made
}

// OpenSQS starts a server, or takes the one that the user named.
func (e *Env) OpenSQS(ctx context.Context) (*SQS, error) {
	s := &SQS{Env: e, AWS: openConfig()}
	if e.Other != nil {
		var err error
		s.Endpoint = e.Other.URL
		if s.AWS, err = cli.AWSConfig(ctx, *e.Other, cli.ResolveRegion("", os.Getenv)); err != nil {
			return nil, err
		}
		s.API = newClient(s.AWS, s.Endpoint)
		return s, nil
	}
	return s, s.start(ctx)
}

func (s *SQS) start(ctx context.Context, flags ...string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	s.Server, err = child.New(child.Config{
		Program: program, Dir: s.Env.Dir,
		Args: slices.Concat([]string{"--log-level", "warn", "--alarm-minute", alarmMinute.String()},
			flags),
	})
	if err != nil {
		return err
	}
	if _, err := s.Server.Start(ctx); err != nil {
		return err
	}
	s.Endpoint = s.Server.URL()
	s.API = newClient(s.AWS, s.Endpoint)
	s.Env.Say("server on %s, data in %s", s.Endpoint, s.Server.DataDir())
	return nil
}

// Restart stops a server of our own and starts it again with more flags, at another address.
func (s *SQS) Restart(ctx context.Context, flags ...string) error {
	if err := s.Server.Stop(); err != nil {
		return err
	}
	return s.start(ctx, flags...)
}

// openConfig is for a server that checks no credentials.
func openConfig() aws.Config {
	return aws.Config{
		Region:      cli.DefaultRegion,
		Credentials: credentials.NewStaticCredentialsProvider(cli.OpenID, cli.OpenSecret, ""),
	}
}

// newClient returns a client of an endpoint, Amazon's if it is empty. The environment is not asked
// again.
func newClient(cfg aws.Config, endpoint string) *sqs.Client {
	return sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		o.BaseEndpoint = nil
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
	})
}

// CreateQueue creates a queue and returns its URL. The suffix .fifo stays at the end of its name.
func (s *SQS) CreateQueue(
	ctx context.Context, name string, attributes map[string]string,
) (url string, err error) {
	if s.Env.Other != nil {
		// Queues of other users may be there, and SQS keeps a name for a while after its queue is
		// deleted.
		base, isFIFO := strings.CutSuffix(name, ".fifo")
		name = fmt.Sprintf("tenaq-demo-%s-%08x", base, rand.Uint32())
		if isFIFO {
			name += ".fifo"
		}
	}
	out, err := s.API.CreateQueue(ctx,
		&sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	switch {
	case err != nil && s.Env.Other != nil:
		return "", (&cli.Client{Endpoint: *s.Env.Other}).Explain("create queue", name, err)
	case err != nil:
		return "", fmt.Errorf("create queue %s: %w", name, err)
	}
	s.queues = append(s.queues, *out.QueueUrl)
	return *out.QueueUrl, nil
}

// CreatePair creates a queue and its dead-letter queue. The workers of the scenarios count attempts
// themselves and dead-letter a message after the last one; the queue's own limit is far above that.
func (s *SQS) CreatePair(
	ctx context.Context, name, dead string, attributes, deadAttributes map[string]string,
) (
	url, deadURL string, err error,
) {
	if deadURL, err = s.CreateQueue(ctx, dead, deadAttributes); err != nil {
		return "", "", err
	}
	arn, err := s.ARN(ctx, deadURL)
	if err != nil {
		return "", "", err
	}
	all := map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":100}`, arn)}
	for name, value := range attributes {
		all[name] = value
	}
	url, err = s.CreateQueue(ctx, name, all)
	return url, deadURL, err
}

// ARN asks for the ARN of a queue.
func (s *SQS) ARN(ctx context.Context, url string) (string, error) {
	all, err := s.attributes(ctx, url)
	return all["QueueArn"], err
}

func (s *SQS) attributes(ctx context.Context, url string) (map[string]string, error) {
	out, err := s.API.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return nil, fmt.Errorf("look at queue %s: %w", url, err)
	}
	return out.Attributes, nil
}

// Left counts the messages in queues, whatever state they are in.
func (s *SQS) Left(ctx context.Context, urls ...string) (n int, err error) {
	for _, url := range urls {
		all, err := s.attributes(ctx, url)
		if err != nil {
			return 0, err
		}
		for _, state := range []string{"", "NotVisible", "Delayed"} {
			some, err := strconv.Atoi(all["ApproximateNumberOfMessages"+state])
			if err != nil {
				return 0, fmt.Errorf("count the messages of %s: %w", url, err)
			}
			n += some
		}
	}
	return n, nil
}

// Alarms returns the names of the alarms that have fired. It waits for two minutes of the alarms
// first, so that alarms on the latest events are among them.
func (s *SQS) Alarms(ctx context.Context) (names []string, err error) {
	Pause(ctx, 2*alarmMinute+alarmMinute/4)
	v := &cli.V1Client{
		C: &cli.Client{Endpoint: cli.Endpoint{URL: s.Endpoint, Origin: "the demo"},
			Timeout: 10 * time.Second},
		HTTP: http.DefaultClient, Lack: "has no alarms",
	}
	var history cli.AlarmHistory
	if err := v.Get(ctx, "look at the alarms", "", "/alarms/history", nil, &history); err != nil {
		return nil, err
	}
	for _, c := range history.Changes {
		if c.State == "ALARM" && !slices.Contains(names, c.Alarm) {
			names = append(names, c.Alarm)
		}
	}
	return names, nil
}

// Close stops a server of our own, and deletes the queues on one that is not.
func (s *SQS) Close() {
	if s.Server != nil {
		s.Server.Close()
		return
	}
	// also after an interrupt
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, url := range s.queues {
		if s.Env.Keep {
			s.Env.Progress.Note("the queue is %s", url)
		} else if _, err := s.API.DeleteQueue(ctx,
			&sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
			s.Env.Progress.Note("the queue %s is left behind: %v", url, err)
		}
	}
}

// ShortPolls is a client that asks for messages without waiting for them: another server may be an
// emulator that carries out one request at a time, long polls included.
type ShortPolls struct{ *sqs.Client }

// ReceiveMessage pauses if there is no message.
func (s ShortPolls) ReceiveMessage(
	ctx context.Context, in *sqs.ReceiveMessageInput, options ...func(*sqs.Options),
) (*sqs.ReceiveMessageOutput, error) {
	short := *in
	short.WaitTimeSeconds = 0
	out, err := s.Client.ReceiveMessage(ctx, &short, options...)
	if err == nil && len(out.Messages) == 0 {
		Pause(ctx, 100*time.Millisecond)
	}
	return out, err
}
