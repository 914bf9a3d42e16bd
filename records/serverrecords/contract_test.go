package serverrecords_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/queuetest"
	"tenaq/records"
	"tenaq/records/recordstest"
	"tenaq/records/serverrecords"
)

// open returns a store in a server.
func open(t testing.TB, client *sqs.Client) *serverrecords.Store {
	t.Helper()
	s, err := serverrecords.New(serverrecords.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The contract, in virtual time.
func TestContract(t *testing.T) {
	recordstest.RunVirtual(t, func(t testing.TB) recordstest.Backend {
		server := queuetest.New(t)
		return recordstest.Backend{
			Open:         func(t testing.TB) records.Store { return open(t, server.Client) },
			SweepsItself: true,
		}
	})
}

// The same over real connections.
func TestContractInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for records to expire")
	}
	recordstest.Run(t, func(t testing.TB) recordstest.Backend {
		server := queuetest.New(t)
		return recordstest.Backend{
			Open:         func(t testing.TB) records.Store { return open(t, server.Client) },
			SweepsItself: true,
		}
	})
}

// A client without an address of its own is one for Amazon SQS, which keeps no records.
func TestNoServer(t *testing.T) {
	client := sqs.New(sqs.Options{Region: "us-east-1"})
	if s, err := serverrecords.New(serverrecords.Config{Client: client}); err == nil {
		t.Errorf("got a store %v", s)
	}
	if offered, err := serverrecords.Offered(t.Context(), client); offered || err != nil {
		t.Errorf("offered: got %v, %v", offered, err)
	}
}

// A tenaq server offers records. A server that is away does not say, which is an error.
func TestOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := queuetest.New(t)
		if offered, err := serverrecords.Offered(t.Context(), server.Client); !offered || err != nil {
			t.Errorf("got %v, %v", offered, err)
		}
	})
	for _, tt := range []struct {
		name           string
		header         string
		status         int
		offered, fails bool
	}{
		{"another server", "", http.StatusBadRequest, false, false},
		{"an earlier version", "1", http.StatusNotFound, false, false},
		{"a key without the right", "1", http.StatusForbidden, false, true},
		{"a proxy before a server that is away", "", http.StatusBadGateway, false, true},
	} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if tt.header != "" {
				w.Header().Set("Tenaq-Api", tt.header)
			}
			w.WriteHeader(tt.status)
		}))
		client := sqs.New(sqs.Options{Region: "us-east-1", BaseEndpoint: &other.URL, HTTPClient: other.Client()})
		if offered, err := serverrecords.Offered(t.Context(), client); offered != tt.offered || (err != nil) != tt.fails {
			t.Errorf("%s: got %v, %v", tt.name, offered, err)
		}
		other.Close()
	}
	away := sqs.New(sqs.Options{Region: "us-east-1", BaseEndpoint: aws.String("http://127.0.0.1:1")})
	if offered, err := serverrecords.Offered(t.Context(), away); offered || err == nil {
		t.Errorf("away: got %v, %v", offered, err)
	}
}

// A store that is closed refuses writes.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, queuetest.New(t).Client)
		if _, err := s.Put(t.Context(), records.Write{Key: "a", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), records.Write{Key: "b"}); err == nil {
			t.Error("a closed store was written to")
		}
	})
}

// A write deletes the message whose work it ends, and one that conflicts leaves it. [REC-15]
func TestPutAndDelete(t *testing.T) {
	server := queuetest.New(t)
	s := open(t, server.Client)
	url := server.Queue("jobs", nil)
	if _, err := server.Client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("a")}); err != nil {
		t.Fatal(err)
	}
	got, err := server.Client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url})
	if err != nil || len(got.Messages) != 1 {
		t.Fatal(got, err)
	}
	handle := *got.Messages[0].ReceiptHandle
	put := func(version records.Version, handle string, wantDeleted, wantConflict bool) records.Version {
		t.Helper()
		r, deleted, err := s.PutAndDelete(t.Context(), records.Write{Key: "k", Value: []byte("v"), If: version}, "jobs", handle)
		_, conflict := errors.AsType[*records.Conflict](err)
		if deleted != wantDeleted || conflict != wantConflict || err != nil && !conflict {
			t.Fatalf("got %+v, deleted %v, %v, want %v and a conflict %v", r, deleted, err, wantDeleted, wantConflict)
		}
		return r.Version
	}
	if !s.Deletes(t.Context(), server.Client, "jobs") || s.Deletes(t.Context(), sqs.New(sqs.Options{Region: "us-east-1"}), "jobs") {
		t.Error("the server deletes messages of its own queues, and of no others")
	}
	version := put(0, "no handle", false, false)
	put(0, handle, false, true)
	if left := server.Messages("jobs"); len(left) != 1 {
		t.Errorf("a write that conflicts has deleted the message: %v", left)
	}
	put(version, handle, true, false)
	if left := server.Messages("jobs"); len(left) != 0 {
		t.Errorf("the message is still there: %v", left)
	}
}
