package stage

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
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
	*Env
	*Act
	Outer context.Context // ends with the command

	AWS      aws.Config
	Endpoint string // empty for Amazon's
	API      *sqs.Client
	Server   *child.Server  // nil if it is not ours, or a cluster
	Cluster  *child.Cluster // nil if there is none

	queues []string // URLs of those that were made
}

// openSQS starts a server or the nodes of a cluster, or takes the server that the user named.
func openSQS(ctx context.Context, e *Env, nodes int) (s *SQS, err error) {
	s = &SQS{Env: e, Act: newAct(ctx), AWS: openConfig(), Outer: ctx}
	switch {
	case e.Other == nil && nodes > 0:
		return s, s.startCluster(nodes)
	case e.Other == nil:
		return s, s.start()
	}
	s.Endpoint = e.Other.URL
	if s.AWS, err = cli.AWSConfig(ctx, *e.Other, cli.ResolveRegion("", os.Getenv)); err != nil {
		return nil, err
	}
	s.API = newClient(s.AWS, s.Endpoint)
	return s, nil
}

// config is that of servers and nodes.
func (s *SQS) config(flags ...string) child.Config {
	return child.Config{Program: s.Program, Dir: s.Dir, Args: append([]string{
		"--log-level", "warn", "--alarm-minute", alarmMinute.String()}, flags...)}
}

// startCluster starts the nodes of a cluster. Endpoint is that of the first.
func (s *SQS) startCluster(nodes int) error {
	var err error
	if s.Cluster, err = child.NewCluster(s.config(), nodes, nil); err != nil {
		return err
	}
	if err := s.Cluster.Start(s.Outer); err != nil {
		s.Cluster.Close()
		return err
	}
	s.Endpoint = s.Cluster.Nodes[0].URL()
	s.API = newClient(s.AWS, s.Endpoint)
	s.Say("nodes on %s, data in %s", strings.Join(s.Cluster.URLs(), ", "), s.Dir)
	return nil
}

func (s *SQS) start(flags ...string) error {
	var err error
	s.Server, err = child.New(s.config(flags...))
	if err != nil {
		return err
	}
	if _, err := s.Server.Start(s.Outer); err != nil {
		return err
	}
	s.Endpoint = s.Server.URL()
	s.API = newClient(s.AWS, s.Endpoint)
	s.Say("server on %s, data in %s", s.Endpoint, s.Server.DataDir())
	return nil
}

// Restart stops a server of our own and starts it again with more flags, at another address.
func (s *SQS) Restart(flags ...string) {
	s.Must(s.Server.Stop())
	s.Must(s.start(flags...))
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
func (s *SQS) CreateQueue(name string, attributes map[string]string) (url string) {
	url, err := s.createQueue(name, attributes)
	s.Must(err)
	return url
}

func (s *SQS) createQueue(name string, attributes map[string]string) (url string, err error) {
	if s.Other != nil {
		// Queues of other users may be there, and SQS keeps a name for a while after its queue is
		// deleted.
		base, isFIFO := strings.CutSuffix(name, ".fifo")
		name = fmt.Sprintf("tenaq-demo-%s-%08x", base, rand.Uint32())
		if isFIFO {
			name += ".fifo"
		}
	}
	out, err := s.API.CreateQueue(s.Outer,
		&sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	switch {
	case err != nil && s.Other != nil:
		return "", (&cli.Client{Endpoint: *s.Other}).Explain("create queue", name, err)
	case err != nil:
		return "", fmt.Errorf("create queue %s: %w", name, err)
	}
	s.queues = append(s.queues, *out.QueueUrl)
	return *out.QueueUrl, nil
}

// CreatePair creates a queue and its dead-letter queue. The workers of the scenarios count attempts
// themselves and dead-letter a message after the last one; the queue's own limit is far above that.
func (s *SQS) CreatePair(
	name, dead string, attributes, deadAttributes map[string]string,
) (url, deadURL string, err error) {
	if deadURL, err = s.createQueue(dead, deadAttributes); err != nil {
		return "", "", err
	}
	all := map[string]string{"RedrivePolicy": fmt.Sprintf(
		`{"deadLetterTargetArn":%q,"maxReceiveCount":100}`, s.ARN(deadURL))}
	maps.Copy(all, attributes)
	url, err = s.createQueue(name, all)
	return url, deadURL, err
}

// ARN asks for the ARN of a queue.
func (s *SQS) ARN(url string) string { return s.attributes(url)["QueueArn"] }

func (s *SQS) attributes(url string) map[string]string {
	out, err := s.API.GetQueueAttributes(s.Outer, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	s.Must(err)
	return out.Attributes
}

// Left counts the messages in queues, whatever state they are in.
func (s *SQS) Left(urls ...string) (n int) {
	for _, url := range urls {
		all := s.attributes(url)
		for _, state := range []string{"", "NotVisible", "Delayed"} {
			some, err := strconv.Atoi(all["ApproximateNumberOfMessages"+state])
			s.Must(err)
			n += some
		}
	}
	return n
}

// Send sends a message.
func (s *SQS) Send(url, body string) {
	_, err := s.API.SendMessage(s.Outer,
		&sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body})
	s.Must(err)
}

// Receive receives messages with their attributes.
func (s *SQS) Receive(url string, most int32) []types.Message {
	out, err := s.API.ReceiveMessage(s.Outer, &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: most, MessageAttributeNames: []string{"All"},
	})
	s.Must(err)
	return out.Messages
}

// Handle receives messages, handles them and deletes them.
func (s *SQS) Handle(url string, most int32, handle func(types.Message)) {
	for _, m := range s.Receive(url, most) {
		handle(m)
		_, err := s.API.DeleteMessage(s.Outer,
			&sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle})
		s.Must(err)
	}
}

// Tenaq runs a command of this program, as an operator does, and returns what it prints.
func (s *SQS) Tenaq(args ...string) []byte {
	var said bytes.Buffer
	cmd := exec.CommandContext(s.Outer, s.Program, append(args, "--endpoint-url", s.Endpoint)...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		s.Must(fmt.Errorf("tenaq %s: %w: %s", strings.Join(args, " "), err,
			bytes.TrimSpace(append(out, said.Bytes()...))))
	}
	return out
}

// Alarms returns the names of the alarms that have fired. It waits for two minutes of the alarms
// first, so that alarms on the latest events are among them.
func (s *SQS) Alarms() (names []string) {
	Pause(s.Outer, 2*alarmMinute+alarmMinute/4)
	v := &cli.V1Client{
		C: &cli.Client{Endpoint: cli.Endpoint{URL: s.Endpoint, Origin: "the demo"},
			Timeout: 10 * time.Second},
		HTTP: http.DefaultClient, Lack: "has no alarms",
	}
	var history struct {
		Changes []struct{ Alarm, State string }
	}
	s.Must(v.Get(s.Outer, "look at the alarms", "", "/alarms/history", nil, &history))
	for _, c := range history.Changes {
		if c.State == "ALARM" && !slices.Contains(names, c.Alarm) {
			names = append(names, c.Alarm)
		}
	}
	return names
}

// close stops a server of our own, and deletes the queues on one that is not.
func (s *SQS) close() {
	if s.Cluster != nil {
		s.Cluster.Close()
		return
	}
	if s.Server != nil {
		s.Server.Close()
		return
	}
	// also after an interrupt
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, url := range s.queues {
		if s.Keep {
			s.Progress.Note("the queue is %s", url)
		} else if _, err := s.API.DeleteQueue(ctx,
			&sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
			s.Progress.Note("the queue %s is left behind: %v", url, err)
		}
	}
}
