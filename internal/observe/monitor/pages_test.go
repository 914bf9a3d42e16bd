package monitor

import (
	"os"
	"slices"
	"strings"
	"testing"

	"tenaq/docs/alarms"
	"tenaq/internal/observe/alarm"
)

// Each built-in alarm has a page, which begins with its name and has every part; there are no other
// pages. Its notice leads there: by default to the place of the page in the sources. [ALARM-53]
func TestPages(t *testing.T) {
	var kinds []string
	for i := range templates {
		kind := string(templates[i].kind)
		kinds = append(kinds, kind)
		m := &Monitor{cfg: Config{Pages: DefaultPages}}
		place := m.page("orders/"+kind, alarm.Alarm)
		if _, err := os.Stat("../../../" + place); err != nil {
			t.Error(err)
		}
		m.cfg.Pages = "https://docs.example.com/" + PageKind + ".html#do"
		if got, want := m.page("orders/"+kind, alarm.Alarm), "https://docs.example.com/"+kind+".html#do"; got != want {
			t.Errorf("got the page %q, want %q", got, want)
		}
		for state, want := range map[alarm.State]string{alarm.Alarm: "https://docs.example.com/" + kind + ".html#do", alarm.OK: ""} {
			if got := m.Page(&Status{Record: Record{Definition: Definition{Name: "orders/" + kind}, State: state}}); got != want {
				t.Errorf("in %s: got the page %q, want %q", state, got, want)
			}
		}
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
