package dynamorecords

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"tenaq/internal/testing/proof"
	"tenaq/records"
)

var errLost = errors.New("the connection broke")

// A fault does with a request what it likes.
type fault func(req *http.Request) (*http.Response, error)

// answerLost has the request carried out and its answer lost.
func answerLost(req *http.Request) (*http.Response, error) {
	if _, err := send(req); err != nil {
		return nil, err
	}
	return nil, errLost
}

// failedAfter has the request carried out and answered with an error of the server.
func failedAfter(req *http.Request) (*http.Response, error) {
	if _, err := send(req); err != nil {
		return nil, err
	}
	return answer(req, http.StatusInternalServerError, "InternalServerError"), nil
}

// requestLost has nothing carried out.
func requestLost(*http.Request) (*http.Response, error) { return nil, errLost }

// throttled has nothing carried out, and the answer says so.
func throttled(req *http.Request) (*http.Response, error) {
	return answer(req, http.StatusBadRequest, "ThrottlingException"), nil
}

func answer(req *http.Request, status int, code string) *http.Response {
	return &http.Response{
		StatusCode: status,
		Header:     http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body:       io.NopCloser(strings.NewReader(`{"__type":"com.amazonaws.dynamodb.v20120810#` + code + `"}`)),
		Request:    req,
	}
}

// carriedOut is what a context may hold: how often the writes of a call were carried out.
type carriedOut struct{}

// send carries out a request, whole, so that it can be lost in any way afterwards.
func send(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if n, ok := req.Context().Value(carriedOut{}).(*atomic.Int64); ok && resp.StatusCode == http.StatusOK {
		n.Add(1)
	}
	return resp, nil
}

// RoundTrip makes a fault a transport.
func (f fault) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// openFaulty opens a table through a transport. The SDK repeats requests at once.
func openFaulty(t testing.TB, table string, f fault) *Store {
	return open(t, table, func(o *dynamodb.Options) {
		o.HTTPClient = &http.Client{Transport: f}
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxBackoff, o.RateLimiter = time.Millisecond, noLimit{}
		})
	})
}

type noLimit struct{}

func (noLimit) GetToken(context.Context, uint) (func() error, error) {
	return func() error { return nil }, nil
}
func (noLimit) AddTokens(uint) error { return nil }

// After the faults, the result of a call agrees with what it did.
func TestLostAnswers(t *testing.T) {
	table := newTable(t)
	plain := open(t, table)
	put := func(w records.Write) records.Version {
		t.Helper()
		r, err := plain.Put(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		return r.Version
	}
	remove := func(key string, version records.Version) {
		t.Helper()
		if err := plain.Delete(t.Context(), key, version); err != nil {
			t.Fatal(err)
		}
	}
	const ok, conflict, unknown = "ok", "conflict", "unknown"
	for _, tt := range []struct {
		what  string
		call  string // create, replace, stale or delete
		fault fault
		other string // what another process does meanwhile: create, replace or delete
		want  string
	}{
		{"answer lost", "create", answerLost, "", ok},
		{"answer lost", "replace", answerLost, "", ok},
		{"answer lost", "delete", answerLost, "", ok},
		{"answer lost", "stale", answerLost, "", conflict},
		{"failed after", "create", failedAfter, "", ok},
		{"failed after", "replace", failedAfter, "", ok},
		{"failed after", "delete", failedAfter, "", ok},
		{"request lost", "create", requestLost, "", ok},
		{"request lost", "replace", requestLost, "", ok},
		{"request lost", "delete", requestLost, "", ok},

		{"answer lost, then replaced", "create", answerLost, "replace", unknown},
		{"answer lost, then replaced", "replace", answerLost, "replace", unknown},
		{"answer lost, then deleted", "create", answerLost, "delete", unknown},
		{"answer lost, then deleted", "replace", answerLost, "delete", unknown},
		{"answer lost, then created", "delete", answerLost, "create", unknown},
		{"request lost, then replaced", "replace", requestLost, "replace", unknown},
		{"request lost, then created", "create", requestLost, "create", unknown},
		{"request lost, then replaced", "delete", requestLost, "replace", unknown},

		// The version tells that it was another process.
		{"request lost, then deleted", "replace", requestLost, "delete", conflict},
		{"request lost, then deleted", "delete", requestLost, "delete", conflict},

		{"throttled", "create", throttled, "", ok},
		{"throttled, then created", "create", throttled, "create", conflict},
		{"throttled, then replaced", "replace", throttled, "replace", conflict},
		{"throttled, then replaced", "delete", throttled, "replace", conflict},
		{"throttled, then deleted", "delete", throttled, "delete", conflict},
	} {
		key := tt.call + " " + tt.what
		var version records.Version
		if tt.call != "create" {
			version = put(records.Write{Key: key})
		}
		if tt.call == "stale" {
			put(records.Write{Key: key, If: version})
		}
		requests := 0
		s := openFaulty(t, table, func(req *http.Request) (*http.Response, error) {
			if requests++; requests > 1 {
				return send(req)
			}
			resp, err := tt.fault(req)
			there, _ := plain.Get(t.Context(), key)
			switch tt.other {
			case "create":
				put(records.Write{Key: key})
			case "replace":
				put(records.Write{Key: key, If: there.Version})
			case "delete":
				remove(key, there.Version)
			}
			return resp, err
		})
		var n atomic.Int64
		ctx := context.WithValue(t.Context(), carriedOut{}, &n)
		var wrote records.Record
		var err error
		if tt.call == "delete" {
			err = s.Delete(ctx, key, version)
		} else {
			wrote, err = s.Put(ctx, records.Write{Key: key, Value: []byte("v"), If: version})
		}
		var c *records.Conflict
		got := unknown
		if err == nil {
			got = ok
		} else if errors.As(err, &c) {
			got = conflict
		}
		if got != tt.want {
			t.Errorf("%s: %v, want %s", key, err, tt.want)
			continue
		}
		if got == ok && n.Load() != 1 || got == conflict && n.Load() != 0 {
			t.Errorf("%s: %s, and was carried out %d times", key, got, n.Load())
		}
		there, _ := plain.Get(t.Context(), key)
		if got == ok && there.Version != wrote.Version {
			t.Errorf("%s: version %d was written and %d is there", key, wrote.Version, there.Version)
		}
		if got == conflict && c.Current.Version != there.Version {
			t.Errorf("%s: told of version %d and %d is there", key, c.Current.Version, there.Version)
		}
	}
}

// Requests and answers are lost at random, and some requests arrive long after their callers have
// given up. A call that succeeded was carried out once, and one that got a conflict was never
// carried out.
func TestRandomFaults(t *testing.T) {
	table := newTable(t)
	rng := rand.New(rand.NewPCG(proof.Seed(t), 0))
	var mu sync.Mutex
	pick := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	var late sync.WaitGroup
	transport := func(req *http.Request) (*http.Response, error) {
		switch pick(10) {
		case 0:
			return requestLost(req)
		case 1:
			return throttled(req)
		case 2:
			return failedAfter(req)
		case 3, 4:
			return answerLost(req)
		case 5, 6:
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			req = req.Clone(context.WithoutCancel(req.Context()))
			req.Body = io.NopCloser(bytes.NewReader(body))
			wait := time.Duration(pick(20)) * time.Millisecond
			late.Go(func() {
				time.Sleep(wait)
				if _, err := send(req); err != nil {
					t.Error(err)
				}
			})
			return nil, errLost
		default:
			return send(req)
		}
	}

	type call struct {
		what string
		n    atomic.Int64
		err  error
	}
	const writers = 4
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	calls := make([][]call, writers)
	var group sync.WaitGroup
	for i := range writers {
		s := openFaulty(t, table, transport)
		ahead := time.Duration(pick(3)-1) * time.Second
		s.now = func() time.Time { return time.Now().Add(ahead) }
		calls[i] = make([]call, rounds)
		group.Go(func() {
			known := records.Version(0)
			for j := range calls[i] {
				c := &calls[i][j]
				ctx := context.WithValue(t.Context(), carriedOut{}, &c.n)
				var r records.Record
				if known != 0 && pick(3) == 0 {
					c.what = fmt.Sprintf("delete %d", known)
					c.err = s.Delete(ctx, "a", known)
				} else {
					c.what = fmt.Sprintf("put if %d", known)
					r, c.err = s.Put(ctx, records.Write{Key: "a", If: known})
				}
				var conflict *records.Conflict
				switch {
				case errors.As(c.err, &conflict):
					known = conflict.Current.Version
				case c.err == nil:
					known = r.Version // zero after a delete
				default:
					r, _ := s.Get(t.Context(), "a")
					known = r.Version
				}
			}
		})
	}
	group.Wait()
	late.Wait()
	outcomes := map[string]int{}
	for _, calls := range calls {
		for i := range calls {
			c := &calls[i]
			var conflict *records.Conflict
			n, what := c.n.Load(), "unknown"
			switch {
			case c.err == nil:
				what = "ok"
			case errors.As(c.err, &conflict):
				what = "conflict"
			}
			outcomes[fmt.Sprintf("%s, carried out %d times", what, n)]++
			if what == "ok" && n != 1 || what == "conflict" && n != 0 || n > 1 {
				t.Errorf("%s: %s, and was carried out %d times", c.what, what, n)
			}
		}
	}
	t.Log(outcomes)
}
