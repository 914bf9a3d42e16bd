package load

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"tenaq/internal/testing/audit"
)

// refusing is an emulator that refuses every handle that begins with "old".
func refusing(t *testing.T, code string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var in struct {
			ReceiptHandle string
			Entries       []struct{ Id, ReceiptHandle string }
		}
		if err := json.Unmarshal(body, &in); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		var ok, failed []string
		for _, e := range in.Entries {
			if strings.HasPrefix(e.ReceiptHandle, "old") {
				failed = append(failed, fmt.Sprintf(`{"Id": %q, "Code": %q, "SenderFault": true}`, e.Id, code))
			} else {
				ok = append(ok, fmt.Sprintf(`{"Id": %q}`, e.Id))
			}
		}
		switch {
		case in.Entries != nil:
			fmt.Fprintf(w, `{"Successful": [%s], "Failed": [%s]}`, strings.Join(ok, ","), strings.Join(failed, ","))
		case strings.HasPrefix(in.ReceiptHandle, "old"):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type": "com.amazonaws.sqs#%s", "message": "the receipt handle is not valid"}`, code)
		default:
			fmt.Fprint(w, `{}`)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// The refusals of a server that may refuse old handles are counted, and the run continues. Those of
// any other server end it.
func TestOldHandlesRefused(t *testing.T) {
	for _, code := range []string{"ReceiptHandleIsInvalid", "InvalidParameterValue"} {
		server := refusing(t, code)
		for _, may := range []bool{false, true} {
			r := newRecorder(Config{
				AWS:      aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")},
				Endpoint: server.URL, RefusesOldHandles: may,
			})
			q := newQueue(server.URL+"/000000000000/q", false)
			for _, test := range []struct {
				handles       []string
				done, refused int
			}{
				{[]string{"new"}, 1, 0},
				{[]string{"old"}, 0, 1},
				{[]string{"new", "old", "new", "old"}, 2, 2},
			} {
				r.oldHandles, r.history = 0, audit.History{}
				done, err := r.delete(t.Context(), q, test.handles)
				if done != test.done || (err != nil) != (test.refused > 0 && !may) {
					t.Errorf("%s, allowed %v: delete %q: %d done, %v", code, may, test.handles, done, err)
				}
				if may && r.oldHandles != test.refused {
					t.Errorf("%s: delete %q: %d counted, want %d", code, test.handles, r.oldHandles, test.refused)
				}
				for i, d := range r.history.Deletes {
					if want := strings.HasPrefix(test.handles[i], "new"); (d.Outcome == audit.Done) != want {
						t.Errorf("%s: delete of %q: outcome %v", code, test.handles[i], d.Outcome)
					}
				}
			}
			r.oldHandles = 0
			err := r.change(t.Context(), q, "old", time.Second)
			counted := 0
			if code != handleRefused && may { // the other code is the answer for a message that is deleted
				counted = 1
			}
			if want := code != handleRefused && !may; (err != nil) != want || r.oldHandles != counted {
				t.Errorf("%s, allowed %v: change: %v, %d counted", code, may, err, r.oldHandles)
			}
		}
	}
}

// Attempts go to one node of a cluster after the other, and say the host that they were meant for.
func TestNodesTakeTurns(t *testing.T) {
	asked := make(chan string, 8)
	var nodes []string
	for i := range 3 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- fmt.Sprint(i, " ", r.Host)
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			if i != 0 { // one is no leader, and the SDK tries again
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			fmt.Fprint(w, `{}`)
		}))
		t.Cleanup(s.Close)
		nodes = append(nodes, s.URL)
	}
	r := newRecorder(Config{
		AWS:      aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")},
		Endpoint: "http://queue.test", Nodes: nodes,
	})
	if done, err := r.delete(t.Context(), newQueue("http://queue.test/000000000000/q", false), []string{"new"}); done != 1 || err != nil {
		t.Errorf("got %d done, %v, want 1", done, err)
	}
	close(asked)
	var got []string
	for a := range asked {
		got = append(got, a)
	}
	if want := "1 queue.test,2 queue.test,0 queue.test"; strings.Join(got, ",") != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
