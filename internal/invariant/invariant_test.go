package invariant

import (
	"strings"
	"testing"
)

// violation runs f and returns what it panicked with, nil if it returned.
func violation(t *testing.T, f func()) (v *Violation) {
	t.Helper()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *Violation:
			v = p
		default:
			t.Fatalf("panicked with %T, want *Violation", p)
		}
	}()
	f()
	return nil
}

func TestFail(t *testing.T) {
	v := violation(t, func() { Fail("in-flight count %d of %q", -1, "orders") })
	if v == nil {
		t.Fatal("it returned")
	}
	if got, want := v.What, `in-flight count -1 of "orders"`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The operator who finds the report has nothing else to go by.
func TestReportSaysWhatToDo(t *testing.T) {
	v := violation(t, func() { Fail("seq %d came twice", 7) })
	for _, want := range []string{"seq 7 came twice", "Keep the data directory", "report this message"} {
		if got := v.Error(); !strings.Contains(got, want) {
			t.Errorf("report lacks %q:\n%s", want, got)
		}
	}
}

func TestArguments(t *testing.T) {
	type seq uint64
	type name string
	for _, tt := range []struct {
		format string
		arg    any
		want   string
	}{
		{"%v", true, "true"},
		{"%d", int8(-8), "-8"},
		{"%x", seq(1 << 63), "8000000000000000"},
		{"%.1f", float32(1.5), "1.5"},
		{"%q", name("a"), `"a"`},
		{"%x", []byte{1, 0xab}, "01ab"},
		{"%v", nil, "<nil>"},
		{"%v", struct{ n int }{1}, "struct { n int }"},
		{"%v", (*int)(nil), "*int"},
	} {
		v := violation(t, func() { Fail(tt.format, tt.arg) })
		if v.What != tt.want {
			t.Errorf("Fail(%q, %#v): got %q, want %q", tt.format, tt.arg, v.What, tt.want)
		}
	}
}

// TestPassingAllocatesNothing is what allows checks in hot code. The values are too big for the
// runtime's table of small integers, and the strings are not constants.
func TestPassingAllocatesNothing(t *testing.T) {
	n, s, b := int64(1)<<40, strings.Repeat("q", 40), make([]byte, 40)
	got := testing.AllocsPerRun(1000, func() {
		n++
		if n <= 0 {
			Fail("count %d of %s at %x", n, s, b)
		}
	})
	if got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}
