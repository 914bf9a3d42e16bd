package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/testing/proof"
)

// A salvageSite is the data directory of a stopped server, and what was in its queues.
type salvageSite struct {
	dir   string
	want  map[string]map[string]int // bodies by queue
	all   int
	gone  map[string]bool // bodies of deleted messages
	files []string        // relative to dir
}

var salvageQueues = []string{"plain", "line.fifo", "large"}

// newSalvageSite fills queues with messages, and receives and deletes some of them. flushed puts
// most of them into tables; otherwise most are in the log.
func newSalvageSite(t *testing.T, flushed bool) *salvageSite {
	cfg := config(t)
	if flushed {
		cfg.store = func(o *pebblekv.Options) { o.MemTableBytes, o.SeparateBytes = 64<<10, 64 }
	}
	s, stop := run(t, cfg)
	site := &salvageSite{dir: cfg.DataDir, want: map[string]map[string]int{}, gone: map[string]bool{}}
	mustCall := func(action, body string) string {
		code, text := call(t, s, action, body)
		if code != 200 {
			t.Fatalf("%s: %d %s", action, code, text)
		}
		return text
	}
	for _, name := range salvageQueues {
		attributes := ""
		if strings.HasSuffix(name, ".fifo") {
			attributes = `, "Attributes": {"FifoQueue": "true"}`
		}
		mustCall("CreateQueue", fmt.Sprintf(`{"QueueName": %q%s}`, name, attributes))
		url := "http://" + s.Addr() + "/000000000000/" + name
		for i := range 40 {
			var entries []string
			for j := range 10 {
				body := fmt.Sprintf("%s %03d %s", name, i*10+j, strings.Repeat("x", 200))
				if name == "large" {
					body += strings.Repeat("y", 2000)
				}
				group := ""
				if strings.HasSuffix(name, ".fifo") {
					group = fmt.Sprintf(`, "MessageGroupId": "g%d", "MessageDeduplicationId": "d%d"`, j, i*10+j)
				}
				entries = append(entries, fmt.Sprintf(`{"Id": "%d", "MessageBody": %q%s}`, j, body, group))
			}
			mustCall("SendMessageBatch", fmt.Sprintf(`{"QueueUrl": %q, "Entries": [%s]}`, url, strings.Join(entries, ",")))
		}
		for range 5 {
			var got struct {
				Messages []struct{ ReceiptHandle, Body string }
			}
			mustDecode(t, mustCall("ReceiveMessage", fmt.Sprintf(`{"QueueUrl": %q, "MaxNumberOfMessages": 10}`, url)), &got)
			for i, m := range got.Messages {
				if i%2 == 0 {
					mustCall("DeleteMessage", fmt.Sprintf(`{"QueueUrl": %q, "ReceiptHandle": %q}`, url, m.ReceiptHandle))
					site.gone[m.Body] = true
				}
			}
		}
		site.want[name] = bodies(t, s, name)
		site.all += len(site.want[name])
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(cfg.DataDir, func(path string, d fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(cfg.DataDir, path); err == nil && d.Type().IsRegular() && name != ballastName {
			site.files = append(site.files, name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return site
}

// copy copies the directory.
func (s *salvageSite) copy(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "data")
	for _, name := range s.files {
		b, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pick returns a file of a kind, the largest half of the time.
func (s *salvageSite) pick(rng *rand.Rand, kind string) string {
	var names []string
	for _, name := range s.files {
		if strings.Contains(name, kind) && !strings.Contains(name, "marker") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	if rng.IntN(2) == 0 {
		return slices.MaxFunc(names, func(a, b string) int { return s.size(a) - s.size(b) })
	}
	return names[rng.IntN(len(names))]
}

func (s *salvageSite) size(name string) int {
	info, err := os.Stat(filepath.Join(s.dir, name))
	if err != nil {
		return 0
	}
	return int(info.Size())
}

// contents reads all files of a directory.
func contents(t *testing.T, dir string) map[string]string {
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// Every kind of file is damaged in several ways. The salvaged store verifies, and a server starts
// on it and shows what the report says was kept. It has nothing that never existed, the source is
// unchanged, and no more is lost than the damage explains. [DUR-36, DUR-37]
func TestSalvageDamaged(t *testing.T) {
	seed := proof.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	damaged := 0
	for _, flushed := range []bool{false, true} {
		if proof.Short() && flushed == (seed%2 == 0) {
			continue
		}
		site := newSalvageSite(t, flushed)
		if wantSalvaged(t, site, site.copy(t), "no damage", site.all) {
			t.Error("without damage, damage is found")
		}
		for i, kind := range []string{".log", ".sst", ".blob", "MANIFEST-", "OPTIONS-", "witness", "marker.manifest"} {
			for j, how := range []string{"bit", "cut", "gone"} {
				if proof.Short() && (i+j+int(seed%3))%3 != 0 {
					continue
				}
				dir := site.copy(t)
				name := site.pick(rng, kind)
				if kind == "marker.manifest" {
					name = site.files[slices.IndexFunc(site.files, func(n string) bool { return strings.Contains(n, kind) })]
				}
				least := site.all
				if name != "" {
					least = site.harm(t, rng, dir, name, how)
				}
				if wantSalvaged(t, site, dir, fmt.Sprintf("flushed %v, %s of %s", flushed, how, name), least) {
					damaged++
				}
			}
		}
	}
	if damaged < 8 && !proof.Short() {
		t.Errorf("only %d of the directories were found to be damaged", damaged)
	}
}

// harm damages a file, and returns how many messages must be kept all the same.
func (s *salvageSite) harm(t *testing.T, rng *rand.Rand, dir, name, how string) (least int) {
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data := strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
	if least = s.all; data {
		least = 0 // the file may hold all there is
	}
	switch {
	case how == "gone" || len(b) == 0:
		err = os.Remove(path)
	case how == "cut":
		err = os.WriteFile(path, b[:rng.IntN(len(b))], 0o600)
	default:
		at := rng.IntN(len(b)*3/4 + 1)
		if at < len(b)*3/4 && data {
			least = s.all / 2 // it costs a block, and of a log the rest of 32 KiB
		}
		if at == len(b) {
			at--
		}
		b[at] ^= 1 << rng.IntN(8)
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return least
}

// wantSalvaged salvages a directory and compares. It reports whether something was found to be
// damaged.
func wantSalvaged(t *testing.T, site *salvageSite, dir, what string, least int) (damaged bool) {
	t.Helper()
	before := contents(t, dir)
	cfg := config(t)
	cfg.DataDir = filepath.Join(t.TempDir(), "new")
	out, err := Salvage(t.Context(), dir, cfg.DataDir, nil)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return false
	}
	if after := contents(t, dir); !maps.Equal(before, after) {
		t.Errorf("%s: the source was changed", what)
	}
	s, stop := run(t, cfg)
	kept := 0
	for _, q := range out.Queues {
		got := bodies(t, s, q.Name)
		if int64(len(got)) != q.Kept {
			t.Errorf("%s: queue %s has %d messages, and %d were kept", what, q.Name, len(got), q.Kept)
		}
		for body := range got {
			from, _, _ := strings.Cut(body, " ")
			if site.want[from][body] == 1 {
				kept++
			} else if !site.gone[body] {
				t.Errorf("%s: queue %s has a message that was never sent: %.30q", what, q.Name, body)
			} else if len(out.Damage) == 0 {
				t.Errorf("%s: a deleted message is back, and nothing is said to be damaged", what)
			}
		}
	}
	if err := stop(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if kept < least {
		t.Errorf("%s: %d of %d messages are kept, want at least %d: %+v", what, kept, site.all, least, out.Damage)
	}
	if kept < site.all && len(out.Damage) == 0 {
		t.Errorf("%s: %d of %d messages are kept, and nothing is said to be damaged", what, kept, site.all)
	}
	return len(out.Damage) > 0
}

// An unusable source or destination is refused, and nothing is left behind. [DUR-36]
func TestSalvageRefuses(t *testing.T) {
	used, stop := run(t, config(t))
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	try := func(source, dir string) error { _, err := Salvage(t.Context(), source, dir, nil); return err }
	fresh := filepath.Join(t.TempDir(), "new")
	if err := try(used.cfg.DataDir, fresh); !errors.Is(err, ErrInUse) {
		t.Errorf("from a server that runs: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := try(used.cfg.DataDir, full); !errors.Is(err, ErrInUse) {
		t.Errorf("into a directory that is not empty: %v", err)
	}
	if err := try(used.cfg.DataDir, used.cfg.DataDir); !errors.Is(err, ErrConfig) {
		t.Errorf("into itself: %v", err)
	}
	if err := try(t.TempDir(), fresh); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("from an empty directory: %v", err)
	}
	if err := try(filepath.Join(full, "x"), fresh); !errors.Is(err, ErrConfig) {
		t.Errorf("from a file: %v", err)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a salvage that failed has left %s: %v", fresh, err)
	}
}

func mustDecode(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
}
