package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"tenaq/offload"
)

// A fullStore takes no bodies.
type fullStore struct{ offload.Store }

func (fullStore) Bucket() string { return "full" }

func (fullStore) Put(context.Context, string, []byte) error { return errors.New("no space left") }

// An error of the disk may pass; one in the message may not.
func TestKeeperRefuses(t *testing.T) {
	o, err := offload.New(offload.Config{Store: fullStore{}, BodyMax: BodyMax})
	if err != nil {
		t.Fatal(err)
	}
	k := NewKeeper(o, "http://127.0.0.1:9324/000000000000/orders", nil)
	for _, test := range []struct {
		body string
		code int
		want string
	}{
		{"small", ExitOK, ""},
		{strings.Repeat("x", 2<<20), ExitFailed, "no space left; the message was not sent: let this"},
		{strings.Repeat("x", BodyMax+1), ExitUsage, "the body is larger than allowed"},
	} {
		if _, _, err := k.Keep(t.Context(), test.body, nil); ExitCode(err) != test.code || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("a body of %d bytes: got %v, exit code %d, want %q, %d", len(test.body), err, ExitCode(err), test.want, test.code)
		}
	}
}

// The key decides which messages share a body.
func TestKeeperKeys(t *testing.T) {
	const url = "http://127.0.0.1:9324/000000000000/"
	for _, test := range []struct {
		queue string
		dedup *string
		want  string
	}{
		{"orders", nil, ""},
		{"orders.fifo", nil, "orders.fifo"},
		{"orders.fifo", aws.String("order-17"), "order-17"},
	} {
		if got := NewKeeper(nil, url+test.queue, test.dedup).key; got != test.want {
			t.Errorf("%s with %v: got the key %q, want %q", test.queue, test.dedup, got, test.want)
		}
	}
}
