package sqs

import (
	"slices"
	"strings"
)

// Actions are all that a key may be allowed to do here: those of SQS, where a batch is its action several times, and
// those of /v1. [AUTH-18, AUTH-38]
func Actions() []string {
	var actions []string
	for _, op := range operations {
		actions = append(actions, "sqs:"+op.action())
	}
	for _, route := range v1QueueRoutes {
		actions = append(actions, v1Action(route))
	}
	for _, route := range v1Routes {
		actions = append(actions, v1Action(route))
	}
	slices.Sort(actions)
	return slices.Compact(actions)
}

// v1Action is what a key must be allowed to do to ask for a route of /v1.
func v1Action(route v1Route) string { return "tenaq:" + strings.TrimPrefix(route.name, "v1.") }
