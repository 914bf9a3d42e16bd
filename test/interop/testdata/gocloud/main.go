// Gocloud sends and receives through gocloud.dev/pubsub, which has topics and subscriptions but no
// queues. Queues are created with the AWS SDK, on which it is built. It is a module of its own, so
// that nothing else depends on gocloud.dev.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"gocloud.dev/gcerrors"
	"gocloud.dev/pubsub"
	"gocloud.dev/pubsub/awssnssqs"
)

var (
	ctx, cancel = context.WithTimeout(context.Background(), 50*time.Second)
	endpoint    = os.Getenv("TENAQ_ENDPOINT")
	client      = connect()
)

// body has what encodings are most easily wrong about.
const body = "a\r\n\"b\" &quot; & <c/> ]]>\t\U0001F600 \u2028\\u0041"

func main() {
	defer cancel()
	build, _ := debug.ReadBuildInfo()
	for _, m := range build.Deps {
		if m.Path == "gocloud.dev" {
			print(map[string]any{"version": strings.TrimPrefix(m.Version, "v")})
		}
	}
	report("receive", receive)
	report("visibility", visibility)
	report("delete", remove)
	report("error", failures)
	report("extra", many)
}

// report runs an operation, which panics when something does not hold.
func report(operation string, run func()) {
	defer func() {
		if failure := recover(); failure != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n%s\n", operation, failure, debug.Stack())
			print(map[string]any{"operation": operation, "ok": false,
				"detail": fmt.Sprint(failure)})
		}
	}()
	run()
	print(map[string]any{"operation": operation, "ok": true})
}

func print(line map[string]any) { json.NewEncoder(os.Stdout).Encode(line) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(err error) { must(0, err) }

func same[T any](what string, got, want T) {
	if !reflect.DeepEqual(got, want) {
		panic(fmt.Sprintf("%s: got %v, want %v", what, got, want))
	}
}

func connect(options ...func(*config.LoadOptions) error) *sqs.Client {
	return sqs.NewFromConfig(must(config.LoadDefaultConfig(ctx, options...)), func(o *sqs.Options) {
		o.BaseEndpoint = &endpoint
	})
}

// A pair is what sends to a queue, and what receives from it.
type pair struct {
	url          string
	topic        *pubsub.Topic
	subscription *pubsub.Subscription
}

// open creates a queue. What a receive hides is to stay hidden.
func open(name string) pair {
	name = os.Getenv("TENAQ_PREFIX") + name
	out := must(client.CreateQueue(ctx,
		&sqs.CreateQueueInput{QueueName: &name,
			Attributes: map[string]string{"VisibilityTimeout": "600"}}))
	return with(client, *out.QueueUrl)
}

func with(client *sqs.Client, url string) pair {
	options := &awssnssqs.SubscriptionOptions{Raw: true, WaitTime: 5 * time.Second}
	return pair{url, awssnssqs.OpenSQSTopic(ctx, client, url, nil),
		awssnssqs.OpenSubscription(ctx, client, url, options)}
}

// close ends what a pair has under way, acknowledgements among it.
func (p pair) close() {
	check(p.topic.Shutdown(ctx))
	check(p.subscription.Shutdown(ctx))
}

func (p pair) send(body string, metadata map[string]string) {
	check(p.topic.Send(ctx, &pubsub.Message{Body: []byte(body), Metadata: metadata}))
}

// left returns how many messages the queue has: visible, in flight.
func (p pair) left() [2]string {
	attributes := must(client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &p.url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})).Attributes
	return [2]string{attributes["ApproximateNumberOfMessages"],
		attributes["ApproximateNumberOfMessagesNotVisible"]}
}

// received is how often SQS counts a message as received.
func received(m *pubsub.Message) string {
	var raw types.Message
	if !m.As(&raw) {
		panic("a message is not one of SQS")
	}
	return raw.Attributes["ApproximateReceiveCount"]
}

func receive() {
	p := open("receive")
	defer p.close()
	metadata := map[string]string{"text": body, "key with spaces/é": "x"}
	p.send(body, metadata)
	m := must(p.subscription.Receive(ctx))
	same("body", string(m.Body), body)
	same("metadata", m.Metadata, metadata)
	same("ApproximateReceiveCount", received(m), "1")
	m.Ack()
	p.send("\x00\xff", nil) // not text, and not allowed in SQS: it travels as base64
	m = must(p.subscription.Receive(ctx))
	same("bytes", string(m.Body), "\x00\xff")
	m.Ack()
}

func visibility() {
	p := open("visibility")
	defer p.close()
	p.send("again", nil)
	m := must(p.subscription.Receive(ctx))
	same("it can be given back", m.Nackable(), true)
	m.Nack()
	m = must(p.subscription.Receive(ctx))
	same("body", string(m.Body), "again")
	same("ApproximateReceiveCount", received(m), "2")
	m.Ack()
}

func remove() {
	p := open("delete")
	p.send("gone", nil)
	must(p.subscription.Receive(ctx)).Ack()
	p.close()
	same("visible, in flight", p.left(), [2]string{"0", "0"})
}

func failures() {
	p := open("error")
	p.close()
	fails := func(client *sqs.Client, url string, code gcerrors.ErrorCode) error {
		p := with(client, url)
		defer p.topic.Shutdown(ctx)
		defer p.subscription.Shutdown(ctx)
		_, err := p.subscription.Receive(ctx)
		same("code of a receive", gcerrors.Code(err), code)
		err = p.topic.Send(ctx, &pubsub.Message{Body: []byte("x")})
		same("code of a send", gcerrors.Code(err), code)
		return err
	}
	fails(client, p.url+"-nowhere", gcerrors.NotFound)
	key := credentials.NewStaticCredentialsProvider(os.Getenv("TENAQ_WRONG_KEY_ID"), os.Getenv("TENAQ_WRONG_SECRET"), "")
	// it has no code for this
	err := fails(connect(config.WithCredentialsProvider(key)), p.url, gcerrors.Unknown)
	if !strings.Contains(err.Error(), "SignatureDoesNotMatch") {
		panic("wrong secret: got " + err.Error())
	}
}

// many sends so much that it is sent, received, acknowledged and given back in batches.
func many() {
	p := open("many")
	sent := make(chan error)
	var want []string
	for i := range 40 {
		text := fmt.Sprintf("%02d %s", i, body)
		want = append(want, text)
		go func() { sent <- p.topic.Send(ctx, &pubsub.Message{Body: []byte(text)}) }()
	}
	for range want {
		check(<-sent)
	}
	var got []string
	back := map[string]bool{}
	for len(got) < len(want) {
		m := must(p.subscription.Receive(ctx))
		// Each fourth is given back once.
		if text := string(m.Body); text[1]%4 == 0 && !back[text] {
			back[text] = true
			m.Nack()
		} else {
			got = append(got, text)
			m.Ack()
		}
	}
	p.close()
	same("given back", len(back) > 0, true)
	same("bodies", slices.Sorted(slices.Values(got)), want)
	same("visible, in flight", p.left(), [2]string{"0", "0"})
}
