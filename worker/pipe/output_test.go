package pipe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"tenaq/internal/testing/proof"
	"testing"
	"unicode/utf8"
)

// The beginning and the end of the output are kept, in whatever pieces it is written.
func TestOutputKeeps(t *testing.T) {
	seed := proof.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		size := 1 + random.IntN(40)
		text := make([]byte, random.IntN(3*size))
		for i := range text {
			text[i] = 'a' + byte(i%26)
		}
		o := &output{max: size}
		for rest := text; len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			if got, err := o.Write(rest[:n]); got != n || err != nil {
				t.Fatalf("wrote %d of %d (error %v)", got, n, err)
			}
			rest = rest[n:]
		}
		want := string(text)
		if len(text) > size {
			first, last := size-size/2, size/2
			want = fmt.Sprintf("%s\n… %d bytes left out …\n%s", text[:first], len(text)-size, text[len(text)-last:])
		}
		if got := o.String(); got != want {
			t.Fatalf("size %d: got %q, want %q", size, got, want)
		}
	}
}

// No cut goes through a character.
func TestOutputCutsBetweenCharacters(t *testing.T) {
	for size := 10; size < 40; size++ {
		o := &output{max: size}
		_, _ = o.Write([]byte(strings.Repeat("日本語", 10)))
		if got := o.String(); strings.Contains(got, `\x`) || !utf8.ValidString(got) {
			t.Errorf("size %d: got %q", size, got)
		}
	}
}

func TestTailAndHead(t *testing.T) {
	long := strings.Repeat("日", tailMax)
	for _, got := range []string{tail(long), head(long)} {
		if len(got) > tailMax || len(got) < tailMax-8 || strings.Trim(got, "日…") != "" {
			t.Errorf("got %d bytes: %s", len(got), got)
		}
	}
	for text, want := range map[string]string{"": "", "a\n": "a", "\n a b \n\n": "a b"} {
		if got := head(text); got != want {
			t.Errorf("head of %q: %q, want %q", text, got, want)
		}
	}
	if got := tail("  a\n \n"); got != "  a" {
		t.Errorf("tail: %q", got)
	}
}

func TestSafe(t *testing.T) {
	for text, want := range map[string]string{
		"plain ü 日\t":            "plain ü 日\t",
		"a\nb":                   `a\x0ab`,
		"\x1b[2J\x00\x7f":        `\x1b[2J\x00\x7f`,
		"\u0085\u009b":           `\x85\x9b`,
		"a\u202eb\u2028\u2069":   `a\u202eb\u2028\u2069`,
		"\u200d\u202f\U0001f600": "\u200d\u202f\U0001f600",
		"\xff\xc3":               `\xff\xc3`,
		"a\ufffdb":               "a\ufffdb",
		"\r\n":                   `\x0d\x0a`,
		strings.Repeat("a", 9):   strings.Repeat("a", 9),
	} {
		if got := safe(text, "\t"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := safe("a\r\nb\rc\n", "\n"); got != "a\nb\\x0dc\n" {
		t.Errorf("got %q", got)
	}
}

// A line without an end is passed on in pieces, and as it is when the task ends.
func TestLines(t *testing.T) {
	var got collected
	l := &lines{to: &passer{to: &got}, prefix: "k | "}
	for _, piece := range []string{"a", "b\nc\r\n\n", strings.Repeat("x", lineMax-1), "yz", "\nend"} {
		_, _ = l.Write([]byte(piece))
	}
	l.close()
	l.close()
	want := collected{"k | ab\n", "k | c\n", "k | \n", "k | " + strings.Repeat("x", lineMax-1) + "y\n", "k | z\n", "k | end\n"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

type collected []string

func (c *collected) Write(p []byte) (int, error) {
	*c = append(*c, string(p))
	return len(p), nil
}
