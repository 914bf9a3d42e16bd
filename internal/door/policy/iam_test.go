package policy

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"tenaq/internal/testing/proof"
	"testing"
)

// An iamStatement is a statement for the oracle of TestNeverMoreThanIAM.
type iamStatement struct {
	allow      bool
	conditions []iamCondition
}

type iamCondition struct{ prefix, operator, suffix, key, value string }

func (c iamCondition) name() string { return c.prefix + c.operator + c.suffix }

// holds decides a condition by the words of the IAM user guide. Present says whether the request
// has the key.
func (c iamCondition) holds(got string, present bool) bool {
	if c.operator == "Null" {
		return (c.value == "true") == !present
	}
	if !present {
		switch {
		case c.prefix == "ForAnyValue:":
			return false
		case c.prefix == "ForAllValues:" || c.suffix == "IfExists":
			return true
		}
		return strings.Contains(c.operator, "Not")
	}
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	switch c.operator {
	case "StringEquals", "Bool":
		return got == c.value
	case "StringNotEquals":
		return got != c.value
	case "NumericLessThan":
		return number(got) < number(c.value)
	case "NumericNotEquals":
		return number(got) != number(c.value)
	}
	panic(c.operator)
}

// iam decides statements that are about every principal, action and resource.
func iam(statements []iamStatement, context map[string]string) Effect {
	effect := Silent
	for _, s := range statements {
		applies := true
		for _, c := range s.conditions {
			got, present := context[c.key]
			applies = applies && c.holds(got, present)
		}
		switch {
		case applies && !s.allow:
			return Deny
		case applies:
			effect = Allow
		}
	}
	return effect
}

// Whatever a policy asks of keys that no request here has: when it allows a request here, IAM would
// allow it too, for each value that the keys may have there, and without them. [AUTH-51]
func TestNeverMoreThanIAM(t *testing.T) {
	seed := proof.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	absent := map[string][]string{ // with the values that they may have on Amazon SQS
		"aws:SourceVpce":             {"a", "b"},
		"aws:PrincipalTag/team":      {"a", "b"},
		"aws:MultiFactorAuthPresent": {"true", "false"},
		"aws:MultiFactorAuthAge":     {"1", "2"},
	}
	condition := func() iamCondition {
		c := iamCondition{key: one("aws:SourceVpce", "aws:PrincipalTag/team", "aws:MultiFactorAuthPresent", "aws:MultiFactorAuthAge", "aws:UserAgent")}
		switch c.key {
		case "aws:MultiFactorAuthPresent":
			c.operator, c.value = one("Bool", "Null"), one("true", "false")
		case "aws:MultiFactorAuthAge":
			c.operator, c.value = one("NumericLessThan", "NumericNotEquals"), one("1", "2")
		default:
			c.operator, c.value = one("StringEquals", "StringNotEquals"), one("a", "b")
		}
		if c.operator != "Null" {
			c.prefix, c.suffix = one("", "", "ForAllValues:", "ForAnyValue:"), one("", "", "IfExists")
		}
		return c
	}
	taken, allowed := 0, 0
	for range 5000 {
		statements := make([]iamStatement, 1+r.IntN(3))
		var texts []map[string]any
		for i := range statements {
			s := &statements[i]
			s.allow = r.IntN(2) == 0
			conditions := map[string]map[string]string{}
			for range r.IntN(3) {
				c := condition()
				if conditions[c.name()] == nil {
					conditions[c.name()] = map[string]string{}
				}
				if conditions[c.name()][c.key] == "" {
					conditions[c.name()][c.key] = c.value
					s.conditions = append(s.conditions, c)
				}
			}
			effect := map[bool]string{true: "Allow", false: "Deny"}[s.allow]
			texts = append(texts, map[string]any{"Effect": effect, "Principal": "*", "Action": "*", "Condition": conditions})
		}
		text, err := json.Marshal(map[string]any{"Statement": texts})
		if err != nil {
			t.Fatal(err)
		}
		p, err := Parse(string(text))
		if err != nil {
			continue
		}
		taken++
		for _, agent := range []string{"", "a", "b"} {
			a := ask("sqs:SendMessage")
			a.UserAgent = agent
			here := p.Decide(a)
			context := map[string]string{}
			if agent != "" {
				context["aws:UserAgent"] = agent
			}
			if got := iam(statements, context); got != here {
				t.Fatalf("%s with the user agent %q: got %v, IAM without the other keys says %v", text, agent, here, got)
			}
			if here != Allow {
				continue
			}
			allowed++
			for range 8 {
				for key, values := range absent { // order does not matter: each is drawn for itself
					if i := r.IntN(len(values) + 1); i < len(values) {
						context[key] = values[i]
					} else {
						delete(context, key)
					}
				}
				if got := iam(statements, context); got != Allow {
					t.Fatalf("%s: allowed here, and IAM says %v to %v", text, got, context)
				}
			}
		}
	}
	if taken < 500 || allowed < 500 {
		t.Errorf("only %d policies were accepted and %d requests allowed", taken, allowed)
	}
}
