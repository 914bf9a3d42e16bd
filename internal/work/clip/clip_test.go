package clip

import "testing"

func TestTo(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "abc"},
		{"", 0, ""},
		{"a", 0, ""},
		{"aé", 2, "a"},
		{"aé", 3, "aé"},
		{"a\U0001F600", 4, "a"},
		{"\xff\xfe", 9, "?"},
		{"a\xffb", 2, "a?"},
	} {
		if got := To(c.s, c.n); got != c.want {
			t.Errorf("To(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
}
