package pipeline

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A source is the server from which the files are downloaded. It is slow, so that things can happen meanwhile.
type source struct {
	url    string
	secret []byte
	plan   plan
	texts  map[string][]byte // what is in the files, by id
	server *http.Server

	met     chan struct{} // closed when all files of the kind together are being downloaded
	meeting sync.Once

	mu     sync.Mutex
	asked  map[string]int // how often a file was asked for
	active map[string]int // downloads that are under way, by group
	most   map[string]int // of them at once
}

// Sizes and times of the source.
const (
	fileSize  = 64 << 10
	chunks    = 16
	chunkTime = 15 * time.Millisecond
	metMax    = time.Minute // longer than the other one can have to wait for a worker
	notYetFor = 2           // requests
)

func newSource(p plan) (*source, error) {
	s := &source{
		plan: p, secret: make([]byte, 32), texts: make(map[string][]byte), met: make(chan struct{}),
		asked: make(map[string]int), active: make(map[string]int), most: make(map[string]int),
	}
	rand.Read(s.secret)
	for _, f := range p.Files {
		text := make([]byte, fileSize)
		rand.Read(text)
		s.texts[f.ID] = text
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.url = "http://" + l.Addr().String()
	s.server = &http.Server{Handler: s}
	go s.server.Serve(l)
	return s, nil
}

func (s *source) close() { s.server.Close() }

// ServeHTTP answers a download.
func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := s.plan.file(r.URL.Path[1:])
	if !ok {
		http.Error(w, "no such file", http.StatusForbidden)
		return
	}
	asked := s.begin(f)
	defer s.end(f)
	switch f.Kind {
	case withdrawn:
		w.WriteHeader(http.StatusGone)
		return
	case notYet:
		if asked <= notYetFor {
			w.WriteHeader(http.StatusNotFound)
			return
		}
	case together:
		s.meet(r.Context())
	}
	encrypted, err := encrypt(s.secret, f.ID, s.texts[f.ID])
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if f.Kind == damaged {
		encrypted[len(encrypted)/2] ^= 1
	}
	stream(r.Context(), w, encrypted)
}

// stream writes slowly, until the client is gone.
func stream(ctx context.Context, w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	for n := range chunks {
		if _, err := w.Write(text[len(text)*n/chunks : len(text)*(n+1)/chunks]); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-ctx.Done():
			return
		case <-time.After(chunkTime):
		}
	}
}

// begin counts a download, and returns how often the file has been asked for.
func (s *source) begin(f file) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[f.ID]++
	s.active[f.Group]++
	s.most[f.Group] = max(s.most[f.Group], s.active[f.Group])
	if f.Kind == together && s.allActive(together) {
		s.meeting.Do(func() { close(s.met) })
	}
	return s.asked[f.ID]
}

func (s *source) end(f file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[f.Group]--
}

// allActive reports whether all files of a kind are being downloaded. Each is a group of its own.
func (s *source) allActive(k kind) bool {
	for _, f := range s.plan.Files {
		if f.Kind == k && s.active[f.Group] == 0 {
			return false
		}
	}
	return true
}

// meet waits until all files that are to go together are being downloaded: a pipeline that works on one group at a
// time would wait in vain.
func (s *source) meet(ctx context.Context) {
	select {
	case <-s.met:
	case <-ctx.Done():
	case <-time.After(metMax):
	}
}

// mostOf is how many downloads of a group there were at once.
func (s *source) mostOf(group string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most[group]
}

// hasMet reports whether files of different groups were downloaded at the same time.
func (s *source) hasMet() bool {
	select {
	case <-s.met:
		return true
	default:
		return false
	}
}

// encrypt seals a text under the name of its file.
func encrypt(secret []byte, name string, text []byte) ([]byte, error) {
	aead, err := newAEAD(secret)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, text, []byte(name)), nil
}

func decrypt(secret []byte, name string, encrypted []byte) ([]byte, error) {
	aead, err := newAEAD(secret)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nil, encrypted, []byte(name))
}

// newAEAD is AES-GCM with the nonce in front of what is sealed.
func newAEAD(secret []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
