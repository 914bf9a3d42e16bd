package credentials

import (
	"fmt"
	"slices"
	"strings"

	"tenaq/internal/door/policy"
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

// allows reports whether an action matches one of some patterns in lower case.
func allows(patterns []string, action string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, action) })
}

// match compares without regard to case, as policies do.
func match(pattern, action string) bool {
	return policy.Match(strings.ToLower(pattern), strings.ToLower(action))
}
