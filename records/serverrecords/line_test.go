package serverrecords_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"tenaq/records"
	"tenaq/records/serverrecords"
)

// A slowServer answers each request after a second, unless its context ends, with what answer makes
// of its keys.
type slowServer struct {
	answer func(keys []string) string

	mu       sync.Mutex
	requests [][]string // the keys of each
	ended    int        // requests that were given up
}

func (s *slowServer) Do(r *http.Request) (*http.Response, error) {
	var in struct{ Writes []struct{ Key string } }
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, w := range in.Writes {
		keys = append(keys, w.Key)
	}
	s.mu.Lock()
	s.requests = append(s.requests, keys)
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-r.Context().Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended++
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	w.Header().Set("Tenaq-Api", "1")
	fmt.Fprint(w, s.answer(keys))
	return w.Result(), nil
}

// written says that all keys were written.
func written(keys []string) string {
	text := ""
	for i, key := range keys {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(`{"record":{"key":%q,"version":7,"ageMs":0}}`, key)
	}
	return `{"results":[` + text + `]}`
}

func (s *slowServer) store(t *testing.T) *serverrecords.Store {
	t.Helper()
	return open(t, sqs.New(sqs.Options{Region: "us-east-1", HTTPClient: s, BaseEndpoint: aws.String("http://queue.test")}))
}

// Writes that come while a request is in progress share the next ones. One whose context ends
// before that is in none, and each of the others has its own outcome.
func TestWritesShareRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &slowServer{answer: written}
		s := server.store(t)
		var writers sync.WaitGroup
		put := func(ctx context.Context, key string, want error) {
			writers.Go(func() {
				got, err := s.Put(ctx, records.Write{Key: key, Value: []byte(key)})
				if !errors.Is(err, want) || err == nil && (got.Key != key || string(got.Value) != key || got.Version != 7) {
					t.Errorf("put %s: got %+v, %v, want %v", key, got, err, want)
				}
			})
		}
		put(t.Context(), "first", nil)
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		put(gone, "gone", context.Canceled)
		synctest.Wait()
		cancel()
		synctest.Wait()
		for i := range 40 {
			put(t.Context(), fmt.Sprint("k", i), nil)
		}
		writers.Wait()
		n := 0
		for _, keys := range server.requests {
			n += len(keys)
			if slices.Contains(keys, "gone") {
				t.Error("a write was made whose context had ended")
			}
		}
		if got := len(server.requests); n != 41 || got > 4 {
			t.Errorf("%d writes in %d requests, want 41 in 4 at most", n, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A request ends when no caller waits for it any more, and not before.
func TestRequestIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &slowServer{answer: written}
		s := server.store(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := s.Put(ctx, records.Write{Key: "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err := s.Close(); err != nil || server.ended != 1 {
			t.Errorf("%d requests were given up, want 1; %v", server.ended, err)
		}
	})
}

// A refusal of one write is the error of that write, with the code of the server.
func TestRefusedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &slowServer{answer: func([]string) string {
			return `{"results":[{"error":{"status":429,"code":"RequestThrottled","message":"Request is throttled."}}]}`
		}}
		s := server.store(t)
		_, err := s.Put(t.Context(), records.Write{Key: "a"})
		if refusal, ok := errors.AsType[smithy.APIError](err); !ok || refusal.ErrorCode() != "RequestThrottled" {
			t.Errorf("got %v", err)
		}
		server.answer = func([]string) string { return `{"results":[]}` }
		if err := s.Delete(t.Context(), "a", 1); err == nil {
			t.Error("an answer without a result was taken for one")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
