package engine

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// illegalByRune is illegalCharacter for valid UTF-8, without passing eight bytes at a time.
func illegalByRune(s string) string {
	for _, r := range s {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return fmt.Sprintf("#x%X", r)
		}
	}
	return ""
}

// Every character is judged alike at every place among others. [SEND-2]
func TestIllegalCharacter(t *testing.T) {
	const most = 24
	check := func(s string) {
		t.Helper()
		if got, want := illegalCharacter(s), illegalByRune(s); got != want {
			t.Fatalf("illegalCharacter(%q) = %q, want %q", s, got, want)
		}
	}
	for r := range rune(0x10FFFF) {
		if r > 0x300 && r < 0xD000 && r%97 != 0 || r > 0x10300 && r%9973 != 0 || !utf8.ValidRune(r) {
			continue
		}
		for at := range most {
			check(strings.Repeat("a", at) + string(r) + strings.Repeat("\x7f", (most-at)%11))
		}
	}
	for first := range 0x80 {
		for second := range 0x80 {
			check(" ~" + string(rune(first)) + string(rune(second)) + "      ")
		}
	}
	for s, want := range map[string]string{
		"12345678\xff":                  "#xFF",
		"12345678\xed\xa0\x80 12345678": "#xD800",
		"1234567\x80":                   "#x80",
	} {
		if got := illegalCharacter(s); got != want {
			t.Errorf("illegalCharacter(%q) = %q, want %q", s, got, want)
		}
	}
}
