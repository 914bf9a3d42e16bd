package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/internal/dynamotest"
)

// The pipeline needs nothing of the server that another SQS has not. moto stands for the others.
func TestPipelineOnAnotherSQS(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	t.Parallel()
	moto, err := url.Parse(*dynamotest.Client(t).Options().BaseEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&patient{moto})
	defer front.Close()
	program, err := exec.LookPath("tenaq") // which TestMain has made
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "demo", "pipeline", "--seed", "7", "--endpoint-url", front.URL).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A patient server stands in front of moto, which carries out one request at a time: it takes long polls apart, so that
// one which waits holds up nobody.
type patient struct{ moto *url.URL }

func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var until time.Time
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ReceiveMessage") {
		var in map[string]any
		if err := json.Unmarshal(body, &in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		seconds, _ := in["WaitTimeSeconds"].(float64)
		until = time.Now().Add(time.Duration(seconds) * time.Second)
		in["WaitTimeSeconds"] = 0
		body, _ = json.Marshal(in)
	}
	for {
		answer := p.carry(r, body)
		if time.Now().After(until) || bytes.Contains(answer.Body.Bytes(), []byte("ReceiptHandle")) || r.Context().Err() != nil {
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
			return
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// carry has moto answer a request.
func (p *patient) carry(r *http.Request, body []byte) *httptest.ResponseRecorder {
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer := httptest.NewRecorder()
	proxy := httputil.NewSingleHostReverseProxy(p.moto)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // clients that are killed go away in the middle
	proxy.ServeHTTP(answer, again)
	return answer
}

// The example declares its queues as they can be declared.
func TestPipelineExampleQueues(t *testing.T) {
	file, err := readConfigFile("../../examples/pipeline/tenaq.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, q := range file.queues {
		names = append(names, q.Name)
	}
	if want := []string{"data-download-queue.fifo", "data-download-dlq.fifo"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}
