package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Limits of a policy, those of SQS. [AUTH-23]
const (
	BytesMax      = 8192
	StatementsMax = 20
	principalsMax = 50
	conditionsMax = 10
	ActionsMax    = 7

	sizeExcess = "Submitted policy is over max allowed size."
)

// An Unsupported is a policy that another server may take and that is not evaluated here. It says
// what to change. [AUTH-24]
type Unsupported struct{ Reason string }

func (e *Unsupported) Error() string { return e.Reason }

func unsupported(format string, args ...any) error {
	return &Unsupported{fmt.Sprintf(format, args...)}
}

// An Excess is a policy that is over a limit of SQS, in its words. [AUTH-23]
type Excess struct{ Reason string }

func (e *Excess) Error() string { return e.Reason }

// tooMany is the Excess of a part of a policy.
func tooMany(n int, what, where string, most int) error {
	return &Excess{fmt.Sprintf("%d %s were found in %s, max allowed is %d", n, what, where, most)}
}

const aStatement = "a statement from the submitted policy"

// Parse reads a policy. Its errors say what is wrong: an *Excess, an *Unsupported, or another of a
// policy that is malformed.
func Parse(text string) (*Policy, error) {
	if len(text) > BytesMax {
		return nil, &Excess{sizeExcess}
	}
	top, err := object([]byte(text), "the policy", "version", "id", "statement")
	if err != nil {
		return nil, err
	}
	if v, ok := top["version"]; ok {
		var version string
		if json.Unmarshal(v, &version) != nil || version != "2008-10-17" &&
			version != "2012-10-17" {
			return nil, fmt.Errorf("its version %s is neither 2012-10-17 nor 2008-10-17", v)
		}
	}
	if id, ok := top["id"]; ok && !isText(id) {
		return nil, errors.New("its Id is not a string")
	}
	list, err := items(top["statement"])
	if err != nil || len(list) == 0 {
		return nil, errors.New("it has no statements")
	}
	if len(list) > StatementsMax {
		return nil, tooMany(len(list), "statements", "the submitted policy", StatementsMax)
	}
	p := &Policy{}
	for i, raw := range list {
		s, err := parseStatement(raw)
		if err != nil {
			return nil, fmt.Errorf("statement %d: %w", i+1, err)
		}
		p.statements = append(p.statements, s)
	}
	return p, nil
}

func parseStatement(raw json.RawMessage) (s statement, err error) {
	members, err := object(raw, "it", "sid", "effect", "principal", "notprincipal", "action",
		"notaction", "resource", "notresource", "condition")
	if err != nil {
		return s, err
	}
	if sid, ok := members["sid"]; ok && !isText(sid) {
		return s, errors.New("its Sid is not a string")
	}
	var effect string
	_ = json.Unmarshal(members["effect"], &effect)
	switch effect {
	case "Allow":
		s.effect = Allow
	case "Deny":
		s.effect = Deny
	default:
		return s, errors.New("its Effect is neither Allow nor Deny")
	}
	if err := s.parsePrincipals(members["principal"], members["notprincipal"]); err != nil {
		return s, err
	}
	actions, resources := members["action"], members["resource"]
	if raw, ok := members["notaction"]; ok {
		if actions != nil {
			return s, errors.New("it has both Action and NotAction")
		}
		actions, s.otherActions = raw, true
	}
	if raw, ok := members["notresource"]; ok {
		if resources != nil {
			return s, errors.New("it has both Resource and NotResource")
		}
		resources, s.otherResources = raw, true
	}
	if s.actions, err = parseActions(actions); err != nil {
		return s, err
	}
	if resources != nil {
		if err := s.parseResources(resources); err != nil {
			return s, err
		}
	}
	if raw, ok := members["condition"]; ok {
		if s.conditions, err = parseConditions(raw); err != nil {
			return s, err
		}
	}
	return s, s.judge()
}

// parsePrincipals reads which principals the statement is about. A Deny may name its exceptions
// instead, in NotPrincipal. An Allow may not: it would grant access to every principal that its
// author did not think of. [AUTH-52]
func (s *statement) parsePrincipals(principal, notPrincipal json.RawMessage) (err error) {
	if notPrincipal == nil {
		s.principals, err = parsePrincipals(principal)
		return err
	}
	if principal != nil {
		return errors.New("it has both Principal and NotPrincipal")
	}
	if s.effect == Allow {
		return unsupported("NotPrincipal in an Allow grants access to every principal that it does not name; list the allowed ones in Principal")
	}
	if s.principals, err = parsePrincipals(notPrincipal); err != nil {
		return err
	}
	if slices.Contains(s.principals, "*") {
		return unsupported("NotPrincipal \"*\" in a Deny leaves no principal to deny; remove the statement")
	}
	s.otherPrincipals = true
	return nil
}

// parseResources reads the resources of the statement. A text that is not an ARN matches no
// request. That is safe where it narrows an Allow, or where it is an exception from a Deny. It is
// refused where it narrows a Deny or is an exception from an Allow: the statement would deny less,
// or allow more, than it says. [AUTH-53]
func (s *statement) parseResources(raw json.RawMessage) error {
	resources, err := texts(raw)
	if err != nil || len(resources) == 0 {
		return errors.New("its Resource is not an ARN or a list of them")
	}
	for _, r := range resources {
		switch {
		case hasVariable(r):
			return unsupported("its Resource has a variable, which is not supported")
		case mayBeQueue(r):
			s.resources = append(s.resources, r)
		case strings.HasPrefix(r, "arn:") || (s.effect == Allow) == s.otherResources:
			return unsupported("its Resource %q is not the ARN of a queue, such as arn:aws:sqs:*:*:orders, nor *", r)
		default:
			s.notes = append(s.notes,
				fmt.Sprintf("its Resource %q is not an ARN and matches no queue", r))
		}
	}
	if len(s.resources) == 0 && !s.otherResources {
		s.never = true
		s.note("it allows nothing")
	}
	return nil
}

// parsePrincipals reads the principals of a statement. Services are accepted; no caller of this
// server is one.
func parsePrincipals(raw json.RawMessage) (principals []string, err error) {
	const wrong = `its Principal must be "*" or {"AWS": ...}`
	if raw == nil {
		return nil, errors.New("it has no Principal")
	}
	var all string
	if json.Unmarshal(raw, &all) == nil {
		if all != "*" {
			return nil, errors.New(wrong)
		}
		return []string{"*"}, nil
	}
	kinds, err := object(raw, "its Principal", "aws", "service")
	if err != nil {
		return nil, err
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		names, err := texts(kinds[kind])
		if err != nil || len(names) == 0 {
			return nil, errors.New(wrong)
		}
		if kind == "aws" {
			principals = append(principals, names...)
		}
	}
	if len(kinds) == 0 {
		return nil, errors.New(wrong)
	}
	if len(principals) > principalsMax {
		return nil, tooMany(len(principals), "principals", aStatement, principalsMax)
	}
	for _, p := range principals {
		if !isPrincipal(p) {
			return nil, unsupported("%q is not an account, the ARN of a user or a role, or *", p)
		}
	}
	return principals, nil
}

func isPrincipal(p string) bool {
	if p == "*" || IsAccount(p) {
		return true
	}
	rest, ok := strings.CutPrefix(p, "arn:aws:iam::")
	account, name, found := strings.Cut(rest, ":")
	return ok && found && IsAccount(account) && !strings.ContainsAny(name, "*?$") &&
		(name == "root" || strings.HasPrefix(name, "user/") || strings.HasPrefix(name, "role/"))
}

// mayBeQueue reports whether a pattern of resources can match the ARN of a queue. As in AWS a star
// goes beyond colons, so that one at the end stands for all parts that are missing.
func mayBeQueue(pattern string) bool {
	parts := strings.Split(pattern, ":")
	if len(parts) > 6 || len(parts) < 6 && !strings.HasSuffix(pattern, "*") {
		return false
	}
	for i, part := range parts {
		fits := part != ""
		switch i {
		case 0, 1, 2:
			fits = Match(part, [...]string{"arn", "aws", "sqs"}[i])
		case 4:
			digits := strings.ReplaceAll(part, "*", "")
			fits = fits && strings.Trim(digits, "0123456789?") == "" &&
				(len(digits) == 12 || len(digits) < 12 && digits != part)
		}
		if !fits {
			return false
		}
	}
	return true
}

// parseActions reads the patterns of actions, in lower case. One that matches none is misspelt:
// stored, it would never be what it says.
func parseActions(raw json.RawMessage) ([]string, error) {
	actions, err := texts(raw)
	if err != nil || len(actions) == 0 {
		return nil, errors.New("its Action is not an action or a list of them")
	}
	if len(actions) > ActionsMax {
		return nil, tooMany(len(actions), "actions", aStatement, ActionsMax)
	}
	for i, a := range actions {
		actions[i] = strings.ToLower(a)
		name, ok := strings.CutPrefix(actions[i], "sqs:")
		switch {
		case a == "*":
		case !ok:
			return nil, fmt.Errorf("%q is not an action of SQS", a)
		case slices.ContainsFunc(Actions(), func(k string) bool {
			return Match(name, strings.ToLower(k))
		}):
		case strings.HasSuffix(name, "batch"):
			return nil, unsupported("%q is not an action: the right to the single action covers batches; name that one", a)
		default:
			return nil, unsupported("%q matches no action: correct or remove it", a)
		}
	}
	return actions, nil
}

func parseConditions(raw json.RawMessage) (conditions []condition, err error) {
	operators, err := object(raw, "its Condition")
	if err != nil {
		return nil, err
	}
	for _, operator := range slices.Sorted(maps.Keys(operators)) {
		keys, err := object(operators[operator], "the condition "+operator)
		if err != nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			values, err := scalars(keys[key])
			if err != nil {
				return nil, fmt.Errorf("the values of %s are not strings", key)
			}
			c, err := parseCondition(operator, key, values)
			if err != nil {
				return nil, err
			}
			conditions = append(conditions, c)
		}
	}
	if len(conditions) > conditionsMax {
		return nil, tooMany(len(conditions), "conditions", aStatement, conditionsMax)
	}
	return conditions, nil
}
