package pipeline

import (
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"tenaq/cmd/tenaq/demo/stage"
)

// A source is the server of the files. It is slow, and it is where processes die in the middle of a
// download.
type source struct {
	p     *play
	texts map[string]string // what is in the files, by id

	mu     sync.Mutex
	asked  map[string]int // how often a file was asked for
	active map[string]int // downloads under way, by group
}

// Sizes and times of the source.
const (
	fileSize  = 48 << 10
	chunks    = 12
	chunkTime = 15 * time.Millisecond
	metMax    = 20 * time.Second // longer than the other file can have to wait for a worker
	notYetFor = 2                // requests
)

// newSource makes the originals and serves them.
func newSource(p *play, dir string) *source {
	s := &source{
		p: p, texts: make(map[string]string), asked: make(map[string]int),
		active: make(map[string]int),
	}
	for _, f := range p.out.Files {
		text := make([]byte, fileSize)
		_, _ = rand.Read(text)
		s.texts[f.ID] = string(text)
		p.Must(os.WriteFile(filepath.Join(dir, f.ID), text, 0o600))
		p.Mux.HandleFunc("GET /"+f.ID, func(w http.ResponseWriter, r *http.Request) {
			s.serve(f, w, r)
		})
	}
	return s
}

func (s *source) serve(f file, w http.ResponseWriter, r *http.Request) {
	text := s.texts[f.ID]
	asked := s.begin(f)
	defer s.end(f)
	switch {
	case f.Kind == withdrawn:
		w.WriteHeader(http.StatusGone)
		return
	case f.Kind == notYet && asked <= notYetFor:
		w.WriteHeader(http.StatusNotFound)
		return
	case f.Kind == damaged:
		text = strings.Repeat("x", len(text))
	case f.Kind == together: // a pipeline that works on one group at a time would wait in vain
		s.p.Do(func() { s.p.Wait(metMax, func() bool { return s.allActive(together) }) })
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	for n := range chunks {
		if n == chunks*f.Share/100 {
			s.p.amid(f)
		}
		chunk := text[len(text)*n/chunks : len(text)*(n+1)/chunks]
		if _, err := io.WriteString(w, chunk); err != nil || r.Context().Err() != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		stage.Pause(r.Context(), chunkTime)
	}
}

// begin counts a download, and returns how often the file has been asked for.
func (s *source) begin(f file) int {
	s.mu.Lock()
	s.asked[f.ID]++
	s.active[f.Group]++
	asked, active := s.asked[f.ID], s.active[f.Group]
	s.mu.Unlock()
	s.p.Do(func() {
		s.p.out.Most[f.Group] = max(s.p.out.Most[f.Group], active)
		if f.Kind == together && s.allActive(together) {
			s.p.out.Met = true
		}
	})
	return asked
}

func (s *source) end(f file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[f.Group]--
}

// allActive reports whether all files of a kind are being downloaded, or have been. Each is a group
// of its own.
func (s *source) allActive(k kind) bool {
	if s.p.out.Met {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.p.out.Files {
		if f.Kind == k && s.active[f.Group] == 0 {
			return false
		}
	}
	return true
}

// amid reports the middle of a download, of the process that is to die there.
func (p *play) amid(f file) {
	if at := map[death]string{amidTask: pointDownload, amidWorker: stage.Begun}[f.Death]; at != "" {
		var r stage.Report
		p.Do(func() { r = p.Last(at, f.ID) })
		r.Point = string(f.Death)
		p.Take(r)
	}
}
