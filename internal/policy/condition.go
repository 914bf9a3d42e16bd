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

// A key is something that is known of a request, and of which kind that is.
type key struct {
	kind kind
	get  func(a *Ask) (string, bool)
}

// A kind is what the values of a key are. Each operator compares some kinds: of others it would never hold.
type kind int

const (
	words kind = iota
	accounts
	arns
	addresses
	booleans
)

// keys are what is known of a request. Those without a value are what only services of Amazon set: a policy may name
// them, and no request that comes here has them. [AUTH-24]
var keys = map[string]key{
	"aws:securetransport":  {booleans, func(a *Ask) (string, bool) { return strconv.FormatBool(a.Secure), true }},
	"aws:sourceip":         {addresses, func(a *Ask) (string, bool) { return a.SourceIP.String(), a.SourceIP.IsValid() }},
	"aws:principalarn":     {arns, func(a *Ask) (string, bool) { return a.Principal, a.Principal != "" }},
	"aws:principalaccount": {accounts, func(a *Ask) (string, bool) { return a.Account, a.Account != "" }},
	"aws:sourcearn":        {arns, absent},
	"aws:sourceaccount":    {accounts, absent},
	"aws:principalorgid":   {words, absent},
}

func absent(*Ask) (string, bool) { return "", false }

// An operator compares a value of the policy with that of the request, for keys of some kinds.
type operator struct {
	kinds []kind
	test  func(value, got string) bool
}

var (
	textual   = []kind{words, accounts, arns}
	operators = map[string]operator{
		"stringequals":           {textual, func(value, got string) bool { return value == got }},
		"stringequalsignorecase": {textual, strings.EqualFold},
		"stringlike":             {textual, match},
		"arnequals":              {[]kind{arns}, matchARN}, // both are the same, and take patterns
		"arnlike":                {[]kind{arns}, matchARN},
		"ipaddress":              {[]kind{addresses}, inNetwork},
		"bool":                   {[]kind{booleans}, strings.EqualFold},
	}
)

// arnParts are arn, partition, service, region, account and resource; the last may have colons in it.
const arnParts = 6

// matchARN compares the parts of two ARNs one by one: a star does not go beyond a colon.
func matchARN(pattern, arn string) bool {
	patterns, parts := strings.SplitN(pattern, ":", arnParts), strings.SplitN(arn, ":", arnParts)
	if len(patterns) != len(parts) {
		return false
	}
	for i := range parts {
		if !match(patterns[i], parts[i]) {
			return false
		}
	}
	return true
}

// inNetwork reports whether an address is in a network, which parseCondition has read before. An IPv4 address is the same when
// it is mapped to IPv6, and a zone does not matter.
func inNetwork(value, got string) bool {
	network, err := parseNetwork(value)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(got)
	return err == nil && network.Contains(addr.WithZone("").Unmap())
}

// mappedBits are those that come before an IPv4 address that is mapped to IPv6.
const mappedBits = 96

func parseNetwork(value string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(value)
	if addr, ok := netip.ParseAddr(value); ok == nil && addr.Zone() == "" {
		network, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	switch addr := network.Addr(); {
	case err != nil:
		return network, fmt.Errorf("%q is not an address or a network", value)
	case !addr.Is4In6():
		return network, nil
	case network.Bits() < mappedBits:
		return network, fmt.Errorf("%q has IPv4 and other addresses in it; name a network of either", value)
	default:
		return netip.PrefixFrom(addr.Unmap(), network.Bits()-mappedBits), nil
	}
}

// holds reports whether a request fulfils the condition. A key that is not there fulfils what is negated, as in AWS.
func (c *condition) holds(a *Ask) bool {
	got, ok := keys[c.key].get(a)
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
	known, ok := keys[c.key]
	var kinds []kind
	for positive, o := range operators { // order does not matter: each name is that of one
		negative := "not" + positive
		for _, kind := range []string{"string", "arn"} {
			if rest, ok := strings.CutPrefix(positive, kind); ok {
				negative = kind + "not" + rest
			}
		}
		if name == positive || name == negative {
			c.test, kinds, c.negated = o.test, o.kinds, name == negative
		}
	}
	switch {
	case c.test == nil || name == "notbool":
		return c, unsupported("the condition operator %q is not supported", operator)
	case !ok:
		return c, unsupported("the condition key %q is not supported", key)
	case !slices.Contains(kinds, known.kind):
		return c, unsupported("the condition operator %q is not for the key %q: it would never hold", operator, key)
	case len(values) == 0:
		return c, fmt.Errorf("the condition on %q has no value", key)
	}
	for _, value := range values {
		if hasVariable(value) {
			return c, unsupported("the condition on %q has a variable, which is not supported", key)
		}
		if strings.HasPrefix(name, "string") && strings.HasSuffix(name, "like") {
			continue // a pattern, whose stars stand for any text
		}
		if reason := known.kind.wrong(value); reason != "" {
			return c, unsupported("the condition on %q cannot hold: %s", key, reason)
		}
	}
	return c, nil
}

// wrong says why no request can have a value of the kind.
func (k kind) wrong(value string) string {
	switch k {
	case booleans:
		if !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false") {
			return fmt.Sprintf("%q is neither true nor false", value)
		}
	case addresses:
		if _, err := parseNetwork(value); err != nil {
			return err.Error()
		}
	case arns:
		if len(strings.SplitN(value, ":", arnParts)) < arnParts || !strings.HasPrefix(strings.ToLower(value), "arn:") {
			return fmt.Sprintf("%q is not an ARN, which has six parts", value)
		}
	case accounts:
		if len(value) != 12 || strings.Trim(value, "0123456789") != "" {
			return fmt.Sprintf("%q is not an account, which has twelve digits", value)
		}
	}
	return ""
}
