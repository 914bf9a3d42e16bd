package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A condition is one operator on one key, which holds when one of its values does; a negated one when none does.
type condition struct {
	key     string // in lower case
	negated bool
	exists  bool // ...IfExists: it holds also when the key is not there
	test    func(value, got string) bool
	values  []string
}

// keys are what is known of a request. Those without a value are what only services of Amazon set: a policy may name
// them, and no request that comes here has them. [AUTH-24]
var keys = map[string]func(a *Ask) (string, bool){
	"aws:securetransport":  func(a *Ask) (string, bool) { return strconv.FormatBool(a.Secure), true },
	"aws:sourceip":         func(a *Ask) (string, bool) { return a.SourceIP.Unmap().String(), a.SourceIP.IsValid() },
	"aws:principalarn":     func(a *Ask) (string, bool) { return a.Principal, a.Principal != "" },
	"aws:principalaccount": func(a *Ask) (string, bool) { return a.Account, a.Account != "" },
	"aws:sourcearn":        absent,
	"aws:sourceaccount":    absent,
	"aws:principalorgid":   absent,
}

func absent(*Ask) (string, bool) { return "", false }

// operators compare a value of the policy with that of the request.
var operators = map[string]func(value, got string) bool{
	"stringequals":           func(value, got string) bool { return value == got },
	"stringequalsignorecase": strings.EqualFold,
	"stringlike":             match,
	"arnequals":              match, // both are the same, and take patterns
	"arnlike":                match,
	"ipaddress":              inNetwork,
	"bool":                   strings.EqualFold,
}

// inNetwork reports whether an address is in a network, which parseCondition has read before.
func inNetwork(value, got string) bool {
	network, err := parseNetwork(value)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(got)
	return err == nil && network.Contains(addr)
}

func parseNetwork(value string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(value); err == nil {
		return addr.Prefix(addr.BitLen())
	}
	return netip.ParsePrefix(value)
}

// holds reports whether a request fulfils the condition. A key that is not there fulfils what is negated, as in AWS.
func (c *condition) holds(a *Ask) bool {
	got, ok := keys[c.key](a)
	if !ok {
		return c.negated || c.exists
	}
	any := slices.ContainsFunc(c.values, func(value string) bool { return c.test(value, got) })
	return any != c.negated
}

// parseCondition reads an operator, a key and its values.
func parseCondition(operator, key string, values []string) (condition, error) {
	c := condition{key: strings.ToLower(key), values: values}
	name := strings.ToLower(operator)
	name, c.exists = strings.CutSuffix(name, "ifexists")
	for positive, test := range operators { // order does not matter: each name is that of one
		negative := "not" + positive
		for _, kind := range []string{"string", "arn"} {
			if rest, ok := strings.CutPrefix(positive, kind); ok {
				negative = kind + "not" + rest
			}
		}
		switch name {
		case positive:
			c.test = test
		case negative:
			c.test, c.negated = test, true
		}
	}
	switch {
	case c.test == nil || name == "notbool":
		return c, unsupported("the condition operator %q is not supported", operator)
	case keys[c.key] == nil:
		return c, unsupported("the condition key %q is not supported", key)
	case len(values) == 0:
		return c, fmt.Errorf("the condition on %q has no value", key)
	}
	for _, value := range values {
		if hasVariable(value) {
			return c, unsupported("the condition on %q has a variable, which is not supported", key)
		}
		if _, err := parseNetwork(value); err != nil && strings.HasSuffix(name, "ipaddress") {
			return c, fmt.Errorf("%q is not an address or a network", value)
		}
	}
	return c, nil
}
