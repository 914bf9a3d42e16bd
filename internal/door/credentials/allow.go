package credentials

import (
	"fmt"
	"slices"
	"strings"
)

// services are those that have actions here: SQS, CloudWatch, STS, and what stands under /v1.
var services = []string{"cloudwatch", "sqs", "sts", "tenaq"}

// checkPattern refuses a pattern that allows nothing.
func checkPattern(pattern string, actions []string) error {
	service, action, found := strings.Cut(pattern, ":")
	switch {
	case pattern == "*":
		return nil
	case !found || action == "" || !slices.Contains(services, strings.ToLower(service)):
		return fmt.Errorf("allow: %q is not a pattern such as sqs:SendMessage, sqs:Receive* or *; the services are %s", pattern, strings.Join(services, ", "))
	case len(actions) == 0 || slices.ContainsFunc(actions, func(a string) bool {
		return match(pattern, a)
	}):
		return nil
	case strings.HasSuffix(strings.ToLower(action), "batch"):
		return fmt.Errorf("allow: %q is not an action: the right to the single action covers batches; allow that one", pattern)
	}
	return fmt.Errorf("allow: %q matches no action: correct or remove it", pattern)
}

func allows(patterns []string, action string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return match(pattern, action)
	})
}

// match reports whether an action is one of a pattern's, in which * stands for any text and ? for
// one character. Case does not matter, as in policies.
func match(pattern, action string) bool {
	pattern, action = strings.ToLower(pattern), strings.ToLower(action)
	p, a := 0, 0
	star, resume := -1, 0 // the last *, and where the text behind it was tried
	for a < len(action) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, a
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == action[a]):
			p++
			a++
		case star >= 0:
			resume++
			p, a = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
