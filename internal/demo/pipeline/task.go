package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// What a task can say by its exit code, see pipe.Command.
const (
	exitFailed = 1
	exitPoison = 65
	exitLater  = 75
)

// An outcome is an error with the exit code that says what is to become of the message.
type outcome struct {
	code int
	err  error
}

func (o *outcome) Error() string { return o.err.Error() }

// A task is the process that is started for one message: it downloads the file, decrypts it in memory, and
// writes it.
type task struct {
	*Settings
	history *history
	file    string
	key     string // the effect key, under which the file is written
}

// Do is the process of a task. It returns its exit code, and an error unless that is zero.
func (s *Settings) Do(ctx context.Context, body io.Reader) (code int, err error) {
	err = s.do(ctx, body)
	var o *outcome
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &o):
		return o.code, err
	}
	return exitFailed, err
}

func (s *Settings) do(ctx context.Context, body io.Reader) error {
	var r request
	if err := json.NewDecoder(body).Decode(&r); err != nil {
		return &outcome{exitPoison, fmt.Errorf("the body is none: %w", err)}
	}
	h, err := openHistory(s.historyFile())
	if err != nil {
		return err
	}
	defer h.close()
	t := &task{Settings: s, history: h, file: r.FileID, key: os.Getenv("TENAQ_EFFECT_KEY")}
	encrypted, err := t.download(ctx)
	if err != nil {
		return err
	}
	text, err := decrypt(s.Secret, t.file, encrypted)
	if err != nil {
		// Perhaps it was damaged on its way. Another download is worth an attempt.
		return fmt.Errorf("%s cannot be decrypted: %w", t.file, err)
	}
	if err := t.write(text); err != nil {
		return err
	}
	s.dieAt(afterWrite, t.file, h)
	return nil
}

// download reads the file as it comes.
func (t *task) download(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.Source+"/"+t.file, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, &outcome{exitLater, fmt.Errorf("%s is not there yet", t.file)}
	case http.StatusGone:
		return nil, &outcome{exitPoison, fmt.Errorf("%s was withdrawn", t.file)}
	default:
		return nil, fmt.Errorf("download %s: %s", t.file, resp.Status)
	}
	var encrypted bytes.Buffer
	if _, err := io.CopyN(&encrypted, resp.Body, resp.ContentLength*int64(t.Plan.Deaths[t.file].Share)/100); err != nil {
		return nil, fmt.Errorf("download %s: %w", t.file, err)
	}
	t.dieAt(amidTask, t.file, t.history)
	if t.dies(amidWorker, t.file) {
		resp.Body.Close()
		fmt.Println(lastWords)
		time.Sleep(10 * time.Second) // the kernel ends this process with the worker
		return nil, errors.New("the worker is alive")
	}
	if _, err := io.Copy(&encrypted, resp.Body); err != nil {
		return nil, fmt.Errorf("download %s: %w", t.file, err)
	}
	return encrypted.Bytes(), nil
}

// write puts the file in its place, whole or not at all, unless it is there. Its name is the effect key, so a task
// that does not know of an earlier one comes to the same place.
func (t *task) write(text []byte) error {
	part, err := os.CreateTemp(filepath.Join(t.Dir, "parts"), t.key)
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	_, err = part.Write(text)
	if err == nil {
		err = part.Sync()
	}
	if err := errors.Join(err, part.Close()); err != nil {
		return err
	}
	out := t.outFile(t.key)
	switch err = os.Link(part.Name(), out); {
	case err == nil:
		t.history.note(event{What: wrote, File: t.file})
		return syncDir(filepath.Dir(out))
	case errors.Is(err, os.ErrExist):
		return t.compare(out, text)
	}
	return err
}

// compare finds out whether what is there is what would have been written.
func (t *task) compare(out string, text []byte) error {
	there, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	if !bytes.Equal(there, text) {
		return &outcome{exitPoison, fmt.Errorf("%s is there already, and is another file", t.key)}
	}
	t.history.note(event{What: found, File: t.file})
	return nil
}

// syncDir makes a new name durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
