package auth

import (
	"cmp"
	"strings"
	"time"

	"tenaq/internal/door/credentials"
)

// A Principal is the sender of a request: a key, or the server's own account when requests are not
// signed.
type Principal struct {
	account, id string
	region      string
	key         *credentials.Key // nil without credentials
	token       bool             // a token stands for the key
	session     *session         // that stands for the key; nil for none
	proxied     *proxied         // a user of a proxy, who acts as the key; nil for none
	signedIn    bool             // it has shown the secret, to begin a session
	ends        time.Time        // of the token or the session
}

// Account is the account of the principal.
func (p Principal) Account() string { return p.account }

// ARN names the principal in errors, in policies and for STS: a user, or without credentials the
// root user of the account.
func (p Principal) ARN() string {
	if p.key == nil {
		return "arn:aws:iam::" + p.account + ":root"
	}
	return p.key.ARN()
}

// UserID is the other name of the principal, which messages show as SenderId. [AUTH-40]
func (p Principal) UserID() string { return p.id }

// Signed reports whether the request was signed with a key. Without a key everything is allowed.
// [AUTH-47]
func (p Principal) Signed() bool { return p.key != nil }

// Token reports whether the request carried a token instead of a signature.
func (p Principal) Token() bool { return p.token }

// Session reports whether a session stands for the key, and when that ends at the latest.
func (p Principal) Session() (ends time.Time, ok bool) { return p.ends, p.session != nil }

// ProxyUser is the user that a proxy has named, who acts as the key; empty for none. [CONSOLE-21]
func (p Principal) ProxyUser() string {
	if p.proxied == nil {
		return ""
	}
	return p.proxied.user
}

// isPage reports whether a page makes the request for a key.
func (p Principal) isPage() bool { return p.session != nil || p.proxied != nil }

// Key names the key of the principal and says when it ends, zero for never; ok is false without
// credentials.
func (p Principal) Key() (id, user string, expires time.Time, ok bool) {
	if p.key == nil {
		return "", "", expires, false
	}
	return p.key.ID, p.key.Name, p.key.Expires, true
}

// Allows reports whether the key of the principal allows an action. The policy of a queue may allow
// more, or deny it.
func (p Principal) Allows(action string) bool { return p.key == nil || p.key.Allows(action) }

// Renew returns a principal with the present rights of its key. It returns false if the key no
// longer exists as it was, or has expired, or the token or session that stands for it has ended, or
// the user of a proxy acts as another key. It is for what lasts longer than a request.
func (d *Door) Renew(p Principal) (Principal, bool) {
	if p.key == nil {
		return p, true // without credentials
	}
	key, now := d.cfg.Credentials.Find(p.key.ID), time.Now()
	ok := key != nil && key.Secret.Reveal() == p.key.Secret.Reveal() &&
		(key.Expires.IsZero() || now.Before(key.Expires)) &&
		(p.ends.IsZero() || now.Before(p.ends)) &&
		(p.session == nil || d.sessions.isOpen(p.session))
	if p.proxied != nil {
		now, err := d.verifyProxied(p.proxied)
		ok = ok && err == nil && now.key.ID == p.key.ID
	}
	p.key = key
	return p, ok
}

// Authorize refuses an action, such as cloudwatch:PutMetricAlarm, that the key of the principal
// does not allow. Without credentials everything is allowed. [AUTH-21, AUTH-38]
func (p Principal) Authorize(action, resource string) error {
	if p.Allows(action) {
		return nil
	}
	return p.deniedBy("identity", action, resource)
}

// denied refuses an action for a reason.
func (p Principal) denied(action, resource, reason string) error {
	return denied("User: " + p.key.ARN() + " is not authorized to perform: " +
		strings.ToLower(action) +
		" on resource: " + resource + " " + reason)
}

// deniedBy refuses an action that no policy of a kind, identity or resource, allows.
func (p Principal) deniedBy(kind, action, resource string) error {
	return p.denied(action, resource, "because no "+kind+"-based policy allows the "+
		strings.ToLower(action)+" action")
}

// arn names a queue. An empty account is the principal's; an empty name stands for every queue of
// the account.
func (p Principal) arn(account, name string) string {
	return "arn:aws:sqs:" + p.region + ":" + cut(cmp.Or(account, p.account)) + ":" + cut(name)
}

func cut(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
