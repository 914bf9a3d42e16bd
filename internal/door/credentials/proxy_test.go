package credentials

import (
	"net/netip"
	"strings"
	"testing"
)

// proxyFile is a file with two keys and a proxy with these members.
func proxyFile(members string) string {
	return `{"credentials": [
{"id": "OPS1", "secret": "` + canary + `", "allow": ["*"]},
{"id": "VIEW", "secret": "` + canary + `-2", "allow": ["*"]}],
"proxy": {` + members + `}}`
}

const (
	proxyHeader = `"user-header": "x-forwarded-email"`
	proxyPeers  = `"peers": ["127.0.0.1", "10.1.2.0/28", "fd00::/8"]`
	proxyRules  = `"rules": [{"group": "on call", "key": "OPS1"}, {"user": "ann@example.com", "key": "OPS1"}, {"user": "*@example.com", "key": "VIEW"}]`
)

// The first rule that matches decides, and only peers of the list are believed. A file that is read
// again replaces keys and rules together. [CONSOLE-19]
func TestProxy(t *testing.T) {
	path := write(t, "keys.json", proxyFile(proxyHeader+`, "groups-header": "Remote-Groups", `+proxyPeers+`, `+proxyRules), 0o600)
	set, err := Open(Config{File: path})
	if err != nil {
		t.Fatal(err)
	}
	p := set.Proxy()
	if p.UserHeader != "X-Forwarded-Email" || p.GroupsHeader != "Remote-Groups" {
		t.Errorf("got the headers %q and %q", p.UserHeader, p.GroupsHeader)
	}
	for _, test := range []struct {
		user   string
		groups []string
		want   string
	}{
		{"ann@example.com", nil, "OPS1"}, {"bob@example.com", nil, "VIEW"}, {"bob@example.com", []string{"", "on call"}, "OPS1"},
		{"eve@evil.example", nil, ""}, {"eve@evil.example", []string{"on", "call", "on call "}, ""}, {"Ann@example.com", nil, "VIEW"},
		{"ann@example.com.evil", nil, ""}, {"eve@evil.example", []string{""}, ""}, {"bob@EXAMPLE.com", nil, ""},
	} {
		got := ""
		if k := p.Key(test.user, test.groups); k != nil {
			got = k.ID
		}
		if got != test.want {
			t.Errorf("%s of %q acts as %q, want %q", test.user, test.groups, got, test.want)
		}
	}
	for peer, want := range map[string]bool{
		"127.0.0.1": true, "127.0.0.2": false, "10.1.2.0": true, "10.1.2.15": true, "10.1.2.16": false, "::ffff:10.1.2.3": true,
		"::ffff:10.1.2.16": false, "fd12::1": true, "fd12::1%eth0": true, "fc00::1": false, "::1": false, "192.0.2.1": false,
	} {
		if got := p.Believes(netip.MustParseAddr(peer)); got != want {
			t.Errorf("%s is believed: %v, want %v", peer, got, want)
		}
	}
	if p.Believes(netip.Addr{}) {
		t.Error("a peer without an address is believed")
	}
	write(t, path, strings.Replace(proxyFile(proxyHeader+","+proxyPeers+`, "rules": [{"user": "*", "key": "VIEW"}]`), "OPS1", "OPS2", 1), 0o600)
	if err := set.Reload(); err != nil {
		t.Fatal(err)
	}
	if k := set.Proxy().Key("eve@evil.example", nil); k != set.Find("VIEW") || set.Find("OPS1") != nil {
		t.Errorf("after a reload anyone acts as %v", k)
	}
	write(t, path, proxyFile(proxyHeader+","+proxyPeers+`, "rules": [{"user": "*", "key": "GONE"}]`), 0o600)
	if err := set.Reload(); err == nil || set.Proxy().Key("a", nil) != set.Find("VIEW") {
		t.Errorf("a rule without its key: %v", err)
	}
	write(t, path, single, 0o600)
	if err := set.Reload(); err != nil || set.Proxy() != nil {
		t.Errorf("without proxy: got %v and %v", set.Proxy(), err)
	}
}

// A rule that could let strangers in, or that never applies, is refused with its line. [CONSOLE-20]
func TestProxyIsRefused(t *testing.T) {
	for members, want := range map[string]string{
		``:                             "4: proxy has no user-header: add the header",
		proxyPeers + "," + proxyRules:  "4: proxy has no user-header",
		proxyHeader + "," + proxyRules: "4: proxy has no peers, so any client could name a user: add the addresses",
		proxyHeader + `, "peers": [], ` + proxyRules:                                            "4: proxy has no peers",
		proxyHeader + "," + proxyPeers:                                                          "4: proxy has no rules, so it admits no user",
		proxyHeader + "," + proxyPeers + `, "rules": []`:                                        "4: proxy has no rules",
		proxyHeader + `, "groups-header": "X-FORWARDED-EMAIL",` + proxyPeers + "," + proxyRules: "4: user-header and groups-header are the same",
		proxyHeader + "," + proxyPeers + "," + proxyRules:                                       "4: rules: proxy has no groups-header, so no user has the group on call",
		`"header": "X"`:                   `4: unknown member "header": the members are user-header, groups-header, peers, rules`,
		proxyHeader + ",\n" + proxyHeader: `5: "user-header" is given twice; the first is in line 4`,

		`"user-header": ""`:                                "4: user-header must be a string that is not empty",
		`"user-header": ["X"]`:                             "4: user-header must be a string that is not empty",
		`"user-header": "X_Forwarded_Email"`:               `4: user-header: some proxies take _ for -, so a client could send "X_Forwarded_Email" past the proxy: use a name with hyphens`,
		`"user-header": "X-Mail "`:                         `4: user-header: "X-Mail " must be up to 64 letters, digits and hyphens`,
		`"user-header": "X-Mäil"`:                          `4: user-header: "X-Mäil" must be`,
		`"user-header": "` + strings.Repeat("x", 65) + `"`: "4: user-header: ",
		`"user-header": "authorization"`:                   "4: user-header: Authorization has another meaning, and clients send it themselves",
		`"user-header": "cookie"`:                          "4: user-header: Cookie has another meaning",
		`"user-header": "Sec-Fetch-Site"`:                  "4: user-header: Sec-Fetch-Site has another meaning",
		`"user-header": "Tenaq-Client"`:                    "4: user-header: Tenaq-Client has another meaning",
		`"user-header": "X-Forwarded-For"`:                 "4: user-header: X-Forwarded-For has another meaning",
		`"groups-header": "X-Amz-Target"`:                  "4: groups-header: X-Amz-Target has another meaning",
		`"groups-header": "Groups_Of_The_Proxy"`:           "4: groups-header: some proxies take _ for -",

		`"peers": "127.0.0.1"`:         "4: peers must be a list of addresses and networks",
		`"peers": [1]`:                 "4: a peer must be a string",
		`"peers": ["localhost"]`:       `4: peers: "localhost" is not an address or a network`,
		`"peers": ["10.0.0.0/33"]`:     `4: peers: "10.0.0.0/33" is not an address or a network`,
		`"peers": ["fe80::1%eth0"]`:    `4: peers: "fe80::1%eth0" is not an address or a network`,
		`"peers": ["::ffff:10.0.0.1"]`: `4: peers: "::ffff:10.0.0.1" is not an address or a network`,
		`"peers": ["10.1.2.3/24"]`:     "4: peers: 10.1.2.3/24 is an address inside a network: write the address without /24, or the network 10.1.2.0/24",
		`"peers": ["0.0.0.0/0"]`:       "4: peers: 0.0.0.0/0 has addresses of strangers, and each of them could name any user: list the addresses of the proxy",
		`"peers": ["::/0"]`:            "4: peers: ::/0 has addresses of strangers",
		`"peers": ["10.0.0.0/7"]`:      "4: peers: 10.0.0.0/7 has addresses of strangers",
		`"peers": ["203.0.112.0/23"]`:  "4: peers: 203.0.112.0/23 has addresses of strangers",
		`"peers": ["2001:db8::/63"]`:   "4: peers: 2001:db8::/63 has addresses of strangers",
		`"peers": ["203.0.113.7"]`:     "4: peers: 203.0.113.7 is outside private networks, and without TLS others could change on the way whom the proxy names: serve TLS",
		`"peers": ["2001:db8::1"]`:     "4: peers: 2001:db8::1 is outside private networks",

		`"rules": ["a"]`:                                     "4: an entry of rules must be an object",
		`"rules": [{"key": "OPS1"}]`:                         "4: a rule needs either user or group",
		`"rules": [{"user": "a", "group": "b", "key": "C"}]`: "4: a rule needs either user or group",
		`"rules": [{"user": "a"}]`:                           "4: a rule needs key",
		`"rules": [{"user": "a", "secret": "b"}]`:            `4: unknown member "secret": the members are user, group, key`,
		`"rules": [{"user": "ann lee", "key": "OPS1"}]`:      `4: user "ann lee" matches no user`,
		`"rules": [{"user": "a,b", "key": "OPS1"}]`:          `4: user "a,b" matches no user`,
		`"rules": [{"user": "jürgen", "key": "OPS1"}]`:       `4: user "jürgen" matches no user`,
		`"rules": [{"group": "a,b", "key": "OPS1"}]`:         `4: group "a,b" matches no group`,
		`"rules": [{"group": " a", "key": "OPS1"}]`:          `4: group " a" matches no group`,
		proxyHeader + "," + proxyPeers + ", \"rules\": [\n{\"user\": \"*\", \"key\": \"OPS1\"},\n{\"user\": \"ann\", \"key\": \"OPS1\"}]": "6: rules: the rule before is for every user, so this one never applies: move it up",
		proxyHeader + "," + proxyPeers + ", \"rules\": [\n{\"user\": \"*\", \"key\": \"NONE\"}]":                                          "5: rules: there is no key NONE: add it to credentials, or correct the rule",
	} {
		path := write(t, "keys.json", proxyFile(members), 0o600)
		set, err := Open(Config{File: path})
		if err == nil || set != nil || !strings.HasPrefix(err.Error(), "credentials: "+path+":"+want) {
			t.Errorf("%s: got %v, want it to begin with %q", members, err, want)
		}
	}
	rules := `, "rules": [{"user": "*", "key": "VIEW"}]`
	for peers, want := range map[string]string{
		`["203.0.113.7"]`: "", `["203.0.113.0/24", "2001:db8::/64"]`: "", `["0.0.0.0/0"]`: "strangers", `["203.0.112.0/23"]`: "strangers",
	} {
		path := write(t, "keys.json", proxyFile(proxyHeader+`, "peers": `+peers+rules), 0o600)
		if _, err := Open(Config{File: path, TLS: true}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s over TLS: got %v", peers, err)
		}
	}
}
