package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

// driving are the code points that a terminal acts upon, or that reorder or break the text around
// them.
func driving() []rune {
	var list []rune
	for _, span := range [][2]rune{
		{0x00, 0x1f}, {0x7f, 0x9f}, // C0, DEL, C1
		{0x61c, 0x61c}, {0x200e, 0x200f}, // marks
		{0x2028, 0x2029},                   // separators
		{0x202a, 0x202e}, {0x2066, 0x2069}, // embeddings, overrides, isolates
	} {
		for r := span[0]; r <= span[1]; r++ {
			list = append(list, r)
		}
	}
	return list
}

// harmless are others that must stay as they are, their neighbours among them.
var harmless = []rune{' ', '~', 0xa0, 0xe4, 0x61b, 0x61d, 0x200c, 0x200d, 0x2010, 0x2027, 0x202f, 0x2065, 0x206a, 0x6f22, 0xfffd, 0x1f600}

func TestEscapeCodePoints(t *testing.T) {
	for _, r := range driving() {
		text := "a" + string(r) + "b"
		for name, got := range map[string]string{"oneLine": OneLine(text), "escape": escape(text, "")} {
			if strings.ContainsRune(got, r) || !strings.HasPrefix(got, `a\`) || !strings.HasSuffix(got, "b") {
				t.Errorf("%s of %U: got %q, want it escaped", name, r, got)
			}
		}
		if r == '\n' || r == '\t' {
			continue
		}
		if got := escape(text, "\n\t"); got != OneLine(text) {
			t.Errorf("a body with %U: got %q, want %q", r, got, OneLine(text))
		}
	}
	for _, r := range harmless {
		text := "a" + string(r) + "b"
		if got := OneLine(text); got != text {
			t.Errorf("%U: got %q, want it untouched", r, got)
		}
		if got := escapeJSON(text); got != text {
			t.Errorf("%U in JSON: got %q, want it untouched", r, got)
		}
	}
	if got, want := escape("two\nlines\tof \x1b", "\n\t"), "two\nlines\tof \\x1b"; got != want {
		t.Errorf("a body: got %q, want %q", got, want)
	}
	if got, want := OneLine("not UTF-8: \x9b2J \xff"), `not UTF-8: \x9b2J \xff`; got != want {
		t.Errorf("bytes: got %q, want %q", got, want)
	}
}

// JSON for a terminal holds none of them raw, and means the same; for a pipe it stays as it was.
func TestEscapeJSON(t *testing.T) {
	in := map[string]string{"body": string(driving()) + string(harmless)}
	for _, indent := range []string{"", "  "} {
		var plain, terminal bytes.Buffer
		for w, on := range map[io.Writer]bool{&plain: false, &terminal: true} {
			if err := printJSON(w, in, indent, on); err != nil {
				t.Fatal(err)
			}
			var out map[string]string
			if err := json.Unmarshal(w.(*bytes.Buffer).Bytes(), &out); err != nil || out["body"] != in["body"] {
				t.Errorf("for a terminal %v: got %q, %v, want %q", on, out["body"], err, in["body"])
			}
		}
		for _, r := range driving() {
			if r != '\n' && strings.ContainsRune(terminal.String(), r) {
				t.Errorf("indent %q: got %U raw in %q", indent, r, terminal.String())
			}
		}
		if !strings.Contains(plain.String(), "\u202e") || !utf8.Valid(plain.Bytes()) {
			t.Errorf("for a pipe: got %q, want raw UTF-8", plain.String())
		}
		if !strings.Contains(terminal.String(), `\u202e`) || !strings.Contains(terminal.String(), `\u009b`) {
			t.Errorf("for a terminal: got %q, want \\u202e and \\u009b in it", terminal.String())
		}
	}
	var log bytes.Buffer
	fmt.Fprintf(jsonEscaper{&log}, "{\"msg\":\"a\u009bb\"}\n")
	if got, want := log.String(), "{\"msg\":\"a\\u009bb\"}\n"; got != want {
		t.Errorf("a log: got %q, want %q", got, want)
	}
}
