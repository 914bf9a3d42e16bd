package sqs

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/api/refusal"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/broker"
	"tenaq/internal/engine"
)

// inBubble runs a test with a server in a synctest bubble.
func inBubble(t *testing.T, s settings, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(s)
		defer func() { w.stop(); time.Sleep(time.Second) }()
		test(t, w)
	})
}

// A connection that is kept open takes one request after the other. [WIRE-23]
func TestConnectionIsKept(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		conn := w.listener.dial()
		defer conn.Close()
		var ids sync.Map
		for _, target := range []string{"AmazonSQS.ListQueues", "AmazonSQS.Teleport", "AmazonSQS.ListQueues"} {
			_, resp, body, err := exchange(conn, "POST", request(target, "{}"))
			if err != nil {
				t.Fatalf("%s: %v", target, err)
			}
			checkHeaders(t, resp, body, &ids)
			time.Sleep(time.Minute)
		}
	})
}

// A poll may take its 20 seconds although what was read before it had to be quick, in both
// protocols, whether the body is small or has a deadline of its own. [WIRE-22]
func TestPollAfterSlowBody(t *testing.T) {
	large := strings.Repeat("x", 2*intake.Small)
	for _, test := range []struct{ name, poll, body, want string }{
		{"small", "", `{"QueueUrl":"q","WaitTimeSeconds":20}`, "{}"},
		{"large", "", `{"QueueUrl":"q","WaitTimeSeconds":20,"Unknown":"` + large + `"}`, "{}"},
		{"small form", "query", "Action=ReceiveMessage&QueueUrl=q&WaitTimeSeconds=20", "<ReceiveMessageResult/>"},
		{"large form", "query", "Action=ReceiveMessage&QueueUrl=q&WaitTimeSeconds=20&Unknown=" + large, "<ReceiveMessageResult/>"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, w *world) {
				conn := w.listener.dial()
				defer conn.Close()
				create := request("AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
				if _, _, _, err := exchange(conn, "POST", create); err != nil {
					t.Fatal(err)
				}
				poll := request("AmazonSQS.ReceiveMessage", test.body)
				if test.poll == "query" {
					poll = queryRequest("", test.body)
				}
				io.WriteString(conn, strings.TrimSuffix(poll, test.body))
				time.Sleep(intake.StallMax - time.Second)
				start := time.Now()
				_, resp, answer, err := exchange(conn, "POST", test.body)
				if err != nil {
					t.Fatal(err)
				}
				got := time.Since(start).Round(time.Second)
				if resp.StatusCode != 200 || !strings.Contains(answer, test.want) || got != 20*time.Second {
					t.Errorf("status %d, body %s after %v, want 200, %s after 20s", resp.StatusCode, answer, got, test.want)
				}
			})
		})
	}
}

// Large bodies give their part of the budget back, those that are refused too.
func TestBudgetIsGivenBack(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		conn := w.listener.dial()
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(transferMax)) // or a budget that is used up would be waited for, for ever
		large := strings.Repeat("x", intake.BodyMax-100)
		for i := range intake.BodyBudget/intake.BodyMax + 8 {
			req := request("AmazonSQS.ListQueues", `{"Unknown":"`+large+`"}`)
			if i%2 == 1 {
				req = queryRequest("", "Action=Teleport&Unknown="+large)
			}
			start := time.Now()
			if _, _, _, err := exchange(conn, "POST", req); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(start); got != 0 {
				t.Fatalf("request %d waited %v", i, got)
			}
		}
		synctest.Wait()
		if got := w.intake.Bodies.Total(); got != 0 {
			t.Errorf("%d bytes are held, want none", got)
		}
	})
}

// A client that disconnects in the middle of its body is not a failure of the server.
func TestBodyCutOff(t *testing.T) {
	var log bytes.Buffer
	inBubble(t, settings{log: &log}, func(t *testing.T, w *world) {
		conn := w.listener.dial()
		io.WriteString(conn, request("AmazonSQS.ListQueues", "", "Content-Length", "100"))
		conn.Close()
		synctest.Wait()
	})
	if got := log.String(); strings.Contains(got, "request failed") {
		t.Errorf("log says %q, want nothing", got)
	}
}

// Each kind of failure, as a client sees it. [ERR-1, ERR-12]
func TestWireError(t *testing.T) {
	for _, c := range []struct {
		err     error
		code    sqswire.ErrorCode
		status  int
		message bool
	}{
		{&engine.Error{Code: engine.CodeOverLimit, Message: "too many"}, "OverLimit", 403, true},
		{&engine.Error{Code: engine.CodeNoResource, Message: "no task"}, "ResourceNotFoundException", 404, true},
		{sqswire.Errorf(sqswire.MalformedInput, "no"), sqswire.MalformedInput, 400, true},
		{errNotFound, sqswire.InvalidAction, 400, true},
		{broker.ErrThrottled, sqswire.RequestThrottled, 403, true},
		{broker.ErrStopped, sqswire.ServiceUnavailable, 503, true},
		{broker.ErrNoSpace, sqswire.ServiceUnavailable, 503, true},
		{broker.ErrNotLeader, sqswire.ServiceUnavailable, 503, true},
		{broker.ErrOutcomeUnknown, sqswire.InternalError, 500, true},
		{errors.New("secret"), sqswire.InternalFailure, 500, true},
	} {
		got := refusal.Of(c.err)
		if got.Code != c.code || got.Info().Status != c.status || (got.Message != "") != c.message || strings.Contains(got.Message, "secret") {
			t.Errorf("refusal.Of(%v): got %+v, status %d, want %s, %d", c.err, got, got.Info().Status, c.code, c.status)
		}
	}
}

// Every code the engine refuses with is in the catalogue of the wire: one that is not would reach
// clients as an InternalFailure. [ERR-5, ERR-6]
func TestEngineCodes(t *testing.T) {
	for _, code := range []engine.Code{
		engine.CodeNoQueue, engine.CodeQueueExists, engine.CodeDeletedRecently, engine.CodePurgeInProgress,
		engine.CodeInvalidAttributeName, engine.CodeInvalidAttribute, engine.CodeInvalidParameter,
		engine.CodeMissingParameter, engine.CodeInvalidContents, engine.CodeInvalidHandle, engine.CodeOverLimit,
		engine.CodeUnsupported, engine.CodeEmptyBatch, engine.CodeTooManyEntries, engine.CodeInvalidEntryID,
		engine.CodeEntryIDsNotDistinct, engine.CodeBatchTooLong, engine.CodeNoResource,
	} {
		if got := refusal.Of(&engine.Error{Code: code}).Info().Status; got >= http.StatusInternalServerError {
			t.Errorf("%s: status %d, want one below 500", code, got)
		}
	}
}
