// Command build makes the files of the console from its TypeScript: go generate runs it in
// internal/console.
//
// It needs neither Node nor a network: esbuild is a Go library, and the libraries of the page lie
// beside its sources. The same sources give the same bytes on every machine, and a test compares
// them with what is committed. Types are not checked here: "npx tsc --noEmit" in web does that.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// Files of the console, by their names, not compressed.
type files map[string][]byte

func main() {
	if err := generate("web", "assets"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate writes the files that are made of one directory into another one, compressed, and
// removes what else is there.
func generate(from, to string) error {
	made, _, err := build(from)
	if err != nil {
		return err
	}
	before, err := filepath.Glob(filepath.Join(to, "*"))
	if err != nil {
		return err
	}
	for _, name := range before {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for name, text := range made {
		if err := os.WriteFile(filepath.Join(to, name+".gz"), pack(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pack compresses a file. The header of gzip has no time and no name.
func pack(text []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level exists
	}
	_, _ = w.Write(text)
	_ = w.Close() // writes to memory cannot fail
	return b.Bytes()
}

// vendored says where the libraries lie, as the tarballs of npm have them.
var vendored = map[string]string{
	"preact":               "preact/dist/preact.mjs",
	"preact/hooks":         "preact/hooks/dist/hooks.mjs",
	"@preact/signals":      "signals/dist/signals.mjs",
	"@preact/signals-core": "signals-core/dist/signals-core.mjs",
	"uplot":                "uplot/dist/uPlot.esm.js",
}

// build makes the files, and returns what esbuild says about them.
func build(from string) (made files, meta string, err error) {
	root, err := filepath.Abs(from)
	if err != nil {
		return nil, "", err
	}
	alias := make(map[string]string)
	for name, file := range vendored {
		alias[name] = filepath.Join(root, "vendor", filepath.FromSlash(file))
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir:    root,
		EntryPoints:      []string{"main.tsx", "style.css"},
		Outdir:           filepath.Join(root, "out"), // nothing is written there
		EntryNames:       "[name]-[hash]",
		ChunkNames:       "[name]-[hash]",
		Alias:            alias,
		Bundle:           true,
		Splitting:        true,
		Format:           api.FormatESModule,
		Target:           api.ES2022,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		JSX: api.JSXTransform, JSXFactory: "h", JSXFragment: "Fragment",
		LegalComments: api.LegalCommentsNone, // licences.txt has them
		Metafile:      true,
		TsconfigRaw:   "{}",
	})
	for _, m := range result.Errors {
		return nil, "", fmt.Errorf("%s: %s", place(m), m.Text)
	}
	made = files{}
	names := make(map[string]string) // of the entry points
	for _, f := range result.OutputFiles {
		base := filepath.Base(f.Path)
		made[base] = f.Contents
		for _, entry := range []string{"main", "style"} {
			if strings.HasPrefix(base, entry+"-") {
				names[entry] = base
			}
		}
	}
	icon, err := os.ReadFile(filepath.Join(root, "icon.svg"))
	if err != nil {
		return nil, "", err
	}
	names["icon"] = "icon-" + hash(icon) + ".svg"
	made[names["icon"]] = icon
	page, err := os.ReadFile(filepath.Join(root, "index.html"))
	if err != nil {
		return nil, "", err
	}
	text := string(page)
	for entry, name := range names {
		text = strings.ReplaceAll(text, "{{"+entry+"}}", "./"+name)
	}
	made["index.html"] = []byte(text)
	made["licences.txt"], err = licences(root)
	return made, result.Metafile, err
}

func place(m api.Message) string {
	if m.Location == nil {
		return "esbuild"
	}
	return fmt.Sprintf("%s:%d", m.Location.File, m.Location.Line)
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// licences are those of the libraries, which their copies must carry.
func licences(root string) ([]byte, error) {
	found, err := filepath.Glob(filepath.Join(root, "vendor", "*", "LICENSE"))
	if err != nil {
		return nil, err
	}
	slices.Sort(found)
	var b bytes.Buffer
	b.WriteString("The console contains these libraries.\n")
	for _, name := range found {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n== %s\n\n%s", path.Base(filepath.ToSlash(filepath.Dir(name))), text)
	}
	return b.Bytes(), nil
}
