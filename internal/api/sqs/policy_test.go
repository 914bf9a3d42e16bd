package sqs

import (
	"crypto/tls"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"tenaq/internal/api/refusal"
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

// TestAllow is the table of which policy decides what. [AUTH-17, AUTH-20, AUTH-21, AUTH-42,
// AUTH-44, AUTH-50]
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
		// The outcomes, for the account's own queue and for one of another account with the same
		// policy.
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
			case err != nil && refusal.Of(err).Code != "AccessDenied":
				t.Errorf("%v: want AccessDenied", err)
			}
		}
	}
}

// A refusal does not reveal whether another account has a queue: it is the same for a queue that
// does not exist, has no policy, allows something else, or denies. [AUTH-20]
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

// Conditions look at the connection, the clock and the user agent, and believe no other header.
// [AUTH-46]
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

// A policy can name every operation, but for batches, which are asked for as their single action,
// and nothing else. [AUTH-18, AUTH-24]
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

// BenchmarkPermit measures the authorization of a request after its authentication.
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
