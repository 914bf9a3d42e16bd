// Package admin tells machines how the server is: whether it is alive, whether it should be given
// requests, and, in the words that existing compose files ask with, that its queues are running.
//
// Alive means that the writer and the disk have finished a turn lately; a server that is not should be
// restarted. Ready means alive, not stopping and willing to take sends; one that is not should be left
// alone for a while. Neither looks at anything outside the process.
package v1

import (
	"encoding/json"
	"net/http"
	"time"
)

// Config says what the answers are made of.
type Config struct {
	// Silence is how long ago the last turn reached the disk.
	Silence func() time.Duration

	// Trouble is why the server should not be given requests although it is alive; empty for nothing.
	Trouble func() string

	Version string

	// Metrics answers /metrics; nothing does when nil.
	Metrics http.Handler

	// Front answers /; nothing does when nil.
	Front http.HandlerFunc
}

// silenceMax is the silence beyond which the writer counts as stuck. Turns happen every five seconds at
// least.
const silenceMax = 15 * time.Second

// New returns the handler of the admin address: /livez and /readyz, which answer 200 with "ok" or 503
// with one sentence, /metrics, and / with a page for people.
func New(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { say(w, cfg.stuck()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		trouble := cfg.stuck()
		if trouble == "" {
			trouble = cfg.Trouble()
		}
		say(w, trouble)
	})
	if cfg.Metrics != nil {
		mux.Handle("GET /metrics", cfg.Metrics)
	}
	if cfg.Front != nil {
		mux.HandleFunc("GET /{$}", cfg.Front)
	}
	return mux
}

func (c *Config) stuck() string {
	if s := c.Silence(); s > silenceMax {
		return "no turn has reached the disk for " + s.Round(time.Second).String() +
			": look at the disk's latency, then restart the server"
	}
	return ""
}

func say(w http.ResponseWriter, trouble string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if trouble != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write([]byte(trouble + "\n"))
		return
	}
	w.Write([]byte("ok\n"))
}

// LocalStackHealth answers as LocalStack's health page does, for compose files and scripts that wait for
// it before they use SQS.
func LocalStackHealth(cfg Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		state := "running"
		if cfg.stuck() != "" || cfg.Trouble() != "" {
			state = "error"
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{
			"services": map[string]string{"sqs": state},
			"edition":  "tenaq",
			"version":  cfg.Version,
		})
	})
}
