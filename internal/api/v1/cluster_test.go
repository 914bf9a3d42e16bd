package v1

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"tenaq/internal/api/intake"
	"tenaq/internal/cluster"
	"tenaq/internal/door/auth"
	"tenaq/internal/door/credentials"
)

// A recordedControl records the changes that it is asked for, and answers each with an error.
type recordedControl struct {
	asked []string
	err   error
}

func (c *recordedControl) ask(change ...string) error {
	c.asked = append(c.asked, strings.Join(change, " "))
	return c.err
}

func (c *recordedControl) Status(context.Context) cluster.Status {
	return cluster.Status{Group: "0a", Node: "0b", Term: 3, Members: []cluster.Member{
		{ID: "0b", Address: "n1:9326", Role: cluster.Follower, Voter: true, Applied: 7}}}
}

func (c *recordedControl) Join(_ context.Context, node string) error   { return c.ask("join", node) }
func (c *recordedControl) Remove(_ context.Context, node string) error { return c.ask("remove", node) }
func (c *recordedControl) Replace(_ context.Context, before, after string) error {
	return c.ask("replace", before, after)
}
func (c *recordedControl) Transfer(_ context.Context, node string) error {
	return c.ask("transfer", node)
}

func newClusterHandler(control Control, door *auth.Door) http.Handler {
	return NewCluster(ClusterConfig{Door: door, Control: control, Logger: slog.New(slog.DiscardHandler),
		Intake: intake.New(intake.Config{Polls: func() int64 { return 0 }})})
}

// The cluster is shown and changed without a broker. A change that lacks a name is not made.
func TestCluster(t *testing.T) {
	const asJSON = "application/json"
	for _, tt := range []struct {
		method, path, kind, body string
		err                      error // of the change
		status                   int
		part                     string
		asked                    string // the change, empty for none
	}{
		{"GET", "/v1/cluster", "", "", nil, 200, `{"group":"0a","node":"0b","term":3,"members":[{"id":"0b","address":"n1:9326","role":"follower","voter":true,"applied":7,`, ""},
		{"GET", "/v1/cluster?node=x", "", "", nil, 400, "unknown", ""},
		{"POST", "/v1/cluster", asJSON, "{}", nil, 405, "use GET", ""},
		{"GET", "/v1/cluster/join", "", "", nil, 405, "use POST", ""},
		{"GET", "/v1/cluster/other", "", "", nil, 404, "NotFound", ""},
		{"GET", "/v1/queues", "", "", nil, 404, "NotFound", ""}, // needs a broker
		{"POST", "/v1/cluster/join", asJSON, `{"node":"n4:9326"}`, nil, 200, "{}", "join n4:9326"},
		{"POST", "/v1/cluster/join", "text/plain", `{"node":"n4:9326"}`, nil, 400, "Content-Type", ""}, // as a web page could send it
		{"POST", "/v1/cluster/join", asJSON, `{}`, nil, 400, "Must be the id of a node", ""},
		{"POST", "/v1/cluster/remove", asJSON, `{"node":"3f"}`, nil, 200, "{}", "remove 3f"},
		{"POST", "/v1/cluster/remove", asJSON, `{"node":""}`, nil, 400, "Must be the id of a node", ""},
		{"POST", "/v1/cluster/replace", asJSON, `{"old":"3f","new":"n4:9326"}`, nil, 200, "{}", "replace 3f n4:9326"},
		{"POST", "/v1/cluster/replace", asJSON, `{"new":"n4:9326"}`, nil, 400, "parameter old", ""},
		{"POST", "/v1/cluster/replace", asJSON, `{"old":"3f"}`, nil, 400, "parameter new", ""},
		{"POST", "/v1/cluster/transfer", asJSON, `{"node":"3f"}`, nil, 200, "{}", "transfer 3f"},
		{"POST", "/v1/cluster/transfer", asJSON, `{}`, nil, 200, "{}", "transfer "},
		{"POST", "/v1/cluster/remove", asJSON, `{"node":"x"}`, fmt.Errorf("%w x: the members are n1:9326", cluster.ErrUnknownNode),
			404, `"code":"NodeNotFound","message":"unknown node x: the members are n1:9326"}`, "remove x"},
		{"POST", "/v1/cluster/remove", asJSON, `{"node":"x"}`, fmt.Errorf("%w: start n2 first", cluster.ErrRefused),
			409, `"code":"Refused","message":"start n2 first"}`, "remove x"},
		{"POST", "/v1/cluster/remove", asJSON, `{"node":"x"}`, cluster.ErrNotLeader, 503, "ServiceUnavailable", "remove x"},
		{"POST", "/v1/cluster/remove", asJSON, `{"node":"x"}`, errors.New("it is not known: look again"), 500,
			`"code":"ChangeFailed","message":"it is not known: look again"}`, "remove x"},
	} {
		control := &recordedControl{err: tt.err}
		r := httptest.NewRequest(tt.method, "http://localhost"+tt.path, strings.NewReader(tt.body))
		if tt.kind != "" {
			r.Header.Set("Content-Type", tt.kind)
		}
		w := httptest.NewRecorder()
		newClusterHandler(control, auth.New(auth.Config{Account: account})).ServeHTTP(w, r)
		body := w.Body.String()
		if w.Code != tt.status || !strings.Contains(body, tt.part) || !json.Valid([]byte(body)) {
			t.Errorf("%s %s %s: got %d %s, want %d and %s", tt.method, tt.path, tt.body, w.Code, body, tt.status, tt.part)
		}
		if got := strings.Join(control.asked, ", "); got != tt.asked {
			t.Errorf("%s %s %s: the cluster was asked for %q, want %q", tt.method, tt.path, tt.body, got, tt.asked)
		}
	}
	if status, body := newWorld(t).ask("GET", "/v1/cluster", "", ""); status != 404 || !strings.Contains(body, `"NotFound"`) {
		t.Errorf("a server without a cluster: got %d %s, want 404 and NotFound", status, body)
	}
}

// With keys, only those of the server's account may see the cluster. To change it is another right.
func TestClusterRights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, []byte(`{"credentials": [
		{"id": "TQALL001", "secret": "the-secret-of-TQALL001", "allow": ["*"]},
		{"id": "TQSEES01", "secret": "the-secret-of-TQSEES01", "allow": ["tenaq:GetCluster"]},
		{"id": "TQSEND01", "secret": "the-secret-of-TQSEND01", "allow": ["sqs:*"]},
		{"id": "TQOTHER1", "secret": "the-secret-of-TQOTHER1", "account": "111122223333", "allow": ["*"]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := credentials.Open(credentials.Config{File: path})
	if err != nil {
		t.Fatal(err)
	}
	h := newClusterHandler(&recordedControl{}, auth.New(auth.Config{Credentials: set, Account: account, Region: "us-east-1"}))
	for key, want := range map[string][2]int{
		"": {403, 403}, "TQALL001": {200, 200}, "TQSEES01": {200, 403}, "TQSEND01": {403, 403}, "TQOTHER1": {403, 403},
	} {
		for i, change := range []bool{false, true} {
			method, path, body := "GET", "/v1/cluster", ""
			if change {
				method, path, body = "POST", "/v1/cluster/remove", `{"node":"3f"}`
			}
			r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			if key != "" {
				sum := sha256.Sum256([]byte(body))
				if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: key, SecretAccessKey: "the-secret-of-" + key},
					r, hex.EncodeToString(sum[:]), "sqs", "us-east-1", time.Now()); err != nil {
					t.Fatal(err)
				}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want[i] {
				t.Errorf("%q %s: got %d %s, want %d", key, path, w.Code, w.Body, want[i])
			}
		}
	}
}
