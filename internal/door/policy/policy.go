// Package policy parses the access policies of queues and evaluates them. It is pure: everything
// that an answer depends on is in the policy and the question.
//
// What it guarantees: every element of a policy that Parse accepts is evaluated as written. An
// element, an operator or a key that this package does not know is refused when the policy is set.
// It is never stored and ignored, because a Deny without effect would be a hole.
//
// It leaves to its caller the identity of a request, and the rule which permissions are needed:
// within an account an allow of the key or of the queue is enough, across accounts it takes both.
// [AUTH-17]
package policy

import (
	"net/netip"
	"slices"
	"strings"
)

// An Effect is what a policy says to a question.
type Effect int

// The effects. Silent is neither allowed nor denied.
const (
	Silent Effect = iota
	Allow
	Deny
)

// An Ask is a question to a policy.
type Ask struct {
	Action   string // such as sqs:SendMessage; of a batch that of one message
	Resource string // ARN of the queue

	// Principal and Account are the ARN and the account of the key; both are empty for a caller
	// without one.
	Principal, Account string

	SourceIP  netip.Addr
	Secure    bool // it came over TLS
	UserAgent string
	Now       int64 // Unix seconds
}

// A Policy is a policy that can be evaluated. The zero Policy is silent.
type Policy struct{ statements []statement }

// A statement is one statement of a policy.
type statement struct {
	effect Effect
	// account numbers, ARNs of identities and "*"; services are not among them, because none comes
	// here
	principals []string
	actions    []string // patterns, in lower case
	resources  []string // patterns; none for the queue of the policy
	conditions []condition

	// It is about all that are not among these: NotPrincipal, NotAction, NotResource.
	otherPrincipals, otherActions, otherResources bool

	never bool     // it applies to no request to this server
	notes []string // how it differs from the same statement on Amazon SQS
}

// Decide returns the effect of the policy. An explicit denial wins, whatever the order of the
// statements.
func (p *Policy) Decide(a Ask) Effect {
	effect := Silent
	for i := range p.statements {
		if s := &p.statements[i]; s.effect > effect && s.applies(&a) {
			effect = s.effect
		}
	}
	return effect
}

func (s *statement) applies(a *Ask) bool {
	if s.never || !s.isFor(a) || matchAny(s.actions, strings.ToLower(a.Action)) == s.otherActions {
		return false
	}
	if len(s.resources) > 0 && matchAny(s.resources, a.Resource) == s.otherResources {
		return false
	}
	for i := range s.conditions {
		if !s.conditions[i].holds(a) {
			return false
		}
	}
	return true
}

// isFor reports whether the statement is about the caller. An account stands for all its users. But
// an Allow for the queue's own account allows nothing by itself: it leaves to the account which of
// its users may do it. [AUTH-42]
func (s *statement) isFor(a *Ask) bool {
	if s.otherPrincipals {
		return !s.exempts(a)
	}
	for _, p := range s.principals {
		switch {
		case p == "*":
			return true
		case a.Account != "" && (p == a.Account || p == "arn:aws:iam::"+a.Account+":root"):
			if s.effect == Deny || a.Account != accountOf(a.Resource) {
				return true
			}
		case a.Principal != "" && p == a.Principal:
			return true
		}
	}
	return false
}

// exempts reports whether NotPrincipal exempts the caller. As in AWS a user is exempt only if both
// the user and its account are named; an account alone exempts none of its users. [AUTH-52]
func (s *statement) exempts(a *Ask) bool {
	root := "arn:aws:iam::" + a.Account + ":root"
	inAccount := slices.Contains(s.principals, a.Account) || slices.Contains(s.principals, root)
	return a.Principal != "" && inAccount &&
		(a.Principal == root || slices.Contains(s.principals, a.Principal))
}

// accountOf returns the account in an ARN, empty when it is none.
func accountOf(arn string) string {
	for range 4 { // arn:aws:sqs:region:account:name
		_, arn, _ = strings.Cut(arn, ":")
	}
	account, _, _ := strings.Cut(arn, ":")
	return account
}

func matchAny(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Match(p, s) })
}

// IsAccount reports whether a text has the form of an account, twelve digits.
func IsAccount(s string) bool { return len(s) == 12 && strings.Trim(s, "0123456789") == "" }

// Match reports whether s matches a pattern, in which * stands for any text and ? for one byte. It
// takes no more steps than the product of both lengths.
func Match(pattern, s string) bool {
	star, from, i, j := -1, 0, 0, 0
	for j < len(s) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, from = i, j
			i++
		case i < len(pattern) && (pattern[i] == '?' || pattern[i] == s[j]):
			i++
			j++
		case star >= 0: // the star takes one byte more
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}
