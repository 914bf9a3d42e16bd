package pipe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/testing/sqstest"
	"tenaq/worker"
)

// A message that goes back to a tenaq server with its reason is left while it is hidden. One
// that the queue moved to its dead-letter queue is not left.
func TestPipeEndKnowsNacks(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		left time.Duration // 0 if nothing is left
	}{
		{"later", worker.Later(3*time.Hour, "the bank is closed"), 3 * time.Hour},
		{"poison", worker.Poison(errors.New("no customer 7")), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := sqstest.New(t)
				server.Queue(t, "dead")
				url := server.Queue(t, "work", "RedrivePolicy", sqstest.RedrivePolicy("dead", "10"))
				attributes := make(map[string]types.MessageAttributeValue) // without room for a trail
				for i := range 10 {
					attributes[fmt.Sprint("a", i)] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String("x")}
				}
				client := sqs.New(server.Client().Options())
				if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("a"), MessageAttributes: attributes}); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				log := slog.New(slog.DiscardHandler)
				end := newPipeEnd(client, url, false, log, stop)
				w, err := worker.New(worker.Config{
					Client: end, QueueURL: url, NoClaims: true, Logger: log, Events: NewObserver(log, "work", 1).events(end),
					Handler: worker.HandlerFunc(func(context.Context, *worker.Message) error { return tt.err }),
				})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if err := w.Run(ctx); err != nil {
					t.Fatal(err)
				}
				l, err := end.look(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				switch got := l.last.Sub(began); {
				case tt.left == 0 && (!l.none() || end.verdict() != nil):
					t.Errorf("%+v is left", l)
				case tt.left > 0 && (l.paused != 1 || got < tt.left || got > tt.left+time.Minute):
					t.Errorf("%d messages are left, for %v", l.paused, got)
				}
			})
		})
	}
}
