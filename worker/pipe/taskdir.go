package pipe

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"tenaq/claims"
	"tenaq/worker"
)

// A taskDir is the directory of one task, for the files through which it and the worker speak. Only
// this user can read it: bodies and attributes are nobody else's business.
type taskDir string

// newTaskDir makes the directory and puts down what the task is told.
func newTaskDir(m *worker.Message) (taskDir, error) {
	about := metadataOf(m)
	about.Attributes = attributesOf(m)
	text, err := encode(about)
	if err != nil {
		return "", err
	}
	path, err := os.MkdirTemp("", "tenaq-task-*")
	if err != nil {
		return "", err
	}
	d := taskDir(path)
	if err := os.WriteFile(d.metadata(), text, 0o600); err != nil {
		d.remove()
		return "", err
	}
	return d, nil
}

// checkTaskDir reports why no directory of a task could be made.
func checkTaskDir() error {
	path, err := os.MkdirTemp("", "tenaq-task-*")
	if err == nil {
		d := taskDir(path)
		err = os.WriteFile(d.metadata(), []byte("{}"), 0o600)
		d.remove()
	}
	if err == nil {
		return nil
	}
	why := err
	var failed *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = errors.New("there is no such directory")
	case errors.Is(err, fs.ErrPermission):
		why = errors.New("this user may not write to it")
	case errors.As(err, &failed):
		why = failed.Err
	}
	return fmt.Errorf("cannot put the files of tasks into %s: %w: set TMPDIR to a directory that this user can write to", os.TempDir(), why)
}

func (d taskDir) metadata() string { return filepath.Join(string(d), "metadata.json") }
func (d taskDir) result() string   { return filepath.Join(string(d), "result") }

// environment tells the task where the files are.
func (d taskDir) environment() []string {
	return []string{"TENAQ_METADATA_FILE=" + d.metadata(), "TENAQ_RESULT_FILE=" + d.result()}
}

// takeResult makes what the task wrote the result of the message. A task need not write any.
func (d taskDir) takeResult(m *worker.Message) error {
	// A pipe put there in place of the file would never end.
	info, err := os.Stat(d.result())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("the task succeeded, but its result cannot be read: %w", err)
	case !info.Mode().IsRegular():
		return errors.New("the task succeeded, but what it left as its result is no file")
	}
	f, err := os.Open(d.result())
	if err != nil {
		return fmt.Errorf("the task succeeded, but its result cannot be read: %w", err)
	}
	defer f.Close()
	result, err := io.ReadAll(io.LimitReader(f, claims.ResultMax+1))
	switch {
	case err != nil:
		return fmt.Errorf("the task succeeded, but its result cannot be read: %w", err)
	case len(result) > claims.ResultMax:
		return fmt.Errorf("the task succeeded, but its result has more than %d bytes: keep it elsewhere and make its name the result", claims.ResultMax)
	case len(result) > 0:
		return m.SetResult(result)
	}
	return nil
}

// remove removes the directory. What a task put there that cannot be removed stays, and nobody
// could do more.
func (d taskDir) remove() { _ = os.RemoveAll(string(d)) }
