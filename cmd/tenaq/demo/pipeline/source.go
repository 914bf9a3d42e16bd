package pipeline

import (
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tenaq/cmd/tenaq/demo/stage"
)

// A source serves the files, slowly. It reports the middle of a download, where processes die. The
// crew's mutex guards its counts.
type source struct {
	*play
	texts  map[string]string // what is in the files, by id
	asked  map[string]int    // how often a file was asked for
	active map[string]int    // downloads under way, by group
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
	s := &source{p, make(map[string]string), make(map[string]int), make(map[string]int)}
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
	text, asked := s.texts[f.ID], 0
	s.Do(func() {
		s.begin(f)
		asked = s.asked[f.ID]
	})
	defer s.Do(func() { s.active[f.Group]-- })
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
		s.Do(func() { s.Wait(metMax, func() bool { return s.out.Met }) })
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	for n := range chunks {
		if n == chunks*f.Share/100 {
			s.amid(f)
		}
		chunk := text[len(text)*n/chunks : len(text)*(n+1)/chunks]
		if _, err := io.WriteString(w, chunk); err != nil || r.Context().Err() != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		stage.Pause(r.Context(), chunkTime)
	}
}

// begin counts a download. Files that are to meet have met when each of them is being downloaded.
func (s *source) begin(f file) {
	s.asked[f.ID]++
	s.active[f.Group]++
	s.out.Most[f.Group] = max(s.out.Most[f.Group], s.active[f.Group])
	s.out.Met = s.out.Met || !slices.ContainsFunc(s.out.Files, func(f file) bool {
		return f.Kind == together && s.active[f.Group] == 0
	})
}

// amid reports the middle of a download on behalf of the process that is to die there.
func (s *source) amid(f file) {
	if at := map[death]string{amidTask: pointDownload, amidWorker: stage.Begun}[f.Death]; at != "" {
		var r stage.Report
		s.Do(func() { r = s.Last(at, f.ID) })
		r.Point = string(f.Death)
		s.Take(r)
	}
}
