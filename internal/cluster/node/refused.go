package node

import (
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"
)

// A refusals logs why connections of other ends did not come about, once a minute for each end.
type refusals struct {
	log  *slog.Logger
	mu   sync.Mutex
	said map[string]time.Time // by the address without the port
}

const (
	refusedEvery = time.Minute
	refusedMax   = 1000 // ends that are remembered
)

// note is wire.Config.Refused.
func (r *refusals) note(from net.Addr, err error) {
	if err == io.EOF || errors.Is(err, net.ErrClosed) {
		return // the end has said nothing, as probes of a port do, or this node stops
	}
	host := ""
	if from != nil {
		host, _, _ = net.SplitHostPort(from.String())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.said, func(_ string, at time.Time) bool {
		return now.Sub(at) >= refusedEvery
	})
	if _, ok := r.said[host]; ok || len(r.said) >= refusedMax {
		return
	}
	r.said[host] = now
	r.log.Warn("connection of another node refused", "address", host, "error", err)
}
