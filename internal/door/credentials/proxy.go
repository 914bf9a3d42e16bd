package credentials

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"tenaq/internal/door/policy"
)

// A Proxy is an authenticating reverse proxy in front of the console. It names a user in a header,
// and rules say which key the user acts as. It is declared beside the keys:
//
//	"proxy": {
//	  "user-header": "X-Forwarded-Email", "groups-header": "X-Forwarded-Groups",
//	  "peers": ["127.0.0.1", "10.1.2.0/28"],
//	  "rules": [
//	    {"group": "on-call", "key": "TQOPS00001"},
//	    {"user": "*@example.com", "key": "TQVIEW0001"}
//	  ]}
//
// Its rules hold keys of the same file, so a key that is removed leaves no rule behind.
type Proxy struct {
	// UserHeader and GroupsHeader are the headers that name the user and the user's groups, as
	// http.Header has them; GroupsHeader is empty for none.
	UserHeader, GroupsHeader string

	peers []netip.Prefix
	rules []proxyRule
	line  int // of its declaration
}

// A proxyRule lets a user, or the members of a group, act as a key.
type proxyRule struct {
	user, group string // a pattern, or a name; one of them is empty
	id          string // of the key
	key         *Key
	line        int
}

// Believes reports whether a header is believed from a peer. [CONSOLE-19]
func (p *Proxy) Believes(peer netip.Addr) bool {
	peer = peer.Unmap().WithZone("")
	return slices.ContainsFunc(p.peers, func(n netip.Prefix) bool { return n.Contains(peer) })
}

// Key returns the key that a user acts as: that of the first rule that matches; nil for none.
// [CONSOLE-19]
func (p *Proxy) Key(user string, groups []string) *Key {
	for _, r := range p.rules {
		if r.group != "" && slices.Contains(groups, r.group) ||
			r.group == "" && policy.Match(r.user, user) {
			return r.key
		}
	}
	return nil
}

// UserMax is how long the name of a user may be, in bytes.
const UserMax = 256

// IsUser reports whether a text can name a user: printable ASCII without spaces, which logs and
// pages show as it is, and without the comma that joins several headers to one.
func IsUser(text string) bool {
	return text != "" && len(text) <= UserMax && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || r == ','
	})
}

// readProxy reads the member proxy. completeProxy checks it when all keys are known.
func (doc *document) readProxy() error {
	if err := doc.expect('{', "proxy must be an object"); err != nil {
		return err
	}
	p := &Proxy{line: doc.line()}
	doc.proxy = p
	known := []string{"user-header", "groups-header", "peers", "rules"}
	return doc.members(known, func(name string) (err error) {
		switch name {
		case "user-header":
			p.UserHeader, err = doc.readHeader(name)
		case "groups-header":
			p.GroupsHeader, err = doc.readHeader(name)
		case "peers":
			const form = `peers must be a list of addresses and networks, such as ["127.0.0.1", "10.1.2.0/28"]`
			err = doc.list(form, func() error {
				text, err := doc.text("a peer")
				if err != nil {
					return err
				}
				peer, err := parsePeer(text, doc.cfg.TLS)
				if err != nil {
					return doc.at(doc.line(), "peers: %v", err)
				}
				p.peers = append(p.peers, peer)
				return nil
			})
		case "rules":
			err = doc.list("rules must be a list", doc.readRule)
		}
		return err
	})
}

// completeProxy refuses a proxy that is not complete, and finds the keys of its rules.
func (doc *document) completeProxy() error {
	p := doc.proxy
	switch {
	case p == nil:
		return nil
	case p.UserHeader == "":
		return doc.at(p.line, "proxy has no user-header: add the header in which the proxy names the user, such as X-Forwarded-Email")
	case p.GroupsHeader == p.UserHeader:
		return doc.at(p.line, "user-header and groups-header are the same: name two headers")
	case p.peers == nil:
		return doc.at(p.line, "proxy has no peers, so any client could name a user: add the addresses of the proxy")
	case p.rules == nil:
		return doc.at(p.line, `proxy has no rules, so it admits no user: add one such as {"user": "ann@example.com", "key": "TQOPS00001"}`)
	}
	for i := range p.rules {
		r := &p.rules[i]
		switch r.key = doc.keys[r.id]; {
		case r.key == nil:
			return doc.at(r.line, "rules: there is no key %s: add it to credentials, or correct the rule",
				r.id)
		case r.group != "" && p.GroupsHeader == "":
			return doc.at(r.line, "rules: proxy has no groups-header, so no user has the group %s: add groups-header, such as X-Forwarded-Groups", r.group)
		case i > 0 && p.rules[i-1].user == "*":
			return doc.at(r.line, "rules: the rule before is for every user, so this one never applies: move it up")
		}
	}
	return nil
}

var (
	headerPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)

	// reservedHeader matches headers that clients, browsers and nodes set themselves.
	reservedHeader = regexp.MustCompile(`^(Accept|Access-Control|Authorization|Cache-Control|` +
		`Connection|Content|Cookie|Date|Expect|Forwarded|Host|If|Keep-Alive|Origin|Pragma|Priority|` +
		`Proxy|Range|Referer|Sec|Te|Tenaq|Trailer|Transfer-Encoding|Upgrade|User-Agent|Via|X-Amz|` +
		`X-Forwarded-(For|Host|Port|Proto)|X-Real-Ip)(-|$)`)
)

// readHeader reads the name of a header that no client is expected to send. [CONSOLE-20]
func (doc *document) readHeader(member string) (string, error) {
	text, err := doc.text(member)
	if err != nil {
		return "", err
	}
	name := textproto.CanonicalMIMEHeaderKey(text)
	switch {
	case strings.Contains(text, "_"):
		return "", doc.at(doc.line(), "%s: some proxies take _ for -, so a client could send %q past the proxy: use a name with hyphens", member, text)
	case !headerPattern.MatchString(text):
		return "", doc.at(doc.line(), "%s: %q must be up to 64 letters, digits and hyphens, such as X-Forwarded-Email", member, text)
	case reservedHeader.MatchString(name):
		return "", doc.at(doc.line(), "%s: %s has another meaning, and clients send it themselves: use a header that only the proxy sets, such as X-Forwarded-Email", member, name)
	}
	return name, nil
}

// privateNets are the networks that cannot be reached from the Internet.
var privateNets = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fc00::/7"),
	netip.MustParsePrefix("fe80::/10"),
}

// parsePeer reads an address or a network from which a proxy connects. One that strangers could
// have is refused. [CONSOLE-20]
func parsePeer(text string, hasTLS bool) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if addr, notAddr := netip.ParseAddr(text); notAddr == nil && addr.Zone() == "" {
		p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	most := 8 // bits of a network that is not private
	if p.Addr().Is6() {
		most = 64
	}
	switch {
	case err != nil || p.Addr().Is4In6():
		return p, fmt.Errorf("%q is not an address or a network, such as 10.1.2.3 or 10.1.2.0/28",
			text)
	case p != p.Masked():
		return p, fmt.Errorf("%s is an address inside a network: write the address without /%d, or the network %s", text, p.Bits(), p.Masked())
	case slices.ContainsFunc(privateNets, func(n netip.Prefix) bool {
		return p.Bits() >= n.Bits() && n.Contains(p.Addr())
	}):
		return p, nil
	case p.Addr().BitLen()-p.Bits() > most:
		return p, fmt.Errorf("%s has addresses of strangers, and each of them could name any user: list the addresses of the proxy", text)
	case !hasTLS:
		return p, fmt.Errorf("%s is outside private networks, and without TLS others could change on the way whom the proxy names: serve TLS with --tls-cert and --tls-key, or connect the proxy through a private network", text)
	}
	return p, nil
}

// readRule reads an entry of rules.
func (doc *document) readRule() error {
	if err := doc.expect('{', "an entry of rules must be an object"); err != nil {
		return err
	}
	r := proxyRule{line: doc.line()}
	err := doc.members([]string{"user", "group", "key"}, func(name string) (err error) {
		to := map[string]*string{"user": &r.user, "group": &r.group, "key": &r.id}[name]
		*to, err = doc.text(name)
		return err
	})
	switch {
	case err != nil:
		return err
	case (r.user == "") == (r.group == ""):
		return doc.at(r.line, "a rule needs either user or group")
	case r.id == "":
		return doc.at(r.line, "a rule needs key, the id of the key that the user acts as")
	case r.user != "" && !IsUser(r.user):
		return doc.at(r.line, "user %q matches no user: a name has up to %d characters of printable ASCII, without spaces and commas; * and ? match any characters", r.user, UserMax)
	case r.group != "" && !isGroup(r.group):
		return doc.at(r.line, "group %q matches no group: a name is printable ASCII without commas",
			r.group)
	}
	doc.proxy.rules = append(doc.proxy.rules, r)
	return nil
}

// isGroup reports whether a text can be the name of a group in a header that lists them.
func isGroup(text string) bool {
	return text == strings.TrimSpace(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' || r > '~' || r == ','
	})
}
