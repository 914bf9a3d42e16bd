package proof

import (
	"os"
	"path/filepath"
	"testing"
)

// Missing skips a test that needs what is not here, or fails it with TENAQ_REQUIRE_ALL=1.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("TENAQ_REQUIRE_ALL") == "1" {
		t.Fatal(what)
	}
	t.Skip("SKIPPED: " + what)
}

// Installed returns the folder in which test/interop/install installs something, whether or not it
// is there.
func Installed(name string) string {
	root := os.Getenv("TENAQ_EMULATOR_DIR")
	if cache, err := os.UserCacheDir(); root == "" && err == nil {
		root = filepath.Join(cache, "tenaq", "emulators")
	}
	return filepath.Join(root, name)
}
