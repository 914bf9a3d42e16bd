package sqs

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"tenaq/internal/door/policy"
	"tenaq/internal/engine"
)

// A policySource knows the policies of queues, as *broker.Broker does. What Policy returns, after PolicyVersion was asked, is
// right for as long as the version stays the same.
type policySource interface {
	Policy(engine.QueueName) string
	PolicyVersion() uint64
}

// policies remembers the policies of the queues that requests were about lately, ready to be asked. A request then costs a
// look into a map, whether its queue has a policy or not; it is read and parsed again only when the policy of some queue has
// changed, or when there are more queues than are remembered. [AUTH-45]
type policies struct {
	source policySource
	logger *slog.Logger

	mu    sync.RWMutex
	known map[engine.QueueName]rememberedPolicy
	bytes int // of the texts of known
}

// Limits on what is remembered: names, and bytes of the policies as they were given.
const (
	rememberedMax      = 16 << 10
	rememberedBytesMax = 4 << 20
)

// A rememberedPolicy is what a queue's policy was at a version.
type rememberedPolicy struct {
	version uint64
	text    string
	parsed  *policy.Policy // nil for none
}

// of returns the policy of a queue, nil when it has none or is not there.
func (p *policies) of(name engine.QueueName) *policy.Policy {
	if !isAccount(name.Account) || name.Name == "" || len(name.Name) > 80 {
		return nil // no queue is called so
	}
	version := p.source.PolicyVersion()
	p.mu.RLock()
	known, ok := p.known[name]
	p.mu.RUnlock()
	if ok && known.version == version {
		return known.parsed
	}
	text := p.source.Policy(name)
	if !ok || text != known.text {
		known = rememberedPolicy{text: text, parsed: p.parse(name, text)}
	}
	known.version = version
	p.remember(engine.QueueName{Account: strings.Clone(name.Account), Name: strings.Clone(name.Name)}, known)
	return known.parsed
}

// deniesAll stands for a policy that cannot be read. It was taken by another version of this program, and may deny something.
var deniesAll = func() *policy.Policy {
	p, err := policy.Parse(`{"Statement":{"Effect":"Deny","Principal":"*","Action":"*"}}`)
	if err != nil {
		panic(err)
	}
	return p
}()

func (p *policies) parse(name engine.QueueName, text string) *policy.Policy {
	if text == "" {
		return nil
	}
	parsed, err := policy.Parse(text)
	if err != nil {
		p.logger.Error("policy cannot be read; everything is denied until it is set again", "account", name.Account, "queue", name.Name, "error", err)
		return deniesAll
	}
	return parsed
}

// remember keeps a policy. When there is no room it forgets all others: whatever is still asked for is soon back.
func (p *policies) remember(name engine.QueueName, known rememberedPolicy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, ok := p.known[name]; ok {
		p.bytes -= len(before.text)
		delete(p.known, name)
	}
	if p.known == nil || len(p.known) >= rememberedMax || p.bytes+len(known.text) > rememberedBytesMax {
		p.known, p.bytes = make(map[engine.QueueName]rememberedPolicy), 0
	}
	p.known[name] = known
	p.bytes += len(known.text)
}

// unlocks are the actions with which the owner of a queue takes away a policy that denies everything. [AUTH-44]
var unlocks = map[string]bool{"sqs:GetQueueUrl": true, "sqs:GetQueueAttributes": true, "sqs:SetQueueAttributes": true}

// allow refuses an action on a queue; without a name it is on all queues of the account. A queue of another account that
// does not allow the action, and one that is not there, are refused alike. [AUTH-17, AUTH-20, AUTH-21]
func (c *call) allow(action string, queue engine.QueueName) error {
	p := c.principal
	if p.key == nil {
		return nil // [AUTH-47]
	}
	// What stands at the place of an account and is none is no queue of anybody: that is for the engine to say.
	own := queue.Account == p.account || !isAccount(queue.Account)
	byKey, byQueue := p.key.Allows(action), policy.Silent
	if known := c.h.policies.of(queue); known != nil {
		byQueue = c.decide(known, action, queue)
	}
	switch {
	case own && byQueue == policy.Deny && !(unlocks[action] && p.key.Allows("*")):
		return p.denied(action, p.arn(queue.Account, queue.Name), "with an explicit deny in a resource-based policy")
	case own && (byKey || byQueue == policy.Allow):
		return nil
	case own, !byKey:
		return p.deniedBy("identity", action, p.arn(queue.Account, queue.Name))
	case policy.OwnerOnly(action) || byQueue != policy.Allow:
		return p.deniedBy("resource", action, p.arn(queue.Account, queue.Name))
	}
	return nil
}

// alike are the actions of /v1 that show what an action of SQS does.
var alike = map[string]string{"tenaq:PeekMessages": "sqs:ReceiveMessage", "tenaq:FollowMessage": "sqs:SendMessage"}

// decide asks a policy. It is about SQS: the actions of /v1, which it cannot name, are not allowed by it, and one that shows
// what an action of SQS does is denied with that. [AUTH-50]
func (c *call) decide(p *policy.Policy, action string, queue engine.QueueName) policy.Effect {
	effect := p.Decide(c.question(action, queue))
	if strings.HasPrefix(action, "sqs:") {
		return effect
	}
	if same, ok := alike[action]; ok && p.Decide(c.question(same, queue)) == policy.Deny {
		effect = policy.Deny
	}
	if effect == policy.Allow {
		effect = policy.Silent
	}
	return effect
}

// question is what the policy of a queue is asked.
func (c *call) question(action string, queue engine.QueueName) policy.Ask {
	p := c.principal
	return policy.Ask{
		Action:    action,
		Resource:  p.arn(queue.Account, queue.Name),
		Principal: p.key.ARN(),
		Account:   p.account,
		SourceIP:  peer(c.http),
		Secure:    c.http.TLS != nil,
		UserAgent: c.http.UserAgent(),
		Now:       time.Now().Unix(),
	}
}

// peer is the address from which a request came, without port and zone; none when the connection has no such address. [AUTH-46]
func peer(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().WithZone("").Unmap()
}
