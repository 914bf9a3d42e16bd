package pipeline

import (
	"crypto/rand"
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
	played map[string]bool
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
func newSource(p *play, dir string) (*source, error) {
	s := &source{
		p: p, texts: make(map[string]string), asked: make(map[string]int),
		active: make(map[string]int),
		played: make(map[string]bool),
	}
	p.out.Most = make(map[string]int)
	for _, f := range p.files {
		text := make([]byte, fileSize)
		_, _ = rand.Read(text)
		s.texts[f.ID] = string(text)
		if err := os.WriteFile(filepath.Join(dir, f.ID), text, 0o600); err != nil {
			return nil, err
		}
	}
	for _, f := range p.files {
		p.crew.Mux.HandleFunc("GET /"+f.ID, func(w http.ResponseWriter, r *http.Request) {
			s.serve(f, w, r)
		})
	}
	return s, nil
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
		s.p.crew.Do(func() { s.p.crew.Wait(metMax, func() bool { return s.allActive(together) }) })
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	for n := range chunks {
		if n == chunks*f.Share/100 {
			s.p.amid(f)
		}
		if _, err := w.Write([]byte(text[len(text)*n/chunks : len(text)*(n+
			1)/chunks])); err != nil || r.Context().Err() != nil {
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
	s.p.crew.Do(func() {
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
	for _, f := range s.p.files {
		if f.Kind == k && s.active[f.Group] == 0 {
			return false
		}
	}
	return true
}

// plays reports whether a death of a file is due, and takes it for done.
func (s *source) plays(f file, d death) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.played[f.ID]
	s.played[f.ID] = was || f.Death == d
	return f.Death == d && !was
}

// on takes a report, and kills its author where the plan says so. The crew's mutex is locked.
func (p *play) on(r stage.Report) {
	f := p.file(r.Key)
	switch {
	case r.Point == pointSending && p.source.plays(f, beforeSend):
		if f.ID == fileUnsent {
			p.crew.Kill(r.From, string(beforeSend), f.ID)
		} else {
			p.crew.KillForGood(r.From, string(beforeSend), f.ID)
		}
	case r.Point == pointReceived && p.source.plays(f, beforeClaim):
		p.crew.Kill(r.From, string(beforeClaim), f.ID)
	case r.Point == pointCompleted && p.source.plays(f, afterComplete):
		p.crew.Kill(r.From, string(afterComplete), f.ID)
	case r.Point == pointWrote && p.source.plays(f, afterWrite):
		p.crew.KillPID(r, string(afterWrite))
	}
}

// amid kills in the middle of a download: the task, or the worker that has started it.
func (p *play) amid(f file) {
	p.crew.Do(func() {
		if p.source.plays(f, amidTask) {
			for _, r := range p.crew.Seen(pointDownload) {
				if r.Key == f.ID {
					p.crew.KillPID(r, string(amidTask))
				}
			}
		}
		if p.source.plays(f, amidWorker) {
			holder := ""
			for _, r := range p.crew.Seen(pointStarted) {
				if r.Key == f.ID {
					holder = r.From
				}
			}
			p.crew.Kill(holder, string(amidWorker), f.ID)
		}
	})
}

// file finds a file by its id.
func (p *play) file(id string) (f file) {
	for _, one := range p.files {
		if one.ID == id {
			f = one
		}
	}
	return f
}
