// Package pages plays the pages of the documentation that can be followed step by step: their
// blocks run in a shell, in their order, against a server of their own. That each command of every
// other page exists is a test of cmd/tenaq.
package pages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tenaq/internal/testing/built"
)

var folder string

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "tenaq-pages-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

var program = sync.OnceValues(func() (string, error) { return built.Program(folder) })

// A page is one that can be followed. Blocks with one of the texts in without do not run here.
type page struct {
	name         string
	blocks, left int // that run, and that do not
	without      []string
	want         []string // in the output
}

var pages = []page{
	{"README.md", 5, 4, []string{"cluster", "bench", "go mod"}, // a cluster and benchmarks have tests
		[]string{"attempt 1 at", "no such address", "Nothing was sent; add --run", "no address"}},
	{"docs/first-steps.md", 4, 0, nil, []string{"jobs-dlq/dead-letters", "is acknowledged"}},
	{"docs/operations/inspect.md", 1, 6,
		[]string{"AQEB", "order-17", "curl -sN", "5f0c1a52", "aws sqs", "tag orders"}, // of other queues
		[]string{"no customer #", `"how": "poison"`}},
}

var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```")

func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: builds the program")
	}
	for _, p := range pages {
		t.Run(strings.ReplaceAll(p.name, "/", "_"), func(t *testing.T) { p.play(t) })
	}
}

func (p *page) play(t *testing.T) {
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../" + p.name)
	if err != nil {
		t.Fatal(err)
	}
	// What a page says in words happens before: the program is built, and a server runs.
	const serve = `tenaq serve --listen 127.0.0.1:0 --admin-listen off --alarm-minute 1s >server.log &
until grep -q ready server.log; do sleep 0.1; done
export TENAQ_ENDPOINT_URL=$(grep -o 'http://127[.]0[.]0[.]1:[0-9]*' server.log | head -n 1)
`
	script, blocks, left := "set -e\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n", 0, 0
	if !strings.Contains(string(text), "\nbin/tenaq serve &") {
		script += serve
	}
block:
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		if m[1] != "sh" {
			continue
		}
		for _, part := range p.without {
			if strings.Contains(m[2], part) {
				left++
				continue block
			}
		}
		script += m[2]
		blocks++
	}
	script = regexp.MustCompile(`(?m)^bin/tenaq serve &.*\n`).ReplaceAllLiteralString(script, serve)
	script = strings.NewReplacer("\nmake ", "\n: ", "sleep 90", "sleep 4").Replace(script)
	if blocks != p.blocks || left != p.left {
		t.Errorf("%d blocks run and %d do not, want %d and %d", blocks, left, p.blocks, p.left)
	}

	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(dir, "bin", "tenaq")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	cmd.Env = []string{"HOME=" + dir, "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"),
		"TENAQ_RECORDS=server"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	for _, want := range p.want {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}
