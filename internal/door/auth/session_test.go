package auth

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"tenaq/internal/door/credentials"
)

// A request of a session is refused, and not more, when the key goes away while it is judged.
// [CONSOLE-13]
func TestKeyRemovedMeanwhile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	has := func(id string) {
		t.Helper()
		text := `{"credentials": [{"id": "` + id + `", "secret": "the-secret-of-the-operators", "allow": ["*"]}]}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	has("OPS1")
	set, err := credentials.Open(credentials.Config{File: file})
	if err != nil {
		t.Fatal(err)
	}
	d := New(Config{Credentials: set, Sessions: true})
	for range 100 {
		_, _, err := d.NewSession(httptest.NewRecorder(), httptest.NewRequest("POST", signInPath, nil),
			Principal{key: set.Find("OPS1"), signedIn: true})
		if err != nil || len(d.sessions.all) != 1 {
			t.Fatalf("%d sessions, %v", len(d.sessions.all), err)
		}
		var begun *session
		for _, begun = range d.sessions.all {
		}

		has("OTHER")
		reloaded := make(chan error)
		go func() { reloaded <- set.Reload() }()
		for err == nil {
			_, err = d.verifySession(begun)
		}
		if err != errSession {
			t.Errorf("refused with %v, want that the session has ended", err)
		}
		if err := <-reloaded; err != nil {
			t.Fatal(err)
		}

		has("OPS1")
		if err := set.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}
