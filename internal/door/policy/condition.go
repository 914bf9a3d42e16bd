package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A condition is one operator on one key, which holds when one of its values does; a negated one
// when none does.
type condition struct {
	operator
	key    string // in lower case
	name   string // as it was written
	set    set
	exists bool // ...IfExists: it holds also when the key is not there
	values []string
}

// A set is the prefix of an operator for keys with several values. The keys here have at most one
// value, so the prefix matters only when a request does not have the key.
type set int

const (
	noSet        set = iota
	forAllValues     // holds without the key: all of no values match
	forAnyValue      // does not hold without the key, also with a negated operator
)

// A key is something that is known of a request, and of which kind that is.
type key struct {
	kind kind
	get  func(a *Ask) (string, bool) // nil when no request to this server has it

	// service marks the keys that only services of Amazon set. Policies with them were always
	// accepted, and stores may hold any of them, so judge accepts them too. [AUTH-46]
	service bool
}

// A kind is what the values of a key are. Each operator compares some kinds: of others it would
// never hold.
type kind int

const (
	words kind = iota + 1
	accounts
	arns
	addresses
	booleans
	numbers
	dates
	epochs // numbers that are dates
)

// keys are the condition keys that a policy may name. Keys without a get are those that no request
// here has; see judge. [AUTH-24, AUTH-46, AUTH-51]
var keys = map[string]key{
	"aws:securetransport": {kind: booleans, get: func(a *Ask) (string, bool) {
		return strconv.FormatBool(a.Secure), true
	}},
	"aws:sourceip": {kind: addresses, get: func(a *Ask) (string, bool) {
		return a.SourceIP.String(), a.SourceIP.IsValid()
	}},
	"aws:principalarn":     {kind: arns, get: given(func(a *Ask) string { return a.Principal })},
	"aws:principalaccount": {kind: accounts, get: given(func(a *Ask) string { return a.Account })},
	"aws:useragent":        {kind: words, get: given(func(a *Ask) string { return a.UserAgent })},
	"aws:currenttime":      {kind: dates, get: seconds},
	"aws:epochtime":        {kind: epochs, get: seconds},

	"aws:sourcearn":      {kind: arns, service: true},
	"aws:sourceaccount":  {kind: accounts, service: true},
	"aws:principalorgid": {kind: words, service: true},

	"aws:sourcevpc":              {kind: words},
	"aws:sourcevpce":             {kind: words},
	"aws:vpcsourceip":            {kind: addresses},
	"aws:multifactorauthpresent": {kind: booleans},
	"aws:multifactorauthage":     {kind: numbers},
}

// given returns the getter of a text that a request has unless it is empty.
func given(text func(a *Ask) string) func(a *Ask) (string, bool) {
	return func(a *Ask) (string, bool) { return text(a), text(a) != "" }
}

// seconds returns the time of a request, as a decimal.
func seconds(a *Ask) (string, bool) { return strconv.FormatInt(a.Now, 10), true }

// principalTag is the prefix of the keys for tags of principals. Principals have no tags here.
const principalTag = "aws:principaltag/"

func findKey(name string) (key, bool) {
	if tag, ok := strings.CutPrefix(name, principalTag); ok && tag != "" {
		return key{kind: words}, true
	}
	k, ok := keys[name]
	return k, ok
}

// An operator compares a value of the policy with that of the request, for keys of some kinds.
type operator struct {
	kinds   []kind
	test    func(value, got string) bool
	negated bool

	reads   kind // the kind its values are read as; 0 means that of the key
	pattern bool // its values are patterns, in which stars stand for any text
	null    bool // it tests whether the request has the key
}

var (
	textual   = []kind{words, accounts, arns}
	timely    = []kind{dates, epochs}
	numeric   = []kind{numbers, epochs}
	operators = map[string]operator{
		"stringequals":              {kinds: textual, test: same},
		"stringnotequals":           {kinds: textual, test: same, negated: true},
		"stringequalsignorecase":    {kinds: textual, test: strings.EqualFold},
		"stringnotequalsignorecase": {kinds: textual, test: strings.EqualFold, negated: true},
		"stringlike":                {kinds: textual, test: Match, pattern: true},
		"stringnotlike":             {kinds: textual, test: Match, pattern: true, negated: true},
		// the same as ArnLike: both take patterns
		"arnequals":    {kinds: []kind{arns}, test: matchARN},
		"arnnotequals": {kinds: []kind{arns}, test: matchARN, negated: true},
		"arnlike":      {kinds: []kind{arns}, test: matchARN},
		"arnnotlike":   {kinds: []kind{arns}, test: matchARN, negated: true},
		"ipaddress":    {kinds: []kind{addresses}, test: inNetwork},
		"notipaddress": {kinds: []kind{addresses}, test: inNetwork, negated: true},
		"bool":         {kinds: []kind{booleans}, test: strings.EqualFold},
		"null": {kinds: []kind{words, accounts, arns, addresses, booleans, numbers, dates,
			epochs}, reads: booleans, null: true},

		"numericequals":            comparison(numbers, numeric, equal),
		"numericnotequals":         comparison(numbers, numeric, equal).not(),
		"numericlessthan":          comparison(numbers, numeric, less),
		"numericlessthanequals":    comparison(numbers, numeric, atMost),
		"numericgreaterthan":       comparison(numbers, numeric, greater),
		"numericgreaterthanequals": comparison(numbers, numeric, atLeast),

		"dateequals":            comparison(dates, timely, equal),
		"datenotequals":         comparison(dates, timely, equal).not(),
		"datelessthan":          comparison(dates, timely, less),
		"datelessthanequals":    comparison(dates, timely, atMost),
		"dategreaterthan":       comparison(dates, timely, greater),
		"dategreaterthanequals": comparison(dates, timely, atLeast),
	}
)

// The results of a comparison of the request's value with the policy's.
func equal(c int) bool   { return c == 0 }
func less(c int) bool    { return c < 0 }
func atMost(c int) bool  { return c <= 0 }
func greater(c int) bool { return c > 0 }
func atLeast(c int) bool { return c >= 0 }

func same(value, got string) bool { return value == got }

// comparison returns an operator that orders what the request has and the value of the policy.
func comparison(reads kind, kinds []kind, holds func(int) bool) operator {
	return operator{kinds: kinds, reads: reads, test: func(value, got string) bool {
		x, okX := numbers.number(got)
		y, okY := reads.number(value)
		return okX && okY && holds(compareDecimals(x, y))
	}}
}

func (o operator) not() operator {
	o.negated = true
	return o
}

// arnParts are arn, partition, service, region, account and resource; the last may have colons in
// it.
const arnParts = 6

// matchARN compares the parts of two ARNs one by one: a star does not go beyond a colon.
func matchARN(pattern, arn string) bool {
	patterns, parts := strings.SplitN(pattern, ":", arnParts), strings.SplitN(arn, ":", arnParts)
	if len(patterns) != len(parts) {
		return false
	}
	for i := range parts {
		if !Match(patterns[i], parts[i]) {
			return false
		}
	}
	return true
}

// inNetwork reports whether an address is in a network, which parseCondition has read before. An
// IPv4 address is the same when it is mapped to IPv6, and a zone does not matter.
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

// holds reports whether a request fulfils the condition.
func (c *condition) holds(a *Ask) bool {
	known, _ := findKey(c.key)
	if known.get == nil {
		return c.without()
	}
	got, ok := known.get(a)
	if !ok {
		return c.without()
	}
	if c.null {
		return c.isNull(false)
	}
	any := slices.ContainsFunc(c.values, func(value string) bool { return c.test(value, got) })
	return any != c.negated
}

// without reports whether the condition holds for a request that does not have the key, as AWS
// decides it.
func (c *condition) without() bool {
	switch {
	case c.null:
		return c.isNull(true)
	case c.set == forAnyValue:
		return false
	}
	return c.exists || c.set == forAllValues || c.negated
}

// isNull reports whether a Null condition holds when the key is absent, or is not.
func (c *condition) isNull(absent bool) bool {
	return slices.ContainsFunc(c.values, func(value string) bool {
		return strings.EqualFold(value, strconv.FormatBool(absent))
	})
}

// isConstant reports whether the condition has the same result for every request, because none has
// its key.
func (c *condition) isConstant() bool {
	known, _ := findKey(c.key)
	return known.get == nil
}

// isService reports whether the condition is one of those on keys of services that were always
// accepted.
func (c *condition) isService() bool {
	known, _ := findKey(c.key)
	return known.service && c.set == noSet && !c.null
}

// parseCondition reads an operator, a key and its values.
func parseCondition(operator, key string, values []string) (condition, error) {
	c := condition{key: strings.ToLower(key), name: key, values: values}
	name := strings.ToLower(operator)
	if rest, ok := strings.CutPrefix(name, "forallvalues:"); ok {
		name, c.set = rest, forAllValues
	} else if rest, ok := strings.CutPrefix(name, "foranyvalue:"); ok {
		name, c.set = rest, forAnyValue
	}
	name, c.exists = strings.CutSuffix(name, "ifexists")
	var known bool
	c.operator, known = operators[name]
	k, ok := findKey(c.key)
	switch {
	case !known || c.null && (c.exists || c.set != noSet) || c.exists && c.set == forAnyValue:
		return c, unsupported("the condition operator %q is not supported", operator)
	case !ok:
		return c, unsupported("the condition key %q is not supported", key)
	case !slices.Contains(c.kinds, k.kind):
		return c, unsupported("the condition operator %q is not for the key %q: it would never hold", operator, key)
	case len(values) == 0:
		return c, fmt.Errorf("the condition on %q has no value", key)
	}
	for _, value := range values {
		if hasVariable(value) {
			return c, unsupported("the condition on %q has a variable, which is not supported", key)
		}
		if c.pattern {
			continue
		}
		if reason := cmp.Or(c.reads, k.kind).wrong(value); reason != "" {
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
		if len(strings.SplitN(value, ":", arnParts)) < arnParts ||
			!strings.HasPrefix(strings.ToLower(value), "arn:") {
			return fmt.Sprintf("%q is not an ARN, which has six parts", value)
		}
	case accounts:
		if !IsAccount(value) {
			return fmt.Sprintf("%q is not an account, which has twelve digits", value)
		}
	case numbers:
		if _, ok := k.number(value); !ok {
			return fmt.Sprintf("%q is not a number of at most %d characters", value, numberMax)
		}
	case dates:
		if _, ok := k.number(value); !ok {
			return fmt.Sprintf("%q is not a date, such as 2030-01-31 or 2030-01-31T12:00:00Z",
				value)
		}
	}
	return ""
}
