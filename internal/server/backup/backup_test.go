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
	"strconv"
	"strings"
	"tenaq/internal/testing/proof"
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
	if size := Size(sample, []File{fileOf("witness", "w"), fileOf("store/000001.sst", strings.Repeat("x", 5000)), fileOf("store/MANIFEST-000002", "")}); size != int64(len(b)) {
		t.Errorf("size %d, want %d", size, len(b))
	}
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

// A change of any byte is noticed. [DUR-31]
func TestChanged(t *testing.T) {
	seed := proof.Seed(t)
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

// A missing, repeated, swapped or moved entry is noticed, and so is anything behind the end.
// [DUR-31]
func TestEntriesMoved(t *testing.T) {
	b := write(t, fileOf("witness", "w"), fileOf("store/000001.sst", strings.Repeat("x", 3000)), fileOf("store/000002.sst", strings.Repeat("y", 3000)))
	entries := entriesOf(t, b)
	if len(entries) != 5 {
		t.Fatalf("there are %d entries, want 5", len(entries))
	}
	archive := func(entries ...[]byte) []byte {
		return slices.Concat(append(entries, make([]byte, 2*blockSize))...)
	}
	if got := archive(entries...); !bytes.Equal(got, b) {
		t.Fatal("the entries are not the archive")
	}
	refused := func(what string, bad []byte) {
		t.Helper()
		if _, _, err := read(bad); !errors.Is(err, ErrNotBackup) && !errors.Is(err, ErrCut) {
			t.Errorf("%s: got %v, want that it is no backup", what, err)
		}
	}
	for i := range entries {
		refused(fmt.Sprintf("without entry %d", i), archive(slices.Delete(slices.Clone(entries), i, i+1)...))
		for j := range entries {
			refused(fmt.Sprintf("entry %d again at %d", i, j), archive(slices.Insert(slices.Clone(entries), j, entries[i])...))
			if i == j {
				continue
			}
			refused(fmt.Sprintf("entry %d in the place of %d", i, j), archive(replaced(entries, j, entries[i])...))
			refused(fmt.Sprintf("entries %d and %d swapped", i, j), archive(replaced(replaced(entries, j, entries[i]), i, entries[j])...))
			swapped := slices.Concat(entries[i][:blockSize], entries[j][blockSize:])
			refused(fmt.Sprintf("the content of entry %d under the name of %d", j, i), archive(replaced(entries, i, swapped)...))
		}
		refused(fmt.Sprintf("entry %d behind the last", i), archive(append(slices.Clone(entries), entries[i])...))
		refused(fmt.Sprintf("entry %d behind the end", i), slices.Concat(b, entries[i]))
	}
	// Those of another backup are others, though their names and lengths are the same.
	others := entriesOf(t, write(t, fileOf("witness", "v"), fileOf("store/000001.sst", strings.Repeat("y", 3000)), fileOf("store/000002.sst", strings.Repeat("z", 3000))))
	for i := 1; i < len(entries); i++ {
		refused(fmt.Sprintf("entry %d is that of another backup", i), archive(replaced(entries, i, others[i])...))
	}
	for _, n := range []int{1, 511, 512, 1024, 10240} {
		refused(fmt.Sprintf("%d zeros behind it", n), slices.Concat(b, make([]byte, n)))
		refused(fmt.Sprintf("%d bytes behind it", n), slices.Concat(b, bytes.Repeat([]byte("x"), n)))
	}
}

// entriesOf takes an archive apart, into its entries with their headers.
func entriesOf(t *testing.T, b []byte) (entries [][]byte) {
	t.Helper()
	for len(b) > 2*blockSize {
		size, err := strconv.ParseInt(string(b[124:135]), 8, 64)
		if err != nil {
			t.Fatal(err)
		}
		n := blockSize + size + fill(size)
		entries, b = append(entries, b[:n:n]), b[n:]
	}
	return entries
}

func replaced(entries [][]byte, i int, by []byte) [][]byte {
	entries = slices.Clone(entries)
	entries[i] = by
	return entries
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
