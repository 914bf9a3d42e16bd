package server

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// asNobody runs f on a thread whose access to files is that of an unprivileged user, whoever runs
// the tests.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine, and so does what it may not do
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		f()
	}()
	<-done
}

// A directory that the user may not read, list or write is refused with the user's name and the
// path. [DUR-35]
func TestDataDirWithoutPermission(t *testing.T) {
	for _, test := range []struct {
		name string
		mode os.FileMode
		at   string // the path that is opened, below the one that has the mode
		open func(dir string) error
	}{
		{"serve, unreadable", 0, "", openServer},
		{"serve, unwritable", 0o555, "", openServer},
		{"serve, to be made", 0o555, "data", openServer},
		{"verify", 0, "", func(dir string) error { _, err := Verify(dir, func(Finding) {}, nil); return err }},
		{"restore", 0, "", func(dir string) error { _, err := Restore(t.Context(), strings.NewReader(""), dir, nil); return err }},
		{"restore, to be made", 0o555, "data", func(dir string) error { _, err := Restore(t.Context(), strings.NewReader(""), dir, nil); return err }},
	} {
		t.Run(test.name, func(t *testing.T) {
			top := t.TempDir()
			if err := os.Chmod(filepath.Dir(top), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(top, test.mode); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(top, 0o755) })
			dir := filepath.Join(top, test.at)
			asNobody(t, func() {
				err := test.open(dir)
				if !errors.Is(err, ErrConfig) || errors.Is(err, ErrStorage) {
					t.Errorf("got %v, want an error of the configuration", err)
					return
				}
				for _, want := range []string{"cannot open the data directory " + dir + ": ", "user", "has no permission for " + top, "--data-dir"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
				if strings.Contains(err.Error(), "permission denied") {
					t.Errorf("%q has the text of the system", err)
				}
			})
		})
	}
}

func openServer(dir string) error {
	s, err := New(Config{DataDir: dir, Listen: "127.0.0.1:0", AdminListen: "off"})
	if err == nil {
		s.close()
	}
	return err
}

// A store is not created among other files. The files of a new volume and the configuration may be
// there, and beside an existing store any file may be. [DUR-35]
func TestDataDirOfSomethingElse(t *testing.T) {
	for _, test := range []struct {
		files string
		want  bool
	}{
		{"", true},
		{"lost+found/", true},
		{"tenaq.yaml", true},
		{"records.db records.db-wal", true},
		{"keys/tenaq.json", true},
		{"notes.txt", false},
		{"keys.d/tenaq.json", false},
		{"tenaq.yaml notes.txt", false},
		{"witness notes.txt", false},
	} {
		dir := t.TempDir()
		for _, name := range strings.Fields(test.files) {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "/") {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			} else if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		err := checkOwner(dir, []string{filepath.Join(dir, "tenaq.yaml"), filepath.Join(dir, "keys", "tenaq.json"), ""})
		if (err == nil) != test.want {
			t.Errorf("%q: %v", test.files, err)
		}
		if err := os.Mkdir(filepath.Join(dir, "store"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := checkOwner(dir, nil); err != nil {
			t.Errorf("%q and a store: %v", test.files, err)
		}
	}
}
