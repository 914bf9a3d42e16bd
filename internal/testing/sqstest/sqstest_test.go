package sqstest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// A long poll waits its time in the bubble, faults happen where they were asked for.
func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t)
		url := s.Queue(t, "orders", "VisibilityTimeout", "3600")
		c := s.Client()
		send := func() error {
			_, err := c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("hello")})
			return err
		}
		receive := func() int {
			out, err := c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: 20})
			if err != nil {
				t.Fatal(err)
			}
			return len(out.Messages)
		}
		began := time.Now()
		if n := receive(); n != 0 || time.Since(began) != 20*time.Second {
			t.Errorf("%d messages after %v, want none after 20s", n, time.Since(began))
		}
		for _, row := range []struct {
			fault  Fault
			failed bool
			want   int
		}{{None, false, 1}, {Dropped, true, 0}, {Unanswered, true, 1}, {Broken, true, 0}, {Throttled, true, 0}, {Doubled, false, 2}} {
			c.SetFault(func(string) Fault { return row.fault })
			if err := send(); (err != nil) != row.failed {
				t.Errorf("fault %d: error %v", row.fault, err)
			}
			c.SetFault(nil)
			if n := receive(); n != row.want {
				t.Errorf("fault %d: %d messages, want %d", row.fault, n, row.want)
			}
		}
		if got := c.Calls("SendMessage"); got != 6 {
			t.Errorf("%d sends, want 6", got)
		}
	})
}
