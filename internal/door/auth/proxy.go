package auth

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"tenaq/internal/door/credentials"
)

// A proxied request was authenticated by a proxy in front of the console, which names the user in a
// header. Nothing is kept about it: each request is judged anew, also by the leader of a cluster,
// which knows the address of the peer from the node that the peer is connected to. [CONSOLE-19]
type proxied struct {
	peer   netip.Addr
	user   string
	groups []string
}

// groupsMax is how long the header with the groups of a user may be.
const groupsMax = 8 << 10

// The texts of these errors begin with "The", by which a page knows that they are for its reader.
func errProxy(code, format string, args ...any) *Error {
	status := http.StatusBadRequest
	if code == "ProxyUserUnknown" {
		status = http.StatusForbidden
	}
	return &Error{Code: code, Status: status, Message: fmt.Sprintf(format, args...)}
}

// proxyOf returns the proxy of a request if only its header says who makes it, and else nil. What
// proves a key wins; what a proxy passes on of its own sign-in, such as a password, proves none.
func (d *Door) proxyOf(r *http.Request) *credentials.Proxy {
	proxy := d.cfg.Credentials.Proxy()
	if proxy == nil || len(r.Header[proxy.UserHeader]) == 0 ||
		len(r.Header[ProofHeader]) > 0 || strings.Contains(r.URL.RawQuery, "X-Amz-") {
		return nil
	}
	for _, text := range r.Header["Authorization"] {
		scheme, rest, _ := strings.Cut(text, " ")
		if strings.HasPrefix(scheme, "AWS") ||
			strings.EqualFold(scheme, "bearer") && strings.HasPrefix(rest, tokenVersion) {
			return nil
		}
	}
	return proxy
}

// authenticateProxied is Authenticate for a request that a proxy has authenticated. [CONSOLE-19,
// CONSOLE-20]
func (d *Door) authenticateProxied(
	r *http.Request, proxy *credentials.Proxy,
) (Pending, error) {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	from := &proxied{}
	from.peer, _ = netip.ParseAddr(address) // what is no address is no peer
	if !proxy.Believes(from.peer) {
		return Pending{}, errPeer(from.peer)
	}
	if !fromOwnPage(r) {
		return Pending{}, denied("The user that a proxy names counts only for pages of the console's own origin, over TLS or on this machine: " +
			"sign other requests with a key.")
	}
	if err := from.read(r.Header[proxy.UserHeader], r.Header[proxy.GroupsHeader]); err != nil {
		return Pending{}, err
	}
	_, err := d.verifyProxied(from)
	return Pending{door: d, proxied: from}, err
}

func errPeer(peer netip.Addr) error {
	return errProxy("ProxyNotTrusted", "The header that names the user came from %v, which is not a proxy of this server: "+
		"add the address to peers of proxy in the credentials file, or let no client send the header.", peer)
}

// read reads the headers. A header that occurs twice is refused: one of them may be of the client.
func (p *proxied) read(users, groups []string) error {
	switch {
	case len(users) != 1 || !credentials.IsUser(users[0]):
		return errProxy("ProxyHeaderInvalid", "The proxy must name the user in one header, in up to %d characters of printable ASCII without spaces and commas, and not as %+.80q. "+
			"Let the proxy replace what clients send, and name the user by an address or an id.",
			credentials.UserMax, users[:min(len(users), 2)])
	case len(groups) > 1 || len(groups) == 1 && len(groups[0]) > groupsMax:
		return errProxy("ProxyHeaderInvalid", "The proxy must name the groups in one header, between commas, in up to %d bytes. "+
			"Let the proxy replace what clients send, and send fewer groups.", groupsMax)
	}
	p.user = strings.Clone(users[0])
	for _, list := range groups {
		for group := range strings.SplitSeq(list, ",") {
			p.groups = append(p.groups, strings.Clone(strings.TrimSpace(group)))
		}
	}
	return nil
}

// verifyProxied makes the principal of a request that a proxy has authenticated, by the present
// rules.
func (d *Door) verifyProxied(from *proxied) (Principal, error) {
	proxy := d.cfg.Credentials.Proxy()
	if proxy == nil || !proxy.Believes(from.peer) {
		return Principal{}, errPeer(from.peer)
	}
	key := proxy.Key(from.user, from.groups)
	switch {
	case key == nil:
		return Principal{}, errProxy("ProxyUserUnknown", "The user %s may not use this server: "+
			"add the user, or one of its groups, to rules of proxy in the credentials file, and send SIGHUP to the server.", from.user)
	case expired(key, time.Now()):
		return Principal{}, errProxy("ProxyUserUnknown", "The key %s, as which the user %s acts, has expired: "+
			"renew it in the credentials file, and send SIGHUP to the server.", key.ID, from.user)
	}
	return Principal{account: key.Account, id: key.UserID(), region: d.cfg.Region, key: key,
		proxied: from}, nil
}
