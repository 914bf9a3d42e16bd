package auth

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

// A Source knows the policies of queues, as *broker.Broker does. What Policy returns after a call
// of PolicyVersion stays right while the version is the same.
type Source interface {
	Policy(engine.QueueName) string
	PolicyVersion() uint64
}

// Policies caches the policies of the queues that were used lately, parsed. A request then costs a
// look into a map, whether its queue has a policy or not. A policy is read again only after the
// policy of some queue has changed, or when more queues are in use than are cached. [AUTH-45]
type Policies struct {
	source Source
	logger *slog.Logger

	mu    sync.RWMutex
	known map[engine.QueueName]cachedPolicy
	bytes int // of the texts of known
}

// NewPolicies returns an empty cache of the policies of source. The logger reports policies that
// cannot be parsed.
func NewPolicies(source Source, logger *slog.Logger) *Policies {
	return &Policies{source: source, logger: logger}
}

// Limits of the cache: names, and bytes of the policies as they were set.
const (
	cachedMax      = 16 << 10
	cachedBytesMax = 4 << 20
)

// A cachedPolicy is the policy of a queue at a version.
type cachedPolicy struct {
	version uint64
	text    string
	parsed  *policy.Policy // nil for none
}

// of returns the policy of a queue, nil when it has none or does not exist.
func (p *Policies) of(name engine.QueueName) *policy.Policy {
	if !policy.IsAccount(name.Account) || name.Name == "" || len(name.Name) > 80 {
		return nil // no queue has such a name
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
		known = cachedPolicy{text: text, parsed: p.parse(name, text)}
	}
	known.version = version
	p.remember(engine.QueueName{Account: strings.Clone(name.Account),
		Name: strings.Clone(name.Name)}, known)
	return known.parsed
}

// deniesAll replaces a policy that cannot be parsed. Another version of this program accepted it,
// and it may deny something.
var deniesAll = func() *policy.Policy {
	p, err := policy.Parse(`{"Statement":{"Effect":"Deny","Principal":"*","Action":"*"}}`)
	if err != nil {
		panic(err)
	}
	return p
}()

func (p *Policies) parse(name engine.QueueName, text string) *policy.Policy {
	if text == "" {
		return nil
	}
	parsed, err := policy.Parse(text)
	if err != nil {
		p.logger.Error("cannot parse the policy of a queue: all requests to the queue are denied until the policy is set again",
			"account", name.Account, "queue", name.Name, "error", err)
		return deniesAll
	}
	return parsed
}

// remember caches a policy. When the cache is full it forgets all others: those still in use are
// soon back.
func (p *Policies) remember(name engine.QueueName, known cachedPolicy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, ok := p.known[name]; ok {
		p.bytes -= len(before.text)
		delete(p.known, name)
	}
	if p.known == nil || len(p.known) >= cachedMax || p.bytes+len(known.text) > cachedBytesMax {
		p.known, p.bytes = make(map[engine.QueueName]cachedPolicy), 0
	}
	p.known[name] = known
	p.bytes += len(known.text)
}

// unlocks are the actions that remove a policy which denies everything. A key with full access may
// always use them. [AUTH-44]
var unlocks = map[string]bool{"sqs:GetQueueUrl": true, "sqs:GetQueueAttributes": true,
	"sqs:SetQueueAttributes": true}

// Allow refuses an action on a queue; without a name it is on every queue of the account. It
// answers alike for a queue of another account that does not allow the action and for one that does
// not exist. Errors are of type *Error. [AUTH-17, AUTH-20, AUTH-21]
func (p *Policies) Allow(
	who Principal, r *http.Request, action string, queue engine.QueueName,
) error {
	if who.key == nil {
		return nil // [AUTH-47]
	}
	// A text that is not an account owns no queue: the engine will say so.
	own := queue.Account == who.account || !policy.IsAccount(queue.Account)
	byKey, byQueue := who.key.Allows(action), policy.Silent
	if known := p.of(queue); known != nil {
		byQueue = decide(known, who, r, action, queue)
	}
	switch {
	case own && byQueue == policy.Deny && !(unlocks[action] && who.key.Allows("*")):
		return who.denied(action, who.arn(queue.Account, queue.Name),
			"with an explicit deny in a resource-based policy")
	case own && (byKey || byQueue == policy.Allow):
		return nil
	case own, !byKey:
		return who.deniedBy("identity", action, who.arn(queue.Account, queue.Name))
	case policy.OwnerOnly(action) || byQueue != policy.Allow:
		return who.deniedBy("resource", action, who.arn(queue.Account, queue.Name))
	}
	return nil
}

// AllowReturn refuses to bring messages back to where they came from, unless the principal may send
// to every queue of its account: its key allows it, and the policy of none of them denies it. Each
// message says itself where it came from, and that need not be a queue that has the dead-letter
// queue now. It lists the queues with do. [AUTH-48]
func (p *Policies) AllowReturn(who Principal, r *http.Request, do func(engine.Op) error) error {
	if who.key == nil {
		return nil // [AUTH-47]
	}
	every := engine.QueueName{Account: who.account}
	if err := p.Allow(who, r, "sqs:SendMessage", every); err != nil {
		return err
	}
	list := &engine.ListQueues{Account: who.account,
		MaxResults: engine.Int{Value: returnPage, Set: true}}
	for {
		if err := do(list); err != nil {
			return err
		}
		for _, queue := range list.Queues {
			if err := p.Allow(who, r, "sqs:SendMessage", queue); err != nil {
				return err
			}
		}
		if list.NextToken = list.Next; list.NextToken == "" {
			return nil
		}
	}
}

// returnPage is how many queues are asked for at a time, the most that a listing has. [QUEUE-24]
const returnPage = 1000

// alike are the actions of /v1 that show or do what actions of SQS do. A plan of a redriver shows
// dead letters, and a step deletes them.
var alike = map[string][]string{"tenaq:PeekMessages": {"sqs:ReceiveMessage"},
	"tenaq:SearchHistory":   {"sqs:ReceiveMessage"},
	"tenaq:NoteReason":      {"sqs:ReceiveMessage"},
	"tenaq:ViewRedrivers":   {"sqs:ReceiveMessage"},
	"tenaq:ManageRedrivers": {"sqs:ReceiveMessage", "sqs:DeleteMessage"},
	"tenaq:FollowMessage":   {"sqs:SendMessage"}, "tenaq:GetQueue": {"sqs:GetQueueAttributes"},
	"tenaq:Nack":         {"sqs:ChangeMessageVisibility"},
	"tenaq:ReleaseGroup": {"sqs:ChangeMessageVisibility"}}

// decide asks a policy. A policy cannot name an action of /v1, so it does not allow one. It denies
// one together with any action of SQS that it resembles. [AUTH-50]
func decide(
	p *policy.Policy, who Principal, r *http.Request, action string, queue engine.QueueName,
) policy.Effect {
	effect := p.Decide(question(who, r, action, queue))
	if strings.HasPrefix(action, "sqs:") {
		return effect
	}
	for _, same := range alike[action] {
		if p.Decide(question(who, r, same, queue)) == policy.Deny {
			return policy.Deny
		}
	}
	if effect == policy.Allow {
		effect = policy.Silent
	}
	return effect
}

// question is what the policy of a queue is asked.
func question(who Principal, r *http.Request, action string, queue engine.QueueName) policy.Ask {
	return policy.Ask{
		Action:    action,
		Resource:  who.arn(queue.Account, queue.Name),
		Principal: who.key.ARN(),
		Account:   who.account,
		SourceIP:  peer(r),
		Secure:    r.TLS != nil,
		UserAgent: r.UserAgent(),
		Now:       time.Now().Unix(),
	}
}

// peer is the address that a request came from, without port and zone; the zero address when the
// connection has none. [AUTH-46]
func peer(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().WithZone("").Unmap()
}
