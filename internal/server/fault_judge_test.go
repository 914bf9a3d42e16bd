package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A state is all that a server shows of what it has: of each queue its attributes, tags, messages
// and move tasks, in words. Values that differ from run to run, such as times and identifiers, are
// left out. The queue of the crowd and the alarms are not in it.
type state map[string]string

// stateOf looks at everything, once no move task is running.
func stateOf(c *scriptClient) (state, error) {
	var list struct{ Queues []struct{ Name string } }
	if err := c.look("/v1/queues", &list); err != nil {
		return nil, err
	}
	s := make(state)
	for _, q := range list.Queues {
		if q.Name == crowdQueue {
			continue
		}
		tasks, err := c.moved(q.Name)
		if err != nil {
			return nil, err
		}
		var attributes struct{ Attributes map[string]string }
		if err := c.sqs("GetQueueAttributes", fields{"QueueUrl": q.Name, "AttributeNames": []string{"All"}}, &attributes); err != nil {
			return nil, err
		}
		delete(attributes.Attributes, "CreatedTimestamp")
		delete(attributes.Attributes, "LastModifiedTimestamp")
		var tags struct{ Tags map[string]string }
		if err := c.sqs("ListQueueTags", fields{"QueueUrl": q.Name}, &tags); err != nil {
			return nil, err
		}
		messages, err := messagesOf(c, q.Name)
		if err != nil {
			return nil, err
		}
		s[q.Name] = fmt.Sprintf("%v\n%v\n%s\n%s", attributes.Attributes, tags.Tags, tasks, strings.Join(messages, "\n"))
	}
	return s, nil
}

// messagesOf describes the messages of a queue, in the order of their names.
func messagesOf(c *scriptClient, queue string) ([]string, error) {
	var all []string
	for after := ""; ; {
		var page struct {
			Messages []struct {
				State, Body, GroupID, DeduplicationID, DeadLetterSource string
				ReceiveCount                                            int
			}
			Next string
		}
		if err := c.look("/v1/queues/"+queue+"/messages?body=1000000&limit=100&after="+url.QueryEscape(after), &page); err != nil {
			return nil, err
		}
		for _, m := range page.Messages {
			if len(m.DeduplicationID) == 36 {
				m.DeduplicationID = "one of the server's" // drawn for a message that was moved
			}
			all = append(all, fmt.Sprintf("%s, %s, %d receives, group %q, id %q, from %q",
				nameOf(m.Body), m.State, m.ReceiveCount, m.GroupID, m.DeduplicationID, m.DeadLetterSource))
		}
		if after = page.Next; after == "" {
			slices.Sort(all)
			return all, nil
		}
	}
}

// differ says in which queues two states differ, and how.
func (s state) differ(want state) string {
	var b strings.Builder
	for _, q := range slices.Sorted(maps.Keys(want)) {
		if s[q] == "" {
			fmt.Fprintf(&b, "queue %s is missing\n", q)
		}
	}
	for _, q := range slices.Sorted(maps.Keys(s)) {
		if s[q] == want[q] {
			continue
		}
		got, wanted := strings.Split(s[q], "\n"), strings.Split(want[q], "\n")
		for _, line := range got {
			if !slices.Contains(wanted, line) {
				fmt.Fprintf(&b, "queue %s: too much: %s\n", q, line)
			}
		}
		for _, line := range wanted {
			if !slices.Contains(got, line) {
				fmt.Fprintf(&b, "queue %s: missing: %s\n", q, line)
			}
		}
	}
	return b.String()
}

// A reference is what a server without a fault answers and has: states[i] is the state after i
// steps.
type reference struct {
	steps   []step
	answers []string
	states  []state
}

// theReference goes through the script with a healthy server, once for all tests.
func theReference(t *testing.T) *reference {
	once.Do(func() { known = newReference(t) })
	if known == nil {
		t.Fatal("there is no reference")
	}
	return known
}

var (
	once  sync.Once
	known *reference
)

func newReference(t *testing.T) *reference {
	r := &reference{steps: script()}
	dir := filepath.Join(t.TempDir(), "data")
	memory := memoryUnder(dir)
	start := func() (*Server, func() error) {
		cfg := faultConfig(dir, memory)
		cfg.Logger, cfg.Fatal = slog.New(slog.DiscardHandler), func(err error) { panic(err) }
		return run(t, cfg)
	}
	s, stop := start()
	c := newScriptClient("").at(s.URL())
	defer c.close()
	c.restart = func() (string, error) {
		c.close()
		err := stop()
		s, stop = start()
		return s.URL(), err
	}
	look := func() {
		at, err := stateOf(c)
		if err != nil {
			t.Fatal(err)
		}
		r.states = append(r.states, at)
	}
	look()
	for _, step := range r.steps {
		answer, err := step.do(c)
		if err != nil || strings.Contains(answer, "wrong body") || strings.Contains(answer, ": false") ||
			strings.Contains(answer, "failed") && !strings.Contains(answer, " 0 failed") {
			t.Fatalf("%s of a healthy server: %s, %v", step.name, answer, err)
		}
		r.answers = append(r.answers, answer)
		look()
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	<-c.poll
	return r
}

// judge starts a healthy server over what a run has left, and returns what is wrong with it.
func (r *reference) judge(dir string, run *faultRun) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	verify := func(when string) {
		if _, err := Verify(dir, func(f Finding) { note("verify %s finds: %s", when, f) }, nil); err != nil {
			note("verify %s: %v", when, err)
		}
	}
	if run.acked > 0 { // before, there may be no store
		verify("at once")
	}
	serveHealthy(dir, note, func(url string) error {
		c := run.client.at(url)
		defer c.close()
		return r.compare(c, run, note)
	})
	verify("afterwards")
	return wrong
}

// serveHealthy calls use with the address of a healthy server over a directory.
func serveHealthy(dir string, note func(string, ...any), use func(url string) error) {
	cfg := faultConfig(dir, vfs.Default)
	cfg.Logger = slog.New(slog.DiscardHandler)
	fatal := make(chan error, 1)
	cfg.Fatal = func(err error) {
		fatal <- err
		select {}
	}
	s, err := New(cfg)
	if err != nil {
		note("a healthy server does not start over it: %v", err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if err := use(s.URL()); err != nil {
		note("a healthy server over it: %v", err)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			note("a healthy server over it ends with %v", err)
		}
	case err := <-fatal:
		note("a healthy server over it ends with %v", err)
	case <-time.After(faultPatience):
		note("a healthy server over it does not stop")
	}
}

// judgeBackups restores the backups that were taken while the disk failed, and says which are not
// what there was.
func (r *reference) judgeBackups(dir string, c *scriptClient) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf("a backup: "+format, args...)) }
	for i, b := range c.backups {
		into := filepath.Join(dir, fmt.Sprint("backup", i))
		if _, err := Restore(context.Background(), bytes.NewReader(b), into, nil); err != nil {
			note("it is not restored: %v", err)
			continue
		}
		serveHealthy(into, note, func(url string) error {
			c := c.at(url)
			defer c.close()
			got, err := stateOf(c)
			if err != nil {
				return err
			}
			for at, step := range r.steps {
				if step.name == "backup" && got.differ(r.states[at]) == "" {
					return nil
				}
			}
			note("it holds what there was at the time of no backup")
			return nil
		})
	}
	return wrong
}

// compare holds what a healthy server shows to what the run was told.
func (r *reference) compare(c *scriptClient, run *faultRun, note func(string, ...any)) error {
	got, err := stateOf(c)
	if err != nil {
		return err
	}
	before := got.differ(r.states[run.acked])
	after := before
	if run.acked < len(r.steps) {
		after = got.differ(r.states[run.acked+1])
	}
	if before != "" && after != "" {
		next := "the end"
		if run.acked < len(r.steps) {
			next = r.steps[run.acked].name
		}
		note("%d steps were acknowledged and %s was under way. Against the state before it:\n%sand behind it:\n%s", run.acked, next, before, after)
	}
	if err := compareCrowd(c, note); err != nil {
		return err
	}
	if err := compareAlarms(c, run, note); err != nil {
		return err
	}
	return r.probe(c, got, note)
}

// compareCrowd holds the messages that were sent beside each other to what was answered.
func compareCrowd(c *scriptClient, note func(string, ...any)) error {
	if len(c.crowd) == 0 {
		return nil
	}
	messages, err := messagesOf(c, crowdQueue)
	if err != nil {
		return err
	}
	there := make(map[string]int)
	for _, m := range messages {
		there[strings.Fields(m)[0]]++
	}
	for name, acked := range c.crowd {
		if n := there[name]; n > 1 || acked && n == 0 {
			note("%s is there %d times; acknowledged: %v", name, n, acked)
		}
		delete(there, name)
	}
	if len(there) > 0 {
		note("there are messages that nobody sent: %v", there)
	}
	return nil
}

// compareAlarms holds the alarms to what was answered. The one that was under way may be there.
func compareAlarms(c *scriptClient, run *faultRun, note func(string, ...any)) error {
	var list struct {
		Alarms []struct {
			Name, Description string
			Shipped           bool
		}
	}
	if err := c.look("/v1/alarms", &list); err != nil {
		return err
	}
	there := make(map[string]bool)
	for _, a := range list.Alarms {
		if a.Shipped {
			continue
		}
		there[a.Name] = true
		if a.Description != text(a.Name, 1000) {
			note("alarm %s is not the one that was put", a.Name)
		}
		if !c.alarms[a.Name] && run.cut != "PutMetricAlarm "+a.Name {
			note("alarm %s is there and was refused", a.Name)
		}
	}
	for name := range c.alarms {
		if !there[name] {
			note("alarm %s was answered and is not there", name)
		}
	}
	return nil
}

// probe uses what clients keep: an id of a send that was answered is still known, and the handle of
// a message that is in flight deletes it.
func (r *reference) probe(c *scriptClient, at state, note func(string, ...any)) error {
	if first, ok := c.ids["d1"]; ok {
		var got struct{ MessageId string }
		if err := c.sqs("SendMessage", fields{"QueueUrl": "ledger.fifo", "MessageBody": "again", "MessageGroupId": "g1", "MessageDeduplicationId": "d1"}, &got); err != nil {
			return err
		}
		if got.MessageId != first {
			note("the deduplication id d1 is forgotten")
		}
	}
	const name = "b3 of 300, in_flight"
	if handle := c.handles["b3"]; handle != "" && strings.Contains(at["orders"], name) {
		if err := c.sqs("DeleteMessage", fields{"QueueUrl": "orders", "ReceiptHandle": handle}, nil); err != nil {
			return err
		}
		messages, err := messagesOf(c, "orders")
		if err != nil {
			return err
		}
		if strings.Contains(strings.Join(messages, "\n"), name) {
			note("a handle of before does not delete its message any more")
		}
	}
	return nil
}

// removeDir removes what a run has left, its ballast above all.
func removeDir(t *testing.T, dir string) {
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}
