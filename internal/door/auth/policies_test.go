package auth

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	"tenaq/internal/door/policy"
	"tenaq/internal/engine"
)

// owned and foreign are queues of two accounts.
var (
	owned   = engine.QueueName{Account: "111122223333", Name: "orders"}
	foreign = engine.QueueName{Account: "999999999999", Name: "orders"}
)

func statements(list ...string) string { return `{"Statement":[` + strings.Join(list, ",") + `]}` }

func says(effect, principal, action string) string {
	return fmt.Sprintf(`{"Effect":%q,"Principal":%s,"Action":%q}`, effect, principal, action)
}

// A policyMap is the policies of some queues, at a version.
type policyMap struct {
	texts   map[engine.QueueName]string
	version uint64
	reads   int
}

func (m *policyMap) Policy(name engine.QueueName) string { m.reads++; return m.texts[name] }
func (m *policyMap) PolicyVersion() uint64               { return m.version }

// A policy is read once for each version, parsed once for each text, and never for what cannot be
// the name of a queue. [AUTH-45]
func TestPoliciesAreCached(t *testing.T) {
	source := &policyMap{texts: map[engine.QueueName]string{owned: statements(says("Deny", `"*"`, "*"))}}
	p := NewPolicies(source, slog.New(slog.DiscardHandler))
	first := p.of(owned)
	if first == nil || p.of(owned) != first || p.of(foreign) != nil || p.of(foreign) != nil || source.reads != 2 {
		t.Errorf("got %v after %d reads, want it remembered after one each", first, source.reads)
	}
	source.version++
	if p.of(owned) != first || source.reads != 3 {
		t.Errorf("got another policy of the same text, or %d reads, want 3", source.reads)
	}
	source.texts[owned] = ""
	if p.of(owned) != first {
		t.Error("got another policy at the same version")
	}
	source.version++
	if got := p.of(owned); got != nil {
		t.Errorf("got %v, want none since it was removed", got)
	}
	reads := source.reads
	for _, none := range []engine.QueueName{{}, {Account: "111122223333"}, {Account: "queue", Name: "orders"},
		{Account: "111122223333", Name: strings.Repeat("q", 81)}} {
		if p.of(none) != nil || source.reads != reads {
			t.Errorf("%v: was read", none)
		}
	}
}

// The cache is bounded, in names and in bytes, and does not keep the bodies that names came in.
func TestPoliciesAreBounded(t *testing.T) {
	text := statements(strings.Replace(says("Allow", `"*"`, "sqs:*"), `"Effect"`, `"Sid":"`+strings.Repeat("x", 7000)+`","Effect"`, 1))
	for _, test := range []struct {
		text  string
		names int
	}{{"", cachedMax + 100}, {text, 2 * cachedBytesMax / 7000}} {
		source := &policyMap{texts: map[engine.QueueName]string{}}
		p := NewPolicies(source, slog.New(slog.DiscardHandler))
		most, bytes := 0, 0
		for i := range test.names {
			name := engine.QueueName{Account: "111122223333", Name: fmt.Sprint("q", i)}
			source.texts[name] = test.text
			if got := p.of(name); (got != nil) != (test.text != "") {
				t.Fatalf("%v: got %v", name, got)
			}
			most, bytes = max(most, len(p.known)), max(bytes, p.bytes)
			if i%2 == 1 { // what is there already is read again
				source.version++
				p.of(name)
			}
		}
		if most > cachedMax || bytes > cachedBytesMax || len(p.known) == 0 {
			t.Errorf("got up to %d names with %d bytes, want at most %d and %d", most, bytes, cachedMax, cachedBytesMax)
		}
		sum := 0
		for _, known := range p.known { // order does not matter: a sum
			sum += len(known.text)
		}
		if sum != p.bytes {
			t.Errorf("got %d bytes counted, want %d", p.bytes, sum)
		}
	}
	before := heap()
	p := NewPolicies(&policyMap{}, slog.New(slog.DiscardHandler))
	for i := range 64 {
		body := strings.Repeat("x", 1<<20) + "111122223333" + fmt.Sprintf("name-%03d", i)
		p.of(engine.QueueName{Account: body[1<<20 : 1<<20+12], Name: body[1<<20+12:]})
	}
	if grown := int64(heap()) - int64(before); grown > 8<<20 {
		t.Errorf("64 names of 1 MiB bodies keep %d bytes", grown)
	}
	runtime.KeepAlive(p)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A policy that another version of this program has taken, and this one cannot read, is said in the
// log and denies everything.
func TestUnreadablePolicyIsLogged(t *testing.T) {
	var log bytes.Buffer
	p := NewPolicies(&policyMap{texts: map[engine.QueueName]string{owned: `{"Statement":7}`}}, slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		if got := p.of(owned); got != deniesAll {
			t.Errorf("got %v, want one that denies everything", got)
		}
	}
	if n := strings.Count(log.String(), "cannot parse the policy"); n != 1 {
		t.Errorf("got %d lines, want 1: %s", n, &log)
	}
}

// Policies may be asked for at any time, while others change them: no caller gets a policy older
// than the version that was current before it asked. [AUTH-45]
func TestPoliciesConcurrently(t *testing.T) {
	source := &movingPolicy{}
	p := NewPolicies(source, slog.New(slog.DiscardHandler))
	denies := func(known *policy.Policy, version uint64) bool {
		return known.Decide(policy.Ask{Action: "sqs:SendMessage", Resource: versionARN(version)}) == policy.Deny
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 2000 {
				least := source.PolicyVersion()
				known := p.of(owned)
				most := source.PolicyVersion() + 1 // which may be there already, and is not said yet
				version := least
				for version <= most && !denies(known, version) {
					version++
				}
				if version > most {
					t.Errorf("got a policy that is none of the versions %d to %d", least, most)
				}
			}
		})
	}
	for range 500 {
		source.change()
	}
	all.Wait()
}

func versionARN(version uint64) string {
	return fmt.Sprint("arn:aws:sqs:us-east-1:111122223333:v", version)
}

// A movingPolicy is about a queue that has its version as name. It changes its text before its
// version, as the broker does.
type movingPolicy struct {
	mu            sync.Mutex
	text, version uint64
}

func (m *movingPolicy) change() {
	m.mu.Lock()
	m.text++
	m.mu.Unlock()
	runtime.Gosched()
	m.mu.Lock()
	m.version++
	m.mu.Unlock()
}

func (m *movingPolicy) Policy(engine.QueueName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return statements(fmt.Sprintf(`{"Effect":"Deny","Principal":"*","Action":"*","Resource":%q}`, versionARN(m.text)))
}

func (m *movingPolicy) PolicyVersion() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version
}
