package v1

import (
	"encoding/json"
	"net/http"
	"time"
)

// Health configures the health pages. Alive means that the writer and the disk have finished a turn
// lately; a server that is not alive should be restarted. Ready means alive, not stopping and
// willing to take sends; a server that is not ready should get no requests for a while. Neither
// depends on anything outside the process.
type Health struct {
	// Silence returns how long ago the last turn reached the disk.
	Silence func() time.Duration

	// Trouble returns why the server should get no requests although it is alive; empty when it
	// should.
	Trouble func() string

	Version string

	// Metrics answers /metrics; nil disables it.
	Metrics http.Handler

	// Front answers /; nil disables it.
	Front http.HandlerFunc
}

// silenceMax is the silence after which the writer counts as stuck. There is a turn at least every
// five seconds.
const silenceMax = 15 * time.Second

// Admin returns the handler of the admin address: /livez and /readyz, which answer 200 with "ok" or
// 503 with one sentence, /metrics, and / with a page for people.
func Admin(cfg Health) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		say(w, cfg.Stuck())
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		trouble := cfg.Stuck()
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

// Stuck returns why the server is not alive; empty when it is.
func (c *Health) Stuck() string {
	if s := c.Silence(); s > silenceMax {
		return "no turn has reached the disk for " + s.Round(time.Second).String() +
			": check the latency of the disk, then restart the server"
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

// LocalStackHealth answers like LocalStack's health page, for compose files and scripts that wait
// for it before they use SQS.
func LocalStackHealth(cfg Health) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		state := "running"
		if cfg.Stuck() != "" || cfg.Trouble() != "" {
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
