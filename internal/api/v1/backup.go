package v1

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// ErrBackupRunning refuses a backup while another one is being read.
var ErrBackupRunning = errors.New("a backup is already in progress")

// A Backup is a copy of the whole store, as it was when the backup began.
type Backup interface {
	io.WriterTo // once
	io.Closer
}

// backupPause is how long a client may read nothing of a backup. The store cannot remove the files
// of a running backup.
const backupPause = 2 * time.Minute

var errBackupRunning = &Error{http.StatusTooManyRequests, "BackupInProgress",
	"A backup is already in progress: try again when it is done."}

// A tarball is a backup as an answer.
type tarball struct{ Backup }

func (tarball) kind() string { return "application/x-tar" }

// backup answers POST /v1/backup with a stream. The backup is of all accounts. [DUR-30]
func (c *call) backup(none) (tarball, error) {
	b, err := c.cfg.Backup(c.Context)
	if errors.Is(err, ErrBackupRunning) {
		return tarball{}, errBackupRunning
	}
	return tarball{b}, err
}

// stream answers with a backup. If the backup cannot be finished, the connection is cut, so that
// the client cannot take the part for the whole. It returns the code under which the request is
// counted.
func (b tarball) stream(h *Handler, w http.ResponseWriter) (code string) {
	setHeader(w, b.kind())
	control := http.NewResponseController(w)
	// the one of the request would end the stream in the middle
	_ = control.SetReadDeadline(time.Time{})
	_, err := b.WriteTo(&patient{w, control})
	if closed := b.Close(); closed != nil {
		h.cfg.Logger.Warn("backup not removed", "error", closed)
	}
	if err == nil {
		// for the end, which may come long after the last part
		_ = control.SetWriteDeadline(time.Now().Add(backupPause))
		return ""
	}
	if !errors.Is(err, context.Canceled) {
		h.cfg.Logger.Warn("backup not finished", "error", err)
	}
	return clientGone
}

// A patient writer gives each write its own deadline, because the time for all of them is unknown.
type patient struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (p *patient) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(backupPause)); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return p.w.Write(b)
}
