package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	web    = "../web"
	assets = "../assets"
)

// The committed assets are those that the sources give.
func TestAssets(t *testing.T) {
	made, _, err := build(web)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(assets)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, strings.TrimSuffix(e.Name(), ".gz"))
	}
	slices.Sort(have)
	if want := slices.Sorted(maps.Keys(made)); !slices.Equal(have, want) {
		t.Fatalf("assets has %v, the sources give %v: run go generate ./internal/console", have, want)
	}
	for name, text := range made {
		got, err := os.ReadFile(filepath.Join(assets, name+".gz"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, pack(text)) {
			t.Errorf("%s is not what the sources give: run go generate ./internal/console", name)
		}
	}
}

// Bounds of the files, in bytes. Charts are loaded by the pages that have some.
const (
	shellMax  = 2 << 10
	styleMax  = 20 << 10
	firstMax  = 90 << 10
	firstGzip = 32 << 10
	chartMax  = 60 << 10
	dialogMax = 20 << 10
	pageMax   = 150 << 10 // the scripts of any page, with its dialogs
	packedMax = 220 << 10 // all files, compressed
)

func TestBudget(t *testing.T) {
	made, metafile, err := build(web)
	if err != nil {
		t.Fatal(err)
	}
	var meta struct {
		Outputs map[string]struct {
			Bytes      int
			EntryPoint string
			Imports    []struct{ Path, Kind string }
		}
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		t.Fatal(err)
	}
	dialogs, screens := 0, 0 // screens is the largest script of some, with what it imports
	var first []string       // what the page loads before it shows anything
	imports := func(name string) (with []string) {
		for _, i := range meta.Outputs[name].Imports {
			if i.Kind == "import-statement" {
				with = append(with, i.Path)
			}
		}
		return with
	}
	for name, out := range meta.Outputs {
		if out.EntryPoint == "main.tsx" {
			first = append(imports(name), name)
		}
	}
	for name, out := range meta.Outputs {
		base := filepath.Base(name)
		switch {
		case strings.HasPrefix(base, "change-"):
			dialogs = out.Bytes
		case strings.HasPrefix(base, "chart-"), strings.HasPrefix(base, "inside-"), strings.HasPrefix(base, "more-"):
			size := out.Bytes
			for _, i := range imports(name) {
				if !slices.Contains(first, i) {
					size += meta.Outputs[i].Bytes
				}
			}
			screens = max(screens, size)
		}
		if strings.HasPrefix(base, "chart-") && out.Bytes > chartMax {
			t.Errorf("%s has %d bytes, at most %d", base, out.Bytes, chartMax)
		}
		if strings.HasSuffix(base, ".css") && out.Bytes > styleMax {
			t.Errorf("%s has %d bytes, at most %d", base, out.Bytes, styleMax)
		}
	}
	size, firstPacked, packed := 0, 0, 0
	for _, name := range first {
		text := made[filepath.Base(name)]
		size += len(text)
		firstPacked += len(pack(text))
	}
	for _, text := range made {
		packed += len(pack(text))
	}
	t.Logf("shell %d, first script %d (%d compressed), dialogs %d, largest of the others %d, all files %d compressed",
		len(made["index.html"]), size, firstPacked, dialogs, screens, packed)
	for _, bound := range []struct {
		what      string
		got, most int
	}{
		{"the shell", len(made["index.html"]), shellMax},
		{"the first script", size, firstMax},
		{"the first script, compressed,", firstPacked, firstGzip},
		{"the dialogs", dialogs, dialogMax},
		{"the scripts of a page", size + dialogs + screens, pageMax},
		{"all files, compressed,", packed, packedMax},
	} {
		if bound.got == 0 || bound.got > bound.most {
			t.Errorf("%s: %d bytes, at most %d", bound.what, bound.got, bound.most)
		}
	}
}

// The libraries are as they came, and each has its licence.
func TestVendored(t *testing.T) {
	list, err := os.Open(web + "/vendor/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	want := make(map[string]string)
	for s := bufio.NewScanner(list); s.Scan(); {
		sum, name, _ := strings.Cut(s.Text(), "  ")
		want[name] = sum
	}
	licensed := make(map[string]bool)
	err = filepath.WalkDir(web+"/vendor", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(web+"/vendor", name)
		if rel = filepath.ToSlash(rel); err != nil || rel == "SHA256SUMS" || rel == "README.md" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(text); want[rel] != hex.EncodeToString(sum[:]) {
			t.Errorf("%s is not as it came from npm", rel)
		}
		delete(want, rel)
		library, _, _ := strings.Cut(rel, "/")
		licensed[library] = licensed[library] || strings.HasSuffix(rel, "/LICENSE")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
	for library, ok := range licensed {
		if !ok {
			t.Errorf("%s has no LICENSE", library)
		}
	}
}
