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

// A taskDir is the directory for the files that one task and the worker exchange. Only this user
// can read it.
type taskDir string

// newTaskDir creates the directory and writes the metadata.
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

// checkTaskDir returns an error if no directory of a task can be created.
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
	return fmt.Errorf("cannot write the files of tasks to %s: %w: set TMPDIR to a directory that this user can write to", os.TempDir(), why)
}

func (d taskDir) metadata() string { return filepath.Join(string(d), "metadata.json") }
func (d taskDir) result() string   { return filepath.Join(string(d), "result") }

// environment returns the variables with the names of the files.
func (d taskDir) environment() []string {
	return []string{"TENAQ_METADATA_FILE=" + d.metadata(), "TENAQ_RESULT_FILE=" + d.result()}
}

// takeResult sets the result of the message, if the task wrote one.
func (d taskDir) takeResult(m *worker.Message) error {
	// A pipe put there in place of the file would never end.
	info, err := os.Stat(d.result())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("the task succeeded, but its result cannot be read: %w", err)
	case !info.Mode().IsRegular():
		return errors.New("the task succeeded, but its result is not a regular file")
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
		return fmt.Errorf("the task succeeded, but its result has more than %d bytes: store it elsewhere and its name in the result", claims.ResultMax)
	case len(result) > 0:
		return m.SetResult(result)
	}
	return nil
}

// remove removes the directory. Files that cannot be removed stay.
func (d taskDir) remove() { _ = os.RemoveAll(string(d)) }
