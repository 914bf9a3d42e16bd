package sqs

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/door/policy"
	"tenaq/internal/engine"
)

// owned is a queue of the account of callWith, foreign one of another.
var (
	owned   = engine.QueueName{Account: "111122223333", Name: "orders"}
	foreign = engine.QueueName{Account: "999999999999", Name: "orders"}
)

func statements(list ...string) string { return `{"Statement":[` + strings.Join(list, ",") + `]}` }

func says(effect, principal, action string) string {
	return fmt.Sprintf(`{"Effect":%q,"Principal":%s,"Action":%q}`, effect, principal, action)
}

// TestAllow is the table of who decides what. [AUTH-17, AUTH-20, AUTH-21, AUTH-42, AUTH-44, AUTH-50]
func TestAllow(t *testing.T) {
	const (
		fine     = ""
		identity = "because no identity-based policy allows"
		resource = "because no resource-based policy allows"
		deny     = "with an explicit deny in a resource-based policy"

		user, account = `{"AWS":"arn:aws:iam::111122223333:user/orders"}`, `{"AWS":"111122223333"}`
	)
	for _, test := range []struct {
		allow  string // of the key
		policy string
		action string
		// The outcomes, for the account's own queue and for one of another account with the same policy.
		own, other string
	}{
		{`"sqs:*"`, "", "SendMessage", fine, resource},
		{`"sqs:Receive*"`, "", "SendMessage", identity, identity},
		{`"sqs:*"`, statements(says("Allow", `"*"`, "sqs:SendMessage")), "SendMessage", fine, fine},
		{`"sqs:*"`, statements(says("Allow", `"*"`, "sqs:ReceiveMessage")), "SendMessage", fine, resource},
		{`"sqs:Receive*"`, statements(says("Allow", `"*"`, "sqs:SendMessage")), "SendMessage", fine, identity},
		{`"sqs:Receive*"`, statements(says("Allow", user, "sqs:SendMessage")), "SendMessage", fine, identity},
		{`"sqs:Receive*"`, statements(says("Allow", account, "sqs:SendMessage")), "SendMessage", identity, identity},
		{`"sqs:*"`, statements(says("Allow", account, "sqs:SendMessage")), "SendMessage", fine, fine},
		{`"sqs:*"`, statements(says("Allow", `"*"`, "sqs:*"), says("Deny", account, "sqs:SendMessage")), "SendMessage", deny, resource},
		{`"sqs:Receive*"`, statements(says("Deny", `"*"`, "*")), "SendMessage", deny, identity},
		{`"*"`, statements(says("Deny", `"*"`, "*")), "SendMessage", deny, resource},
		{`"sqs:*"`, statements(says("Allow", `"*"`, "sqs:*")), "DeleteQueue", fine, resource},
		{`"sqs:*"`, statements(says("Allow", `"*"`, "sqs:*")), "PurgeQueue", fine, fine},
		{`"*"`, statements(says("Deny", `"*"`, "*")), "SetQueueAttributes", fine, resource},
		{`"*"`, statements(says("Deny", `"*"`, "*")), "GetQueueAttributes", fine, resource},
		{`"*"`, statements(says("Deny", `"*"`, "*")), "GetQueueUrl", fine, resource},
		{`"*"`, statements(says("Deny", `"*"`, "*")), "DeleteQueue", deny, resource},
		{`"sqs:*"`, statements(says("Deny", `"*"`, "*")), "SetQueueAttributes", deny, resource},
		{`"*"`, statements(says("Deny", `"*"`, "sqs:ReceiveMessage")), "tenaq:PeekMessages", deny, resource}, // looking is much like it
		{`"*"`, statements(says("Deny", `"*"`, "sqs:SendMessage")), "tenaq:PeekMessages", fine, resource},
		{`"sqs:*"`, statements(says("Allow", `"*"`, "*")), "tenaq:PeekMessages", identity, identity},
		{`"*"`, statements(says("Allow", `"*"`, "*")), "tenaq:PeekMessages", fine, resource},
		{`"*"`, statements(says("Deny", `"*"`, "*")), "tenaq:ListQueues", deny, resource},
		{`"*"`, "{", "SendMessage", deny, resource},        // what cannot be read denies everything
		{`"*"`, "{", "SetQueueAttributes", fine, resource}, // but to be replaced
	} {
		for queue, want := range map[engine.QueueName]string{owned: test.own, foreign: test.other} {
			c := callWith(t, map[engine.QueueName]string{queue: test.policy}, test.allow)
			action := test.action
			if !strings.Contains(action, ":") {
				action = "sqs:" + action
			}
			err := c.allow(action, queue)
			switch {
			case (err == nil) != (want == fine), err != nil && !strings.Contains(err.Error(), want):
				t.Errorf("%s with %s on %v with the policy %s: got %v, want %q", test.action, test.allow, queue, test.policy, err, want)
			case err != nil && wireError(err).Code != sqswire.AccessDenied:
				t.Errorf("%v: want AccessDenied", err)
			}
		}
	}
}

// A refusal does not say whether there is a queue in another account: it is the same for one that is not there, one without
// a policy, one that allows something else and one that denies. [AUTH-20]
func TestNothingIsToldOfOtherAccounts(t *testing.T) {
	for _, action := range []string{"SendMessage", "GetQueueUrl", "DeleteQueue"} {
		var first string
		for i, text := range []string{"", statements(says("Allow", `"*"`, "sqs:ReceiveMessage")), statements(says("Deny", `"*"`, "*")), "{"} {
			err := callWith(t, map[engine.QueueName]string{foreign: text}, `"*"`).allow("sqs:"+action, foreign)
			if err == nil {
				t.Fatalf("%s: got no refusal", text)
			}
			if i == 0 {
				first = err.Error()
			}
			if err.Error() != first {
				t.Errorf("%s:\ngot  %v\nwant %s", text, err, first)
			}
		}
	}
}

// Conditions look at the connection, the clock and the user agent, and believe no other header. [AUTH-46]
func TestConditionsOfConnections(t *testing.T) {
	when := func(condition string) string {
		return `{"Statement":{"Effect":"Deny","Principal":"*","Action":"*","Condition":{` + condition + `}}}`
	}
	for _, test := range []struct {
		remote    string
		secure    bool
		condition string
		denied    bool
	}{
		{"10.1.2.3:4567", false, `"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}`, true},
		{"192.0.2.1:4567", false, `"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}`, false}, // although X-Forwarded-For says so
		{"192.0.2.1:4567", false, `"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}`, true},
		{"[::ffff:10.1.2.3]:4567", false, `"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}`, true}, // how a socket for both shows it
		{"[fe80::1%eth0]:4567", false, `"IpAddress":{"aws:SourceIp":"fe80::/10"}`, true},
		{"pipe", false, `"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}`, true},
		{"pipe", false, `"IpAddress":{"aws:SourceIp":"0.0.0.0/0"}`, false},
		{"10.1.2.3:4567", false, `"Bool":{"aws:SecureTransport":"false"}`, true},
		{"10.1.2.3:4567", true, `"Bool":{"aws:SecureTransport":"false"}`, false},
		{"10.1.2.3:4567", false, `"ArnEquals":{"aws:PrincipalArn":"arn:aws:iam::111122223333:user/orders"}`, true},
		{"10.1.2.3:4567", false, `"StringNotEquals":{"aws:PrincipalAccount":"111122223333"}`, false},
		{"10.1.2.3:4567", false, `"StringLike":{"aws:UserAgent":"aws-cli/*"}`, true},
		{"10.1.2.3:4567", false, `"StringNotLike":{"aws:UserAgent":"aws-cli/*"}`, false},
		{"10.1.2.3:4567", false, `"DateGreaterThan":{"aws:CurrentTime":"2026-01-01T00:00:00Z"}`, true},
		{"10.1.2.3:4567", false, `"NumericLessThan":{"aws:EpochTime":"1767225600"}`, false}, // the same moment
	} {
		c := callWith(t, map[engine.QueueName]string{owned: when(test.condition)}, `"sqs:*"`)
		c.http.RemoteAddr = test.remote
		c.http.Header.Set("X-Forwarded-For", "10.9.9.9")
		c.http.Header.Set("X-Forwarded-Proto", "https")
		c.http.Header.Set("User-Agent", "aws-cli/2.30")
		if test.secure {
			c.http.TLS = new(tls.ConnectionState)
		}
		if err := c.allow("sqs:SendMessage", owned); (err != nil) != test.denied {
			t.Errorf("%s, TLS %v, %s: got %v, want it denied: %v", test.remote, test.secure, test.condition, err, test.denied)
		}
	}
}

// A policy is read once for each version, parsed once for each text, and never for what cannot be the name of a queue.
// [AUTH-45]
func TestPoliciesAreRemembered(t *testing.T) {
	source := &policyMap{texts: map[engine.QueueName]string{owned: statements(says("Deny", `"*"`, "*"))}}
	p := policies{source: source, logger: slog.New(slog.DiscardHandler)}
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

// What is remembered is bounded, in names and in bytes, and does not keep the bodies that names came in.
func TestPoliciesAreBounded(t *testing.T) {
	text := statements(strings.Replace(says("Allow", `"*"`, "sqs:*"), `"Effect"`, `"Sid":"`+strings.Repeat("x", 7000)+`","Effect"`, 1))
	for _, test := range []struct {
		text  string
		names int
	}{{"", rememberedMax + 100}, {text, 2 * rememberedBytesMax / 7000}} {
		source := &policyMap{texts: map[engine.QueueName]string{}}
		p := policies{source: source, logger: slog.New(slog.DiscardHandler)}
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
		if most > rememberedMax || bytes > rememberedBytesMax || len(p.known) == 0 {
			t.Errorf("got up to %d names with %d bytes, want at most %d and %d", most, bytes, rememberedMax, rememberedBytesMax)
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
	p := policies{source: &policyMap{}, logger: slog.New(slog.DiscardHandler)}
	for i := range 64 {
		body := strings.Repeat("x", 1<<20) + "111122223333" + fmt.Sprintf("name-%03d", i)
		p.of(engine.QueueName{Account: body[1<<20 : 1<<20+12], Name: body[1<<20+12:]})
	}
	if grown := int64(heap()) - int64(before); grown > 8<<20 {
		t.Errorf("64 names of 1 MiB bodies keep %d bytes", grown)
	}
	runtime.KeepAlive(&p)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A policy can name every operation, but for batches, which are asked for as their single action, and nothing else. [AUTH-18, AUTH-24]
func TestPoliciesNameOperations(t *testing.T) {
	named := 0
	for _, op := range sortedOperations() {
		_, err := policy.Parse(statements(says("Deny", `"*"`, "sqs:"+op.Name)))
		if batch := strings.HasSuffix(op.Name, "Batch"); (err == nil) == batch {
			t.Errorf("%s: got %v, want an error: %v", op.Name, err, batch)
		}
		if err == nil {
			named++
		}
	}
	if got := policy.Actions(); len(got) != named {
		t.Errorf("got %d actions, want the %d that are served: %v", len(got), named, got)
	}
}

// A policy that another version of this program has taken, and this one cannot read, is said in the log and denies everything.
func TestUnreadablePolicyIsLogged(t *testing.T) {
	var log bytes.Buffer
	p := policies{source: &policyMap{texts: map[engine.QueueName]string{owned: `{"Statement":7}`}}, logger: slog.New(slog.NewTextHandler(&log, nil))}
	for range 3 {
		if got := p.of(owned); got != deniesAll {
			t.Errorf("got %v, want one that denies everything", got)
		}
	}
	if n := strings.Count(log.String(), "policy cannot be read"); n != 1 {
		t.Errorf("got %d lines, want 1: %s", n, &log)
	}
}

// Policies may be asked for at any time, while others change them: nobody gets one that is older than the version before it
// asked. [AUTH-45]
func TestPoliciesAtTheSameTime(t *testing.T) {
	source := &movingPolicy{}
	p := policies{source: source, logger: slog.New(slog.DiscardHandler)}
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

// A movingPolicy is about a queue that has its version as name. It changes its text before its version, as the broker does.
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

// BenchmarkPermit is what it costs to find that a request may be carried out, once it is known who asks.
func BenchmarkPermit(b *testing.B) {
	full := make([]string, policy.StatementsMax)
	for i := range full {
		full[i] = fmt.Sprintf(`{"Effect":"Allow","Principal":{"AWS":"%012d"},"Action":"sqs:SendMessage","Resource":"arn:aws:sqs:*:111122223333:orders"}`, i)
	}
	for _, test := range []struct{ name, text string }{{"none", ""}, {"one", statements(says("Allow", `"*"`, "sqs:*"))}, {"full", statements(full...)}} {
		b.Run(test.name, func(b *testing.B) {
			c := callWith(b, map[engine.QueueName]string{owned: test.text}, `"sqs:*"`)
			c.http = httptest.NewRequest("POST", "/", nil)
			req := &sqswire.SendMessageRequest{OnQueue: sqswire.OnQueue{QueueURL: sqswire.Some("http://" + signHost + "/111122223333/orders")}}
			b.ReportAllocs()
			for b.Loop() {
				if err := c.permit(operations["SendMessage"], req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
