package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A URL with another host than the endpoint is refused if no endpoint was named, unless the server
// gives its queues that host. With a named endpoint it is taken: it may come from the other end of
// a tunnel.
func TestQueueURLHost(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_ = json.NewEncoder(w).Encode(map[string]string{
			"QueueUrl": "https://queue.example/000000000000/own"})
	}))
	defer server.Close()
	f := ClientFlags{EndpointURL: server.URL, Timeout: time.Minute}
	for _, tt := range []struct{ queue, origin, want string }{
		{"https://queue.example/000000000000/own", "default", ""},
		{"https://queue.example:443/000000000000/own", "default", ""},
		{server.URL + "/000000000000/own", "default", ""},
		{"http://other:9324/000000000000/own", "--endpoint-url", ""},
		{"http://other:9324/000000000000/own", "default",
			"http://other:9324/000000000000/own names the host other:9324 and requests go to " +
				server.URL + "; pass its server with --endpoint-url, or only the name if you mean the queue own of " + server.URL},
		{"http://other:9324/", "default",
			`"http://other:9324/" is not the URL of a queue, such as http://127.0.0.1:9324/000000000000/orders`},
	} {
		c, err := f.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.Endpoint.Origin = tt.origin
		got, err := c.QueueURL(t.Context(), tt.queue)
		if errorText(err) != tt.want || err == nil && got != tt.queue {
			t.Errorf("%s, endpoint from %s: got %s, %q, want %q", tt.queue, tt.origin, got,
				errorText(err), tt.want)
		}
	}
}

// A URL of Amazon is for the region of its host, and Amazon has no other URLs.
func TestQueueURLAmazon(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	f := ClientFlags{AWS: true, Region: "us-east-1"}
	c, err := f.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for queue, want := range map[string]string{
		"https://sqs.us-east-1.amazonaws.com/111111111111/own": "",
		"https://queue.amazonaws.com/111111111111/own":         "",
		"https://sqs.eu-west-1.amazonaws.com/111111111111/own": "https://sqs.eu-west-1.amazonaws.com/111111111111/own is in another region than us-east-1; add --region eu-west-1",
		"arn:aws:sqs:eu-west-1:111111111111:own":               "arn:aws:sqs:eu-west-1:111111111111:own is in another region than us-east-1; add --region eu-west-1",
		"http://127.0.0.1:9324/000000000000/own":               "http://127.0.0.1:9324/000000000000/own is not a queue of Amazon and requests go to Amazon SQS; name its server with --endpoint-url",
	} {
		if _, err := c.QueueURL(t.Context(), queue); errorText(err) != want {
			t.Errorf("%s: got %q, want %q", queue, errorText(err), want)
		}
	}
}

func TestHostOf(t *testing.T) {
	for _, same := range [][2]string{
		{"http://127.0.0.1:9324/0/own", "http://localhost:9324/0/own"},
		{"http://[::1]:9324/0/own", "http://LOCALHOST:9324/0/own"},
		{"https://Queue.example/0/own", "https://queue.example:443/0/own"},
	} {
		a, errA := addressOf(same[0])
		b, errB := addressOf(same[1])
		if errA != nil || errB != nil || a.host != b.host {
			t.Errorf("%s and %s: got the hosts %q and %q", same[0], same[1], a.host, b.host)
		}
	}
}
