package mutants

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"tenaq/internal/mutant"
)

// The program as it is shipped has nothing of a mutant in it: no name, and not even the name of the function that
// would tell. TENAQ_BINARY names the program, if it is there already.
func TestShipped(t *testing.T) {
	name := os.Getenv("TENAQ_BINARY")
	if name == "" {
		if testing.Short() {
			t.Skip("SKIPPED: too long with -short")
		}
		w := workshop{t.TempDir()}
		name = w.program()
		w.build(t, "build", "-o", name, "tenaq/cmd/tenaq")
	}
	program, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		t.Fatal(err)
	}
	found := func(text string) bool { return bytes.Contains(program, []byte(text)) }
	if !found("tenaq/internal/engine") {
		t.Fatalf("%s does not name its packages, so nothing can be told", name)
	}
	if found("tenaq/internal/mutant") || found("TENAQ_MUTANT") {
		t.Errorf("%s has code of package mutant", name)
	}
	for _, e := range mutant.Table() {
		if found(string(e.Mutant)) {
			t.Errorf("%s has the mutant %s in it", name, e.Mutant)
		}
	}
}
