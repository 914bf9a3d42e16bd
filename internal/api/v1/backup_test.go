package v1

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A halfBackup fails after it has written something.
type halfBackup struct {
	err    error
	closed bool
}

func (b *halfBackup) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, strings.Repeat("x", 10_000))
	return int64(n), errors.Join(err, b.err)
}

func (b *halfBackup) Close() error { b.closed = true; return nil }

// A backup that cannot be finished does not end as one that can: the connection is cut. [DUR-31]
func TestBackupIsCutOff(t *testing.T) {
	h := &Handler{cfg: Config{Logger: slog.New(slog.DiscardHandler)}}
	for _, failure := range []error{nil, errors.New("the disk is broken")} {
		b := &halfBackup{err: failure}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if (tarball{b}).stream(h, w) == clientGone {
				panic(http.ErrAbortHandler)
			}
		}))
		resp, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if (err == nil) != (failure == nil) || failure == nil && len(got) != 10_000 {
			t.Errorf("a backup that ends with %v: the client reads %d bytes and %v", failure, len(got), err)
		}
		if resp.Header.Get("Tenaq-Api") != "1" || resp.Header.Get("Content-Type") != "application/x-tar" {
			t.Errorf("headers: %v", resp.Header)
		}
		s.Close()
		if !b.closed {
			t.Error("the backup was not closed")
		}
	}
}

// A deadlineWriter notes until when it may write.
type deadlineWriter struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (w *deadlineWriter) SetWriteDeadline(until time.Time) error { w.until = until; return nil }

// Each write has its own two minutes, however long the backup takes. [DUR-30]
func TestBackupWaitsForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}
		p := &patient{w, http.NewResponseController(w)}
		for range 5 {
			time.Sleep(time.Hour)
			if _, err := p.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if left := time.Until(w.until); left != 2*time.Minute {
				t.Errorf("the write may take %v, want 2m", left)
			}
		}
	})
}
