package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/internal/testing/built"
)

// Twins are two servers with the same content, down to the ids of messages: on one, buttons are
// pressed, and on the other one, commands are run.
type twins struct {
	t              *testing.T
	buttons, typed *server
	like           string            // id of a message
	edit           []string          // ids of dead letters: two of edit-dlq, two of found-dlq
	task           map[string]string // by its queue
	known          map[string]bool   // ids that both have
	bin, home      string
	stores         []string // paths of their stores in SQLite
}

// newTwins furnishes two servers in the same way.
func newTwins(t *testing.T, furnish func(*twins, *server)) *twins {
	t.Helper()
	w := &twins{t: t, task: make(map[string]string), known: make(map[string]bool), home: t.TempDir()}
	first, second := t.TempDir(), t.TempDir()
	args := func(dir string) []string {
		config := filepath.Join(dir, "tenaq.yaml")
		if err := os.WriteFile(config, fmt.Appendf(nil, `redrive:
  records: server
  ledger: jobs/
  queues:
    - {dead-letter: calm-dlq, parking: lot, schedule: "0 0 1 1 *"}
    - {dead-letter: step-dlq, parking: lot, target: send, schedule: "0 0 1 1 *", policy: {rate-first: 2, delay-base: 30s}}
claims:
  - {name: shop, records: "sqlite:%s/shop.db"}
`, dir), 0o600); err != nil {
			t.Fatal(err)
		}
		addClaimsTo(t, sqliteStore(dir+"/shop.db"))
		w.stores = append(w.stores, dir+"/shop.db")
		return []string{"--config", config, "--alarm-minute", "1s"}
	}
	of := [2][]string{args(first), args(second)}
	s := serveFrom(t, first, nil, of[0]...)
	furnish(w, s)
	for _, id := range ids.FindAllString(w.text(s), -1) {
		w.known[id] = true
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(second, "data"), os.DirFS(filepath.Join(first, "data"))); err != nil {
		t.Fatal(err)
	}
	w.buttons, w.typed = serveFrom(t, first, nil, of[0]...), serveFrom(t, second, nil, of[1]...)
	bin := t.TempDir()
	if err := os.Symlink(built.Program(t), filepath.Join(bin, "tenaq")); err != nil {
		t.Fatal(err)
	}
	w.bin = bin
	return w
}

// furnish gives a server what the cases are about.
func (w *twins) furnish(s *server) {
	for _, queue := range []string{"send", "gone", "pause", "lot", "older-dlq", "slow", "again", "rate", "cancel"} {
		s.create(queue, nil, nil)
	}
	s.create("purge", nil, nil)
	s.create("resume", nil, object{"tenaq:paused": "true", "stage": "test"})
	s.create("send.fifo", object{"FifoQueue": "true"}, nil)
	for i := range 3 {
		s.send("purge", fmt.Sprint(i), nil)
	}
	w.like = s.send("resume", `{"like": "this"}`, object{"MessageAttributes": object{
		"raw": object{"DataType": "Binary.x", "BinaryValue": "AAEC/w=="}, "n": object{"DataType": "Number", "StringValue": "-1"}}})
	for _, name := range []string{"back", "move", "park", "delete", "found", "edit", "calm", "loud"} {
		s.failing(name)
	}
	s.create("step-dlq", nil, nil)
	for i := range 3 { // one more than its policy sends back at once
		s.send("step-dlq", fmt.Sprint(i), nil)
	}
	var list struct{ Messages []struct{ MessageID string } }
	for _, queue := range []string{"edit-dlq", "found-dlq"} {
		s.ask("/v1/queues/"+queue+"/messages", nil, &list)
		for _, m := range list.Messages[:2] {
			w.edit = append(w.edit, m.MessageID)
		}
	}
	for queue, n := range map[string]int{"slow": 900, "again": 4, "rate": 3, "cancel": 3} { // slow runs longer than a test
		s.sendMany(queue, n)
		s.create(queue+"-to", nil, nil)
		var task struct{ ID string }
		s.ask("/v1/tasks", object{"queue": queue, "do": "move", "to": queue + "-to", "rate": 1, "expected": n, "filter": object{}}, &task)
		s.ask("/v1/tasks/"+task.ID+"/pause", object{}, nil)
		w.task[queue] = task.ID
	}
	s.put("claim/settle 1", object{"v": 1, "state": "parked", "owner": "worker-9", "attempts": 2, "reason": "a holder was lost"})
	s.claim("done", "complete", object{"fence": s.claim("done", "acquire", object{"owner": "w"}), "result": "1"})
	s.claim("held", "acquire", object{"owner": "worker-7", "leaseMs": 3600_000})
	s.put("jobs/failed", object{"v": 1, "state": "failed", "owner": "worker-8", "attempts": 3, "reason": "timeout"})
}

// note writes a note about the kind whose reason begins like this.
func (s *server) note(queue, reason, text string) {
	s.t.Helper()
	var list struct {
		Kinds []struct{ Kind, Reason string }
	}
	s.ask("/v1/queues/"+queue+"/reasons", nil, &list)
	for _, k := range list.Kinds {
		if strings.HasPrefix(k.Reason, reason) {
			s.ask("/v1/queues/"+queue+"/reasons/"+k.Kind+"/note", object{"text": text}, nil)
			return
		}
	}
	s.t.Fatalf("%s has no messages that failed with %s: %+v", queue, reason, list)
}

// failing makes a queue with three dead letters of two kinds.
func (s *server) failing(name string) {
	s.t.Helper()
	s.create(name+"-dlq", nil, nil)
	s.create(name, object{"RedrivePolicy": redriveTo(name+"-dlq", 3), "VisibilityTimeout": "900"}, nil)
	for i, class := range []string{"CardDeclined", "CardDeclined", "Timeout"} {
		s.send(name, fmt.Sprintf(`{"order": %d}`, i), object{"MessageAttributes": object{"trial": object{"DataType": "Number", "StringValue": fmt.Sprint(i)}}})
		for _, m := range s.receive(name, nil) {
			s.nack(name, m.ReceiptHandle, "poison", class, "it failed")
		}
	}
	s.receive(name, nil) // moves what is poison
	if got := s.depth(name + "-dlq"); got != "3 0 0" {
		s.t.Fatalf("%s-dlq has %s", name, got)
	}
}

var (
	ids    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	person = regexp.MustCompile(` \([^()]*\)$`)    // who has paused a redriver
	times  = regexp.MustCompile(`\b1[78]\d{11}\b`) // in milliseconds, in the attribute of a trail
	people = regexp.MustCompile(`^arn:aws:iam::\d+:root$|^\S+@\S+ \(tenaq claims\)$`)
)

// answers are what a server says over /v1, by path. The action log is not among them: it says which
// way an action came.
type answers struct {
	s   *server
	ask func(path string, in, out any)
	all map[string]any
}

func (a *answers) get(path string) (got object) {
	a.s.t.Helper()
	var text json.RawMessage
	a.ask("/v1"+path, nil, &text)
	if err := json.Unmarshal(bytes.ReplaceAll(text, []byte(a.s.URL()), nil), &got); err != nil {
		a.s.t.Fatal(err)
	}
	a.all[path] = got
	return got
}

func (a *answers) list(path, member string) (all []object) {
	a.s.t.Helper()
	got := a.get(path)
	for _, e := range got[member].([]any) {
		all = append(all, e.(object))
	}
	if got["next"] != nil {
		a.s.t.Fatalf("%s has more than a page", path)
	}
	return all
}

// everything asks for all that can be seen of queues, messages, tasks and alarms.
func (s *server) everything(ask func(path string, in, out any)) *answers {
	s.t.Helper()
	a := &answers{s, ask, make(map[string]any)}
	var queues struct {
		Queues []struct{ Name string }
		Next   string
	}
	var names []string
	for more := true; more; more = queues.Next != "" {
		after := queues.Next
		queues.Next = ""
		ask("/v1/queues?limit=50&prefix=&after="+url.QueryEscape(after), nil, &queues)
		for _, q := range queues.Queues {
			names = append(names, q.Name)
		}
	}
	for _, name := range names {
		path := "/queues/" + url.PathEscape(name)
		if strings.HasPrefix(name, "slow") { // a task moves messages from one to the other meanwhile
			continue
		}
		if q := a.get(path); q["visible"] != 0.0 || q["inFlight"] != 0.0 || q["delayed"] != 0.0 {
			a.list(path+"/messages?limit=100&body=10000&attributes=1&trail=1", "messages")
			notes := make(object)
			for _, k := range a.list(path+"/reasons", "kinds") {
				if k["note"] != nil {
					notes[k["kind"].(string)] = k["note"]
				}
			}
			a.all[path+"/reasons"] = notes
		}
	}
	for _, t := range a.list("/tasks?limit=100", "tasks") {
		if t["queue"] == "slow" {
			delete(t, "done")
		}
	}
	alarms := a.get("/alarms")
	decided := make(object) // what people have said about alarms; their states change by themselves
	for _, a := range alarms["alarms"].([]any) {
		a := a.(object)
		decided[a["name"].(string)] = object{"acknowledged": a["acknowledged"], "silencedUntil": a["silencedUntil"]}
	}
	maps.DeleteFunc(decided, func(_ string, d any) bool {
		return d.(object)["acknowledged"] != true && d.(object)["silencedUntil"] == nil
	})
	a.all["/alarms"] = object{"decided": decided, "silences": alarms["silences"]}
	return a
}

// state is everything of a twin.
func (w *twins) state(s *server) map[string]any {
	s.t.Helper()
	a := s.everything(s.ask)
	for _, place := range []string{"ledger=claim%2F", "ledger=jobs%2F", "store=shop"} {
		for _, c := range a.list("/claims?limit=100&"+place, "claims") {
			a.get("/claims/" + url.PathEscape(c["key"].(string)) + "?" + place)
		}
	}
	a.get("/outbox/shop/parked")
	for _, r := range a.list("/redrivers", "redrivers") {
		delete(r, "step") // of this process
		delete(r, "history")
		if why, ok := r["paused"].(string); ok {
			r["paused"] = person.ReplaceAllString(why, "")
		}
	}
	return a.all
}

func (w *twins) text(s *server) string {
	text, err := json.Marshal(w.state(s))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// near is how far two times may be from each other: the command runs after the button.
const near = 5 * time.Minute

// differ lists the differences of two answers. Times and durations may be near each other. Ids of
// messages that are new on both, and places, have no meaning for another server.
func (w *twins) differ(at string, a, b any) (all []string) {
	different := []string{fmt.Sprintf("%s: %v, %v", at, a, b)}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			return different
		}
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if key != "place" {
				all = append(all, w.differ(at+" "+key, a[key], b[key])...)
			}
		}
		return all
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return different
		}
		for i := range a {
			all = append(all, w.differ(fmt.Sprint(at, " ", i), a[i], b[i])...)
		}
		return all
	case float64:
		b, ok := b.(float64)
		apart := math.Abs(a - b)
		if ok && (a == b || strings.HasSuffix(at, "Ms") && apart < float64(near.Milliseconds()) ||
			strings.HasSuffix(at, " fence") && apart < float64(near.Microseconds())) { // that of a claim is a time
			return nil
		}
	case string:
		b, ok := b.(string)
		if !ok {
			return different
		}
		a, b = w.plain(a), w.plain(b)
		if a == b {
			return nil
		}
		for _, form := range []string{time.RFC3339Nano, "epoch"} {
			one, err1 := timeOf(form, a)
			other, err2 := timeOf(form, b)
			if err1 == nil && err2 == nil && one.Sub(other).Abs() < near && (form != "epoch" || strings.HasSuffix(at, "Timestamp")) {
				return nil
			}
		}
	default:
		if a == b {
			return nil
		}
	}
	return different
}

func timeOf(form, text string) (time.Time, error) {
	if form != "epoch" {
		return time.Parse(form, text)
	}
	var seconds int64
	_, err := fmt.Sscanf(text, "%d", &seconds)
	return time.Unix(seconds, 0), err
}

// plain removes from a text what differs between servers: ids of new messages, times in a trail,
// and the name of the person who decided about a claim.
func (w *twins) plain(text string) string {
	if people.MatchString(text) {
		return "a person"
	}
	text = times.ReplaceAllString(text, "time")
	return ids.ReplaceAllStringFunc(text, func(id string) string {
		if w.known[id] {
			return id
		}
		return "new"
	})
}

// run runs a command of the page against the other server.
func (w *twins) run(t *testing.T, command string) {
	t.Helper()
	elsewhere := strings.NewReplacer(w.buttons.URL(), w.typed.URL(), w.stores[0], w.stores[1]).Replace(command)
	if !strings.HasPrefix(command, "tenaq ") || elsewhere == command {
		t.Fatalf("the page says: %s", command)
	}
	cmd := exec.Command("sh", "-c", elsewhere)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "TENAQ_") || strings.HasPrefix(v, "AWS_") || strings.HasPrefix(v, "PATH=") || strings.HasPrefix(v, "HOME=")
	}), "HOME="+w.home, "PATH="+w.bin+":"+os.Getenv("PATH"))
	cmd.Dir = w.home
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", elsewhere, err, out)
	}
}

// logged is the latest entry of the action log of the server whose buttons are pressed.
func (w *twins) logged() string {
	var log struct{ Actions json.RawMessage }
	w.buttons.ask("/v1/actions?limit=1", nil, &log)
	return string(log.Actions)
}

// working reports whether a task is running that ends by itself.
func working(state map[string]any) bool {
	for _, t := range state["/tasks?limit=100"].(object)["tasks"].([]any) {
		if t := t.(object); t["queue"] != "slow" && (t["state"] == "RUNNING" || t["state"] == "CANCELLING") {
			return true
		}
	}
	return false
}
