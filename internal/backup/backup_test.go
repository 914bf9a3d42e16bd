package backup

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func fileOf(name, text string) File {
	return File{name, int64(len(text)), func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

var sample = Manifest{Store: "00ff", Commit: 17, Taken: time.Unix(1767225600, 0).UTC(), Program: "v1"}

func write(t *testing.T, files ...File) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, sample, files); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(b []byte) (files map[string]string, m Manifest, err error) {
	files = make(map[string]string)
	m, err = Read(bytes.NewReader(b), func(_ Manifest, name string, size int64, r io.Reader) error {
		text, err := io.ReadAll(r)
		files[name] = string(text)
		if err == nil && int64(len(text)) != size {
			err = fmt.Errorf("%s has %d bytes and was said to have %d", name, len(text), size)
		}
		return err
	})
	return files, m, err
}

func TestReadWhatWasWritten(t *testing.T) {
	b := write(t, fileOf("witness", "w"), fileOf("store/000001.sst", strings.Repeat("x", 5000)), fileOf("store/MANIFEST-000002", ""))
	files, m, err := read(b)
	want := map[string]string{"witness": "w", "store/000001.sst": strings.Repeat("x", 5000), "store/MANIFEST-000002": ""}
	if err != nil || !maps.Equal(files, want) {
		t.Errorf("got %q, %v, want %q", files, err, want)
	}
	if m.Format != Format || m.Store != sample.Store || m.Commit != sample.Commit || !m.Taken.Equal(sample.Taken) {
		t.Errorf("got %+v, want %+v", m, sample)
	}
	if _, err := Read(bytes.NewReader(b), nil); err != nil {
		t.Errorf("looking only: %v", err)
	}
}

// However a backup is cut off, it is known not to be one. [DUR-31]
func TestCutOff(t *testing.T) {
	b := write(t, fileOf("witness", "w"), fileOf("store/000001.sst", strings.Repeat("x", 5000)))
	for n := range len(b) {
		if _, _, err := read(b[:n]); !errors.Is(err, ErrCut) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(b), err)
		}
	}
}

// Whatever byte is changed, it is noticed. [DUR-31]
func TestChanged(t *testing.T) {
	seed := rand.Uint64() >> 32
	t.Logf("the seed is %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	b := write(t, fileOf("witness", "w"), fileOf("store/000001.sst", strings.Repeat("x", 3000)))
	for at := range b {
		bad := bytes.Clone(b)
		bad[at] ^= byte(1 + rng.IntN(255))
		if _, _, err := read(bad); err == nil {
			t.Fatalf("byte %d of %d was changed from %d to %d, and nothing said", at, len(b), b[at], bad[at])
		}
	}
}

// Other programs read the archive too.
func TestIsTar(t *testing.T) {
	b := write(t, fileOf("witness", "w"), fileOf("store/000001.sst", strings.Repeat("x", 5000)))
	in := tar.NewReader(bytes.NewReader(b))
	var names []string
	for {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if h.Typeflag != tar.TypeReg || h.Mode != 0o600 || !h.ModTime.Equal(sample.Taken) {
			t.Errorf("%s: got %+v", h.Name, h)
		}
	}
	if want := []string{"manifest.json", "witness", "store/000001.sst", "SHA256SUMS"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

func TestRefusals(t *testing.T) {
	good := write(t, fileOf("witness", "w"))
	for name, tt := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":          {nil, ErrCut},
		"text":             {[]byte(strings.Repeat("no archive ", 100)), ErrNotBackup},
		"more behind":      {append(bytes.Clone(good), good...), ErrNotBackup},
		"two in one":       {append(bytes.Clone(good[:len(good)-1024]), good...), ErrNotBackup},
		"no manifest":      {good[1024:], ErrNotBackup},
		"of a later form":  {bytes.Replace(good, []byte(`"format":1`), []byte(`"format":9`), 1), ErrNewer},
		"another manifest": {bytes.Replace(good, []byte(`"commit":17`), []byte(`"commit":18`), 1), ErrNotBackup},
	} {
		if _, _, err := read(tt.b); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	for _, name := range []string{"", "x", "/etc/passwd", "../x", "store/", "store/../x", "store/a/b", "store/.hidden", "manifest.json", "SHA256SUMS"} {
		if err := Write(io.Discard, sample, []File{fileOf(name, "x")}); !errors.Is(err, ErrNotBackup) {
			t.Errorf("a file %q: got %v, want %v", name, err, ErrNotBackup)
		}
	}
	if err := Write(io.Discard, sample, []File{{"witness", 7, fileOf("", "six").Open}}); err == nil {
		t.Error("a file that is shorter than it was passes")
	}
}
