package sqs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// ErrBackupRunning refuses a backup while another one is being read.
var ErrBackupRunning = errors.New("a backup is being taken already")

// A Backup is a copy of everything, as it was when it was begun.
type Backup interface {
	io.WriterTo // once
	io.Closer
}

// backupPause is how long a client may read nothing of a backup: what it holds back cannot be removed meanwhile.
const backupPause = 2 * time.Minute

var errV1BackupRunning = &v1Error{http.StatusTooManyRequests, "BackupInProgress",
	"A backup is being taken already. Only one can be at a time: try again when it is done."}

// v1Backup answers POST /v1/backup with a stream. It is of all accounts; as with alarms,
// only keys of the server's own are let to it. [DUR-30]
func (c *call) v1Backup(string) (v1Answer, error) {
	if q := c.query(); q.err != nil {
		return v1Answer{}, q.err
	}
	backup, err := c.h.cfg.Backup(c.Context)
	if errors.Is(err, ErrBackupRunning) {
		return v1Answer{}, errV1BackupRunning
	}
	return v1Answer{stream: backup}, err
}

// streamV1 answers with a backup. Where it cannot be finished the connection is cut, so that nobody takes it for whole.
func (h *Handler) streamV1(w http.ResponseWriter, e *attempt, backup Backup) {
	header := w.Header()
	header.Set(v1Header, "1")
	header.Set("Content-Type", "application/x-tar")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // that of a request would end it in the middle
	_, err := backup.WriteTo(&patient{w, control})
	if closed := backup.Close(); closed != nil {
		h.cfg.Logger.Warn("backup not removed", "error", closed)
	}
	if err == nil {
		e.ends("")
		return
	}
	if !errors.Is(err, context.Canceled) {
		h.cfg.Logger.Warn("backup not finished", "error", err)
	}
	e.ends("ClientGone")
	panic(http.ErrAbortHandler)
}

// A patient writer gives each write its own time, since nobody knows how long all of them take.
type patient struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (p *patient) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(backupPause)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return p.w.Write(b)
}
