// Package pages plays the documentation: the commands of each page run in a shell, in their order,
// against servers of their own. Its table says what a page presupposes and which blocks cannot run
// here. Every other block has to run.
package pages

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/internal/testing/built"
	"tenaq/internal/testing/mototest"
	"tenaq/internal/testing/pgtest"
)

func TestMain(m *testing.M) { os.Exit(built.Tests(m)) }

// A page is one with commands, or several that are played as one.
type page struct {
	name     string   // a file, or a pattern
	before   string   // what the page presupposes, as a script
	swap     []string // pairs: what the page shows, and what a reader puts in its place
	at       []step   // what is special about blocks, in their order
	want     []string // parts of the output
	database bool     // there is an empty one in PostgreSQL, at $DATABASE
	buckets  bool     // there is a server with the API of Amazon S3, at $BUCKETS
}

// A step is about the blocks that contain a text.
type step struct {
	text   string
	before string // what happens before the first of them
	not    string // why none of them runs here
}

// prelude has commands that serve until they are stopped run beside the script. Then the next
// commands find the server ready, as readers do who type them.
// Standard input ends with the test, however that ends, and then the script and its servers do.
const prelude = `set -e -o pipefail
{ cat; pkill -P $$; } <&0 >/dev/null 2>&1 &
watch=$!
disown
exec </dev/null
trap 'code=$?; [ $code = 0 ] || tail -n 20 *.log; kill $watch $(jobs -p) 2>/dev/null || :; wait; exit $code' EXIT
stop() {
	[ -z "$server" ] || { kill $server 2>/dev/null || :; wait $server || :; }
	server=
}
beside() {
	local ready='tenaq .* ready: '
	case "$*" in cluster*) ready='^cluster ready' ;; demo*) ready=console ;; esac
	log=$(mktemp XXXXXX.log)
	command tenaq "$@" >$log 2>&1 &
	server=$!
	until grep -q "$ready" $log; do kill -0 $server; sleep 0.1; done
}
tenaq() {
	case "$*" in
	*--help*) command tenaq "$@" ;;
	serve | serve\ * | cluster\ local* | demo\ --serve*) stop; beside "$@" ;;
	*) command tenaq "$@" ;;
	esac
}
bin/tenaq() { tenaq "$@"; }
set -v
`

// Blocks are fenced, also within lists, or indented by four blanks. Of the second kind only those
// count that begin with a command.
var (
	fenced   = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```")
	indented = regexp.MustCompile(`(?m)\n\n((?:    (?:tenaq|aws|curl|go|make) .*\n)(?:    .*\n)*)`)
	command  = regexp.MustCompile(`(?m)^(bin/)?tenaq `)
)

// others are languages that are not played.
var others = map[string]string{
	"":        "an example of output or of a message",
	"mermaid": "a picture",
	"go":      "TestGo compiles it",
	"hcl":     "test/sdk applies such a configuration with Terraform",
	"js":      "it needs Docker",
	"java":    "it needs Docker",
}

// A block is what a page shows as code.
type block struct{ language, text string }

func blocks(text string) (all []block) {
	places := fenced.FindAllStringSubmatchIndex(text, -1)
	for _, m := range indented.FindAllStringSubmatchIndex(fenced.ReplaceAllStringFunc(text, func(s string) string {
		return strings.Repeat(" ", len(s)-1) + "\n"
	}), -1) {
		places = append(places, []int{m[0], m[1], 0, 0, m[2], m[3]})
	}
	slices.SortFunc(places, func(a, b []int) int { return a[0] - b[0] })
	for _, m := range places {
		b := block{"sh", text[m[4]:m[5]]}
		if m[2] > 0 {
			b.language = text[m[2]:m[3]]
		}
		all = append(all, b)
	}
	return all
}

func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: starts thirty servers")
	}
	root := os.DirFS("../..")
	left := map[string]bool{} // pages with commands that no row has played
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/*/*.md"} {
		names, err := fs.Glob(root, pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		for _, name := range names {
			for _, b := range blocks(read(t, root, name)) {
				if left[name] = left[name] || others[b.language] == ""; b.language == "" && command.MatchString(b.text) {
					t.Errorf("%s: the block is one of sh:\n%s", name, b.text)
				}
			}
		}
	}
	for i, p := range pages {
		names, err := fs.Glob(root, p.name)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", p.name, names, err)
		}
		var text string
		for _, name := range names {
			text += read(t, root, name) + "\n"
			delete(left, name)
		}
		t.Run(strings.ReplaceAll(strings.TrimSuffix(p.name, ".md"), "/", "_"), func(t *testing.T) {
			t.Parallel()
			p.play(t, text, i)
		})
	}
	for name, commands := range left {
		if commands {
			t.Errorf("%s has commands and no row in the table", name)
		}
	}
}

func read(t *testing.T, root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// script joins the blocks that run.
func (p *page) script(t *testing.T, text string) string {
	var script strings.Builder
	used := make([]bool, len(p.at))
block:
	for _, b := range blocks(text) {
		switch b.language {
		case "sh":
		case "sql":
			b.text = "psql -q -v ON_ERROR_STOP=1 \"$DATABASE\" <<'END'\n" + b.text + "END\n"
		case "python":
			b.text = "cat >block.py <<'END'\n" + b.text + "END\npython3 -m py_compile block.py\n"
		case "yaml":
			b.text = "cat >tenaq.yaml <<'END'\n" + b.text + "END\ntenaq config --config tenaq.yaml >config\n"
		case "json":
			if !json.Valid([]byte(b.text)) {
				t.Errorf("no JSON:\n%s", b.text)
			}
			continue
		default:
			if _, known := others[b.language]; !known {
				t.Errorf("a block in the language %q:\n%s", b.language, b.text)
			}
			continue
		}
		for i, s := range p.at {
			if !strings.Contains(b.text, s.text) {
				continue
			}
			if s.not != "" {
				used[i] = true
				continue block
			}
			if !used[i] {
				used[i] = true
				script.WriteString(s.before + "\n")
			}
		}
		script.WriteString(b.text)
	}
	for i, s := range p.at {
		if !used[i] {
			t.Errorf("no block contains %q", s.text)
		}
	}
	return script.String()
}

func (p *page) play(t *testing.T, text string, number int) {
	body := p.before + "\n" + p.script(t, text)
	for i := 0; i < len(p.swap); i += 2 {
		if !strings.Contains(body, p.swap[i]) {
			t.Errorf("no block contains %q", p.swap[i])
		}
		body = strings.ReplaceAll(body, p.swap[i], p.swap[i+1])
	}
	if t.Failed() {
		return
	}
	// Each page has four addresses of its own on the loopback interface, so all use the ports that
	// they show.
	base := func(n int) string {
		return fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()>>8&127, os.Getpid()&255, 4*number+n)
	}
	body = strings.NewReplacer("127.0.0.1", base(0), "localhost:", base(0)+":", "0.0.0.0", base(0),
		"10.0.0.1:", base(1)+":", "10.0.0.2:", base(2)+":", "10.0.0.3:", base(3)+":",
		"curl -s ", "curl --fail-with-body -s ", "curl -H", "curl --fail-with-body -H").Replace(body)

	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(built.Program(t), filepath.Join(dir, "bin", "tenaq")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", prelude+body)
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	cmd.Env = []string{"HOME=" + dir, "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"),
		"TENAQ_LISTEN=" + base(0) + ":9324", "TENAQ_ADMIN_LISTEN=off", "TENAQ_ALARM_MINUTE=1s",
		"TENAQ_ENDPOINT_URL=http://" + base(0) + ":9324"}
	if p.database {
		cmd.Env = append(cmd.Env, "DATABASE="+pgtest.URL(t))
	}
	if p.buckets {
		cmd.Env = append(cmd.Env, "BUCKETS="+mototest.URL(t))
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range p.want {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

// The blocks in Go compile.
func TestGo(t *testing.T) {
	found := 0
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/*/*.md"} {
		names, err := fs.Glob(os.DirFS("../.."), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
		block:
			for _, b := range blocks(read(t, os.DirFS("../.."), name)) {
				if b.language != "go" {
					continue
				}
				for part, program := range programs {
					if !strings.Contains(b.text, part) {
						continue
					}
					found++
					if program != "" {
						compile(t, name, strings.Replace(program, "BLOCK", b.text, 1))
					}
					continue block
				}
				t.Errorf("%s: no program contains\n%s", name, b.text)
			}
		}
	}
	if found != len(programs) {
		t.Errorf("%d blocks, want %d", found, len(programs))
	}
}

func compile(t *testing.T, page, program string) {
	file := filepath.Join(t.TempDir(), "block.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "vet", "-trimpath", file).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s\n%s", page, err, program, out)
	}
}
