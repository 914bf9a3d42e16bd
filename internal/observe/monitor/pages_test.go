package monitor

import (
	"slices"
	"strings"
	"testing"

	"tenaq/docs/alarms"
)

// Each built-in alarm has a page, which begins with its name and has every part, and there is no
// other page.
func TestPages(t *testing.T) {
	var kinds []string
	for i := range templates {
		kind := string(templates[i].kind)
		kinds = append(kinds, kind)
		page, ok := alarms.Page(kind)
		if !ok {
			t.Errorf("docs/alarms has no page %s.md", kind)
			continue
		}
		for _, want := range []string{"# " + kind + "\n", "\n## Look\n\n    tenaq ", "\n## Do\n", "\n## It ends\n"} {
			if !strings.Contains(page, want) {
				t.Errorf("docs/alarms/%s.md lacks %q", kind, want)
			}
		}
	}
	slices.Sort(kinds)
	if got := alarms.Kinds(); !slices.Equal(got, kinds) {
		t.Errorf("pages %v, want %v", got, kinds)
	}
}
