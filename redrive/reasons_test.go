package redrive_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/work/v1client"
)

// A dead letter without a trail has the reason that its consumer told the server. [NACK-16]
func TestReasonOfTheServer(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		out, err := r.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &r.work})
		if err != nil {
			t.Fatal(err)
		}
		handle := aws.ToString(out.Messages[0].ReceiptHandle)
		var answer struct{ Outcomes []struct{ Done bool } }
		if err := v1client.New(r.client).Post(t.Context(), "/queues/work/nack", map[string]any{"entries": []map[string]string{
			{"receiptHandle": handle, "verdict": "poison", "text": "no customer 7"},
		}}, &answer); err != nil || !answer.Outcomes[0].Done {
			t.Fatalf("%+v, %v", answer, err)
		}
		time.Sleep(time.Minute)
		report, err := r.redriver(nil).Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Decisions) != 1 || !strings.HasSuffix(report.Decisions[0].Why, "poison, its worker says: no customer 7") {
			t.Errorf("the redriver decides %+v", report.Decisions)
		}
	})
}
