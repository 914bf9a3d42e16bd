package interop

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A result is what a client did in a run in which all that it can do held.
type result struct {
	client   client
	version  string // as the client says it itself
	protocol string // as it was on the wire
}

// row is the line of the table for a result.
func (r *result) row() string {
	cells := []string{r.client.name, r.version, r.protocol}
	for _, o := range operations {
		why, not := r.client.lacks(o)
		switch {
		case not && why == "": // nothing extra
			cells = append(cells, "")
		case not:
			cells = append(cells, "–")
		default:
			cells = append(cells, "✓")
		}
	}
	return line(cells)
}

func line(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }

// cells splits a line of a table; it returns nil for another line.
func cells(s string) []string {
	s, ok := strings.CutPrefix(strings.TrimSpace(s), "|")
	if !ok {
		return nil
	}
	all := strings.Split(strings.TrimSuffix(s, "|"), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// The table stands between these lines of docs/clients.md.
const begin, end = "<!-- clients -->\n", "<!-- /clients -->\n"

// A table is what docs/clients.md says about clients.
type table struct {
	before, text, after string
	rows                map[string]string // by the name of the client
}

func parseTable(text string) (*table, error) {
	before, rest, ok := strings.Cut(text, begin)
	text, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return nil, fmt.Errorf("docs/clients.md: no lines %q and %q, between which the table of clients stands", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	r := &table{before: before, text: text, after: after, rows: map[string]string{}}
	for i, l := range slices.Collect(strings.Lines(text)) {
		if c := cells(l); len(c) > 0 && i > 2 { // below the head
			r.rows[c[0]] = strings.TrimSpace(l)
		}
	}
	return r, nil
}

// put replaces the rows of those clients that ran.
func (r *table) put(results []result) {
	for _, result := range results {
		r.rows[result.client.name] = result.row()
	}
}

// write renders the table with a row for each of the clients that has one, and below it what they
// cannot do and do besides.
func (r *table) write(clients []client) string {
	head := append([]string{"client", "version", "protocol"}, operations...)
	lines := []string{"", line(head), line(slices.Repeat([]string{"---"}, len(head)))}
	var notes []string
	for _, c := range clients {
		if row, ok := r.rows[c.name]; ok {
			lines = append(lines, row)
			notes = append(notes, c.notes()...)
		}
	}
	lines = append(append(lines, ""), notes...)
	if len(notes) > 0 {
		lines = append(lines, "")
	}
	return r.before + begin + strings.Join(lines, "\n") + "\n" + end + r.after
}

// notes explain the cells of a client: what it does besides, and for each reason what it does not.
func (c *client) notes() []string {
	var parts []string
	if c.extra != "" {
		parts = append(parts, "extra: "+c.extra)
	}
	lacking := map[string][]string{}
	for _, o := range operations {
		if why, ok := c.without[o]; ok {
			lacking[why] = append(lacking[why], o)
		}
	}
	reasons := slices.SortedFunc(maps.Keys(lacking), func(a, b string) int {
		return cmp.Compare(slices.Index(operations, lacking[a][0]), slices.Index(operations, lacking[b][0]))
	})
	for _, why := range reasons {
		parts = append(parts, "no "+strings.Join(lacking[why], ", ")+": "+why)
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{"- " + c.name + ": " + strings.Join(parts, "; ")}
}

// differs says where a table is not what the clients did. A client that did not run is taken at its
// word.
func (r *table) differs(clients []client, results []result) (problems []string) {
	for _, result := range results {
		got, want := r.rows[result.client.name], result.row()
		if c := cells(got); result.client.ofSystem && len(c) > 1 && c[1] != result.version {
			continue
		}
		if got != want {
			problems = append(problems, fmt.Sprintf("docs/clients.md says\n%s\nand the client did\n%s", cmp.Or(got, "nothing"), want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.rows)) {
		if !slices.ContainsFunc(clients, func(c client) bool { return c.name == name }) {
			problems = append(problems, "docs/clients.md has a row of "+name+", which is no client")
		}
	}
	if len(problems) == 0 && r.write(clients) != r.before+begin+r.text+end+r.after {
		problems = append(problems, "docs/clients.md has another head, order or notes than the clients")
	}
	return problems
}

var readmeFile = filepath.Join("..", "..", "docs", "clients.md")

// settle holds docs/clients.md to what the clients did, or writes it.
func settle(t *testing.T, results []result) {
	t.Helper()
	text, err := os.ReadFile(readmeFile)
	if err != nil {
		t.Fatal(err)
	}
	r, err := parseTable(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		r.put(results)
		if written := r.write(clients); written != string(text) {
			if err := os.WriteFile(readmeFile, []byte(written), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	for _, problem := range r.differs(clients, results) {
		t.Errorf("%s; if that is right, go test ./test/interop -rewrite writes it", problem)
	}
}

func TestTable(t *testing.T) {
	all := client{name: "all", extra: "dances"}
	some := client{name: "some", without: map[string]string{"create": "its API has none", "paging": "it has one page", "attributes": "its API has none"}}
	system := client{name: "system", ofSystem: true}
	list := []client{all, some, system}
	empty, err := parseTable("a\n" + begin + end + "b\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := empty.differs(list, nil); len(got) != 1 {
		t.Errorf("a table without a head: got %q, want one problem", got)
	}
	empty.put([]result{{all, "1", "JSON"}, {some, "2", "Query"}})
	text := empty.write(list)
	want := "a\n" + begin + `
| client | version | protocol | create | attributes | fifo | batch | receive | visibility | delete | error | paging | environment | extra |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| all | 1 | JSON | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ |
| some | 2 | Query | – | – | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | – | ✓ |  |

- all: extra: dances
- some: no create, attributes: its API has none; no paging: it has one page

` + end + "b\n"
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	for name, test := range map[string]struct {
		text    string
		clients []client
		results []result
		want    int
	}{
		"nothing ran":            {text, list, nil, 0},
		"as it says":             {text, list, []result{{all, "1", "JSON"}}, 0},
		"another version":        {text, list, []result{{all, "1.1", "JSON"}, {some, "2", "Query"}}, 1},
		"another protocol":       {text, list, []result{{all, "1", "Query"}, {some, "2", "JSON"}}, 2},
		"another cell":           {strings.Replace(text, "JSON | ✓", "JSON | –", 1), list, []result{{all, "1", "JSON"}}, 1},
		"no row":                 {text, list, []result{{system, "3", "JSON"}}, 1},
		"no such client":         {text, list[:1], nil, 1},
		"another reason":         {strings.Replace(text, "one page", "no pages", 1), list, nil, 1},
		"the system has another": {strings.Replace(text, "\n\n- all", "\n| system | 2 | JSON |\n\n- all", 1), list, []result{{system, "3", "JSON"}}, 0},
	} {
		r, err := parseTable(test.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.differs(test.clients, test.results); len(got) != test.want {
			t.Errorf("%s: got %q, want %d problems", name, got, test.want)
		}
	}
	if _, err := parseTable("no table"); err == nil {
		t.Error("a text without a table: got no error, want one")
	}
}
