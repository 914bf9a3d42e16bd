package archtest

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"testing"
)

// binaryMax bounds the program in bytes: it is copied to edge machines and into every container.
// Without the stores of records it has about 22 MB; SQLite takes 4.1 MB, PostgreSQL 3.7 and
// DynamoDB 1.0. Clusters take 2.1 MB, most of it Raft and what it imports.
const binaryMax = 46_000_000

// bloat is a function that calls methods by names that are known only when the program runs. When
// it is linked, so are all exported methods of all types, used or not: some 7 MB, mostly of the AWS
// clients.
const bloat = "text/template.(*state).evalField"

// bundler makes the files of the console when the sources change.
const bundler = "github.com/evanw/esbuild/"

// TestBinary looks at the program that make has built: one file that needs no other, not even a C
// library, and is small. Outside of make there is none to look at.
func TestBinary(t *testing.T) {
	name := os.Getenv("TENAQ_BINARY")
	if name == "" {
		t.Skip("TENAQ_BINARY names no binary; make test does")
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %.1f MB", name, float64(info.Size())/1e6)
	if info.Size() > binaryMax {
		t.Errorf("%s has %d bytes, want at most %d", name, info.Size(), binaryMax)
	}
	program, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(program, []byte(bloat)) {
		t.Errorf("%s holds %s, so the linker keeps all exported methods; who calls it is in the "+
			"output of: go build -ldflags=-dumpdep", name, bloat)
	}

	if bytes.Contains(program, []byte(bundler)) {
		t.Errorf("%s holds %s, which only builds the files of the console", name, bundler)
	}

	f, err := elf.Open(name)
	var format *elf.FormatError
	if errors.As(err, &format) {
		t.Skip("not an ELF file; other systems link to their C library in any case")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s asks for a dynamic linker; build it with CGO_ENABLED=0", name)
		}
	}
	if libs, err := f.ImportedLibraries(); err == nil && len(libs) > 0 {
		t.Errorf("%s needs %q, want no libraries", name, libs)
	}
}
