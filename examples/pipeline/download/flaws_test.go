package download

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// The usual download pipelines have known flaws. Each test here that is named after one says what
// the usual solution does, and shows that this one does otherwise. More of them are in the packages
// that it uses.

const name = "accounts-2026-02-28.csv"

// A place is a server with the queues of the pipeline, a source and a directory, in a bubble.
type place struct {
	t           *testing.T
	client      *sqstest.Client
	url, dead   string
	store       records.Store
	source, out string // directories
}

func inBubble(t *testing.T, test func(t *testing.T, p *place)) {
	t.Helper()
	source, out := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := sqstest.New(t)
		p := &place{t: t, client: s.Client(), store: recordstest.NewMemory(), source: source, out: out}
		const dead = "data-download-dlq.fifo"
		p.dead = s.Queue(t, dead)
		p.url = s.Queue(t, queueName, "ContentBasedDeduplication", "true", "RedrivePolicy", sqstest.RedrivePolicy(dead, "100"))
		p.write(p.source, "id,account\n1,17\n")
		if err := send(t.Context(), p.client, p.url, p.store, "31", []string{filepath.Join(source, name)}); err != nil {
			t.Fatal(err)
		}
		test(t, p)
	})
}

// write writes the file into a directory.
func (p *place) write(dir, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// work lets a worker work for a while.
func (p *place) work(long time.Duration) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.t.Context(), long)
	defer stop()
	if err := work(ctx, p.client, p.url, p.store, "file://"+p.source, p.out); err != nil {
		p.t.Fatal(err)
	}
}

// wantOut checks what was downloaded, and that it is all there is.
func (p *place) wantOut(want string) {
	p.t.Helper()
	got, err := os.ReadFile(filepath.Join(p.out, name))
	if want == "" && os.IsNotExist(err) {
		err = nil
	}
	if string(got) != want || err != nil {
		p.t.Errorf("downloaded %q, error %v, want %q", got, err, want)
	}
	entries, err := os.ReadDir(p.out)
	if len(entries) > 1 || err != nil {
		p.t.Errorf("in the directory: %v, error %v", entries, err)
	}
}

func (p *place) wantDepth(url string, want int) {
	p.t.Helper()
	if got := depth(p.t, p.client.Client, url); got != want {
		p.t.Errorf("%d messages in %s, want %d", got, url, want)
	}
}

// depth is how many messages are in a queue, in flight or not.
func depth(t *testing.T, client *sqs.Client, url string) (n int) {
	t.Helper()
	out, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"} {
		some, err := strconv.Atoi(out.Attributes[name])
		if err != nil {
			t.Fatal(err)
		}
		n += some
	}
	return n
}

// Usual: the five minutes of deduplication pass for "exactly once", so what a producer sends again
// after them is downloaded again. Ours: the claim on the key outlives every message.
func TestClaimOutlivesTheWindow_FA12(t *testing.T) {
	inBubble(t, func(t *testing.T, p *place) {
		p.work(time.Minute)
		p.wantOut("id,account\n1,17\n")
		p.wantDepth(p.url, 0)

		time.Sleep(24 * time.Hour)
		_, err := p.client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &p.url, MessageBody: aws.String(`{"FileID":"` + name + `"}`), MessageGroupId: aws.String(name), MessageDeduplicationId: aws.String(name),
		})
		if err != nil {
			t.Fatal(err)
		}
		p.wantDepth(p.url, 1)
		p.write(p.source, "what a second download would find\n")
		p.work(time.Minute)
		p.wantDepth(p.url, 0)
		p.wantDepth(p.dead, 0) // where its checksum would have brought it
		p.wantOut("id,account\n1,17\n")
	})
}

// Usual: the upload and the change of the status are two writes; after a crash in between, the file
// is uploaded again over the first one. Ours: the place of the file is its effect key, and is taken
// once.
func TestCrashBetweenWriteAndRecord_FA15(t *testing.T) {
	inBubble(t, func(t *testing.T, p *place) {
		ledger, err := claims.New(claims.Config{Store: p.store, Owner: "one who died"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ledger.Acquire(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		p.write(p.out, "id,account\n1,17\n")
		before, err := os.Stat(filepath.Join(p.out, name))
		if err != nil {
			t.Fatal(err)
		}
		p.work(5 * time.Minute)
		p.wantDepth(p.url, 0)
		p.wantOut("id,account\n1,17\n")
		if after, err := os.Stat(filepath.Join(p.out, name)); err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
			t.Errorf("the file was written again, error %v", err)
		}
		if e, err := ledger.Entry(t.Context(), name); err != nil || e.State != claims.Completed || e.Owner == "one who died" {
			t.Errorf("got %+v and error %v, want it completed by the next one", e, err)
		}
	})
}

// A file that differs from its announcement is tried three times, and then set aside with the
// reason. A file that does not exist yet is waited for.
func TestFilesThatCannotBeHad(t *testing.T) {
	inBubble(t, func(t *testing.T, p *place) {
		if err := os.Remove(filepath.Join(p.source, name)); err != nil {
			t.Fatal(err)
		}
		p.work(time.Hour)
		p.wantDepth(p.url, 1)

		p.write(p.source, "damaged\n")
		p.work(time.Hour)
		p.wantOut("")
		p.wantDepth(p.url, 0)
		p.wantDepth(p.dead, 1)
		out, err := p.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &p.dead, MessageAttributeNames: []string{"All"}})
		if err != nil || len(out.Messages) != 1 {
			t.Fatalf("got %v and error %v, want one dead letter", out, err)
		}
		about := aws.ToString(out.Messages[0].MessageAttributes["tenaq"].StringValue)
		if !strings.Contains(about, "attempts=3") || !strings.Contains(about, "its+checksum+is+") {
			t.Errorf("the dead letter says %q, want 3 attempts and the reason", about)
		}
	})
}
