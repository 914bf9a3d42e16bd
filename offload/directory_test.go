package offload_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tenaq/offload"
	"tenaq/offload/offloadtest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("OFFLOAD_TEST_WRITER"); dir != "" {
		writeForEver(dir)
	}
	os.Exit(m.Run())
}

func directory(t *testing.T, path string) *offload.Directory {
	t.Helper()
	d, err := offload.OpenDirectory(path, "bodies")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDirectory(t *testing.T) {
	offloadtest.Run(t, func(t *testing.T) func() offload.Store {
		path := filepath.Join(t.TempDir(), "made", "here")
		return func() offload.Store { return directory(t, path) }
	})
}

// For every key, the file is in the directory, and nothing is left beside it.
func TestKeysStayInDirectory(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "bodies")
	d := directory(t, path)
	for _, key := range []string{"../out", "/etc/out", "a/../../out", `..\out`, "bucket", ".", "..", "a\x00b", "CON", strings.Repeat("k", 1024)} {
		if err := d.Put(t.Context(), key, []byte(key)); err != nil {
			t.Errorf("put %q: %v", key, err)
		}
		if got, err := d.Get(t.Context(), key, 1024); err != nil || string(got) != key {
			t.Errorf("get %q: %q, error %v", key, got, err)
		}
	}
	files := 0
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files++
			if filepath.Dir(file) != path || strings.HasPrefix(entry.Name(), ".") {
				t.Errorf("there is %s", file)
			}
		}
		return err
	})
	if err != nil || files != 11 {
		t.Errorf("%d files, error %v, want ten and the name of the store", files, err)
	}
}

// A directory is one store: under another name its pointers would lead nowhere.
func TestDirectoryHasOneName(t *testing.T) {
	path := t.TempDir()
	directory(t, path)
	directory(t, path)
	if _, err := offload.OpenDirectory(path, "other"); err == nil || !strings.Contains(err.Error(), `the store "bodies"`) {
		t.Errorf("got error %v", err)
	}
}

// A disk that is not mounted has lost nothing.
func TestDirectoryNotMounted(t *testing.T) {
	root := t.TempDir()
	path, away := filepath.Join(root, "bodies"), filepath.Join(root, "away")
	d := directory(t, path)
	if err := d.Put(t.Context(), "k", []byte("body")); err != nil {
		t.Fatal(err)
	}
	wantUnknown := func(what string) {
		t.Helper()
		if _, err := d.Get(t.Context(), "k", 10); err == nil || errors.Is(err, offload.ErrNotFound) {
			t.Errorf("%s: got error %v, want one that says nothing about the body", what, err)
		}
	}
	if err := os.Rename(path, away); err != nil {
		t.Fatal(err)
	}
	wantUnknown("no directory")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	wantUnknown("an empty one")
	if err := errors.Join(os.Remove(path), os.Rename(away, path)); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Get(t.Context(), "k", 10); err != nil || string(got) != "body" {
		t.Errorf("back again: %q, error %v", got, err)
	}
}

// bodyOf is the body that a writer stores under a key.
func bodyOf(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%08d", i), 64<<10) }

// writeForEver stores bodies, and says so after each.
func writeForEver(path string) {
	d, err := offload.OpenDirectory(path, "bodies")
	for i := 0; err == nil; i++ {
		if err = d.Put(context.Background(), fmt.Sprint(i), bodyOf(i)); err == nil {
			fmt.Println(i)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A writer is killed while it works. Every body that it reported as stored is there, and every body
// that is there is whole.
func TestDirectoryWriterIsKilled(t *testing.T) {
	path := t.TempDir()
	for kill := range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "OFFLOAD_TEST_WRITER="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := -1
		lines := bufio.NewScanner(out)
		for said < 3+kill && lines.Scan() {
			if _, err := fmt.Sscan(lines.Text(), &said); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(kill) * time.Millisecond) // into the middle of the next one
		_ = cmd.Process.Kill()
		for lines.Scan() {
			if _, err := fmt.Sscan(lines.Text(), &said); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait()
		d := directory(t, path)
		for i := range said + 2 {
			got, err := d.Get(t.Context(), fmt.Sprint(i), 1<<20)
			if errors.Is(err, offload.ErrNotFound) && i > said {
				continue
			}
			if err != nil || !bytes.Equal(got, bodyOf(i)) {
				t.Errorf("after kill %d, body %d of %d: %d bytes, error %v", kill, i, said, len(got), err)
			}
		}
	}
}
