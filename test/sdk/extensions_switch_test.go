package sdk

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/testing/proof"
	"tenaq/internal/work/extension"
)

// A switched extension is one that a tool has switched on with a tag.
type switched struct {
	value string // of the tag
	fifo  bool   // its queue is one
	sees  func(n *node, url string) string
}

// each has the extension of every tag. What sees returns is not as the extension has it; empty is.
var each = map[string]switched{
	extension.DedupWindowTag: {value: "30d", sees: func(n *node, url string) string {
		n.attributed(url, "first", "tenaq.dedup-id", "order-17")
		n.attributed(url, "again", "tenaq.dedup-id", "order-17")
		return unless(len(n.take(url, 20, 600)) == 1 && len(n.take(url, 0, 600)) == 0, "a repeated send adds a message")
	}},
	extension.DelayMaxTag: {value: "90d", sees: func(n *node, url string) string {
		n.attributed(url, "later", "tenaq.delay", "89d")
		return unless(n.counters(url) == [3]int{0, 0, 1}, "a message does not wait for its delay")
	}},
	extension.Fair: {value: "true", sees: func(n *node, url string) string {
		for _, body := range []string{"a1", "a2", "b1"} {
			if _, err := n.SendMessage(n.t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body,
				MessageGroupId: aws.String(body[:1])}); err != nil {
				return err.Error()
			}
		}
		got := bodies(n.take(url, 20, 600))
		return unless(got == "a1 b1 a2", "groups are served as "+got)
	}},
	extension.History: {value: "7d", sees: func(n *node, url string) string {
		n.send(url, "done")
		m := n.one(url)
		if _, err := n.DeleteMessage(n.t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
			return err.Error()
		}
		resp, err := http.Get("http://" + n.server.Addr() + "/v1/queues/" + url[strings.LastIndexByte(url, '/')+1:] + "/history")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		var past struct {
			Outcomes []struct{ MessageID string }
		}
		if err := json.NewDecoder(resp.Body).Decode(&past); err != nil || len(past.Outcomes) != 1 || past.Outcomes[0].MessageID != *m.MessageId {
			return "the history does not have the message that was deleted"
		}
		return ""
	}},
	extension.MaxInFlight: {value: "1", sees: func(n *node, url string) string {
		n.send(url, "one")
		n.send(url, "two")
		return unless(len(n.take(url, 20, 600)) == 1 && len(n.take(url, 0, 600)) == 0, "more than one message is in flight")
	}},
	extension.MaxInFlightPerGroup: {value: "1", fifo: true, sees: func(n *node, url string) string {
		n.put(url, "g", "d1", "one")
		n.put(url, "g", "d2", "two")
		return unless(len(n.take(url, 20, 600)) == 1, "more than one message of the group is in flight")
	}},
	extension.OnDeadLetter: {value: "hold-group", fifo: true, sees: func(n *node, url string) string {
		dead := n.arn(n.fifo("letters-of-held.fifo"))
		if _, err := n.SetQueueAttributes(n.t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &url,
			Attributes: map[string]string{"RedrivePolicy": redrive(dead, 1)}}); err != nil {
			return err.Error()
		}
		n.put(url, "g", "d1", "one")
		n.exhaust(url, 1)
		n.put(url, "g", "d2", "two")
		return unless(len(n.take(url, 0, 600)) == 0, "the message behind a dead letter is delivered")
	}},
	extension.Paused: {value: "true", sees: func(n *node, url string) string {
		n.send(url, "held")
		return unless(len(n.take(url, 0, 600)) == 0, "a paused queue delivers")
	}},
	extension.Priority: {value: "1h", sees: func(n *node, url string) string {
		n.send(url, "later")
		n.attributed(url, "first", "tenaq.priority", "9")
		got := bodies(n.take(url, 20, 600))
		return unless(got == "first later", "messages are delivered as "+got)
	}},
	extension.RateTag: {value: "1/h", sees: func(n *node, url string) string {
		n.send(url, "one")
		n.send(url, "two")
		return unless(len(n.take(url, 20, 600)) == 1 && len(n.take(url, 0, 600)) == 0, "more than one message an hour is delivered")
	}},
	extension.RetryTag: {value: "10m..1h", sees: func(n *node, url string) string {
		n.send(url, "fails")
		if err := n.hide(url, n.one(url).ReceiptHandle, 0); err != nil {
			return err.Error()
		}
		return unless(len(n.take(url, 0, 600)) == 0, "a failed attempt is repeated at once")
	}},
	extension.ScheduleTag: {value: "@every 1s body=tick", sees: func(n *node, url string) string {
		got := bodies(n.take(url, 20, 600))
		return unless(strings.HasPrefix(got, "tick"), "the schedule sent "+got)
	}},
	extension.StrictHandles: {value: "true", sees: func(n *node, url string) string {
		n.send(url, "twice")
		old, _ := n.take(url, 20, 1), n.take(url, 20, 600)
		_, err := n.DeleteMessage(n.t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: old[0].ReceiptHandle})
		return unless(err != nil, "an older handle deletes the message")
	}},
}

// attributed sends a message with an attribute.
func (n *node) attributed(url, body, name, value string) {
	n.t.Helper()
	if _, err := n.SendMessage(n.t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body,
		MessageAttributes: map[string]types.MessageAttributeValue{name: text("String", value)}}); err != nil {
		n.t.Fatal(err)
	}
}

func unless(ok bool, complaint string) string {
	if ok {
		return ""
	}
	return complaint
}

// refusals has tags that no queue may have, and the error for each.
var refusals = map[string]struct{ tag, value, want string }{
	"unknown": {"tenaq:nothing", "5", "This server has no extension named by the tag tenaq:nothing; it has dedup-window, "},
	"wrong": {extension.RateTag, "fast",
		"Must be a whole number from 1 to 100000 for each second, minute or hour, such as 50/s, 6/m or 10/h"},
}

// name is the name of the queue with the extension of a tag.
func (s switched) name(tag string) string {
	name := strings.NewReplacer(":", "-", ".", "-").Replace(tag)
	if s.fifo {
		name += ".fifo"
	}
	return name
}

// wantAll wants every extension in effect, in queues that something else has created.
func wantAll(t *testing.T, n *node) {
	t.Helper()
	for tag, s := range each {
		out, err := n.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(s.name(tag))})
		if err != nil {
			t.Errorf("%s: %v", tag, err)
		} else if complaint := s.sees(n, *out.QueueUrl); complaint != "" {
			t.Errorf("%s=%s: %s", tag, s.value, complaint)
		}
	}
}

// A tag that is new needs a row of the table.
func TestEachExtension(t *testing.T) {
	for _, x := range extension.All {
		if _, ok := each[x.Tag]; !ok {
			t.Errorf("%s: no test switches it on; add it to each, in extensions_switch_test.go", x.Tag)
		}
	}
	n := start(t, nil)
	for tag, s := range each {
		n.create(tag, s)
	}
	wantAll(t, n)
}

func (n *node) create(tag string, s switched) {
	n.t.Helper()
	in := &sqs.CreateQueueInput{QueueName: aws.String(s.name(tag)), Tags: map[string]string{tag: s.value}}
	if s.fifo {
		in.Attributes = map[string]string{"FifoQueue": "true"}
	}
	if _, err := n.CreateQueue(n.t.Context(), in); err != nil {
		n.t.Fatal(err)
	}
}

// The AWS command line switches each extension on, and prints why a tag is refused. [TAG-10]
func TestEachExtensionWithAWSCommandLine(t *testing.T) {
	if testing.Short() {
		t.Skip("each call takes a second of the processor")
	}
	needAWS(t)
	t.Parallel()
	n := start(t, nil)
	for tag, s := range each {
		args := []string{"create-queue", "--queue-name", s.name(tag)}
		if s.fifo {
			args = append(args, "--attributes", "FifoQueue=true")
		}
		n.aws(append(args, "--tags", tag+"="+s.value)...)
	}
	wantAll(t, n)
	url := n.queue("plain")
	for _, r := range refusals {
		out, err := n.tryAWS("tag-queue", "--queue-url", url, "--tags", r.tag+"="+r.value)
		if err == nil || !strings.Contains(out, r.want) {
			t.Errorf("%s=%s: got %v and %q, want %q", r.tag, r.value, err, out, r.want)
		}
	}
}

// needAWS skips a test where the AWS command line is missing.
func needAWS(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("aws"); err != nil {
		proof.Missing(t, "the AWS command line is not installed: apt-get install awscli")
	}
}

// aws runs the AWS command line and returns what it prints.
func (n *node) aws(args ...string) string {
	n.t.Helper()
	out, err := n.tryAWS(args...)
	if err != nil {
		n.t.Fatalf("aws sqs %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (n *node) tryAWS(args ...string) (string, error) {
	cmd := exec.CommandContext(n.t.Context(), "aws", append([]string{"--endpoint-url", "http://" + n.server.Addr(),
		"--region", "us-east-1", "--output", "text", "sqs"}, args...)...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=secret", "AWS_CONFIG_FILE=/dev/null")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// Terraform switches each extension on, prints why a tag is refused, and removes the queues. Each
// command starts the provider, so one apply has all queues, and those that are refused too.
// [TAG-10]
func TestEachExtensionWithTerraform(t *testing.T) {
	type queue struct {
		Fifo bool              `json:"fifo"`
		Tags map[string]string `json:"tags"`
	}
	queues := map[string]queue{}
	for tag, s := range each {
		queues[s.name(tag)] = queue{s.fifo, map[string]string{tag: s.value}}
	}
	for name, r := range refusals {
		queues[name] = queue{false, map[string]string{r.tag: r.value}}
	}
	settings, err := json.Marshal(map[string]any{"queues": queues})
	if err != nil {
		t.Fatal(err)
	}
	n, run := startTerraform(t, "extensions")
	if err := os.WriteFile(filepath.Join(run.dir, "queues.auto.tfvars.json"), settings, 0o600); err != nil {
		t.Fatal(err)
	}
	// Terraform waits for each queue, and by default for ten of them at a time.
	parallel := "-parallelism=" + strconv.Itoa(len(queues))
	status, out := run.output("apply", parallel, "-auto-approve")
	if got := strings.Count(out, "Error: "); status != 1 || got != len(refusals) {
		t.Fatalf("terraform apply: status %d and %d errors, want 1 and %d:\n%s", status, got, len(refusals), out)
	}
	// It wraps errors, and draws a line beside them.
	out = strings.Join(strings.Fields(strings.ReplaceAll(out, "│", " ")), " ")
	for _, r := range refusals {
		if !strings.Contains(out, r.want) {
			t.Errorf("%s=%s: got %q, want %q", r.tag, r.value, out, r.want)
		}
	}
	wantAll(t, n)
	run.must("destroy", "-refresh=false", parallel, "-auto-approve")
	left, err := n.ListQueues(t.Context(), &sqs.ListQueuesInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range left.QueueUrls {
		if _, ok := queues[path.Base(url)]; ok {
			t.Errorf("after destroy, %s is there", url)
		}
	}
}
