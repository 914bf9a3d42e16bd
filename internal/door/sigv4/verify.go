package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A Key is what requests of one key id are signed with.
type Key struct {
	Secret string

	// Token is the session token that requests must carry; empty for a key that has none.
	Token string

	// Expires is when the key ends; zero for never.
	Expires time.Time
}

// Verify reports whether the request was signed with key, and its body has this SHA-256. A nil key
// is one that is not known: the work is the same, so that time does not tell which keys there are.
// Errors are of type *Error. [AUTH-9, AUTH-10, AUTH-11, AUTH-34]
func (q *Request) Verify(key *Key, body [sha256.Size]byte) error {
	known, id := key != nil, q.KeyID
	if !known {
		// Made-up key ids must not fill the cache.
		key, id = &q.v.dummy, ""
	}
	bodyHash := hex.EncodeToString(body[:])
	signing := q.v.keys.get(q, id, key.Secret)
	valid := q.signedFor(q.http.Host, bodyHash, signing)
	for _, host := range q.v.cfg.Hosts {
		if !valid && host != q.http.Host {
			valid = q.signedFor(host, bodyHash, signing)
		}
	}
	valid = valid && (q.contentHash == "" || q.contentHash == bodyHash)
	rightToken := subtle.ConstantTimeCompare([]byte(q.token), []byte(key.Token)) == 1
	switch {
	case !known || !rightToken:
		return &Error{InvalidClientTokenID, http.StatusForbidden,
			"The security token included in the request is invalid."}
	case !valid:
		return q.wrongSignature(bodyHash)
	case !key.Expires.IsZero() && !q.v.cfg.Now().Before(key.Expires):
		return &Error{ExpiredToken, http.StatusForbidden,
			"The security token included in the request is expired"}
	}
	return nil
}

// signedFor reports whether the signature is right if the client called the server host.
func (q *Request) signedFor(host, bodyHash string, signing []byte) bool {
	q.v.work()
	text := q.stringToSign(q.appendCanonical(make([]byte, 0, 1024), host, bodyHash))
	got := hex.EncodeToString(q.v.hmac(signing, text))
	return hmac.Equal([]byte(got), []byte(q.signature))
}

func (q *Request) stringToSign(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return algorithm + "\n" + stamp(q.date) + "\n" + q.scope + "\n" + hex.EncodeToString(sum[:])
}

func (v *Verifier) hmac(key []byte, text string) []byte {
	v.work()
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// wrongSignature shows what should have been signed, so that the caller can find the difference.
func (q *Request) wrongSignature(bodyHash string) *Error {
	canonical := string(q.appendCanonical(nil, q.http.Host, bodyHash))
	text := q.stringToSign([]byte(canonical))
	return mismatch("The request signature we calculated does not match the signature you provided. "+
		"Check your AWS Secret Access Key and signing method. Consult the service documentation for details.\n\n"+
		"The Canonical String for this request should have been\n'%s'\n\nThe String-to-Sign should have been\n'%s'\n",
		q.withoutSecrets(canonical), text)
}

// withoutSecrets takes out of a canonical request what a log that keeps answers should not have:
// the session token, and what headers hold that are secret by their nature.
func (q *Request) withoutSecrets(canonical string) string {
	secrets := []string{q.token, encode(q.token)}
	for _, name := range []string{"Authorization", "Cookie", "Proxy-Authorization"} {
		for _, v := range q.http.Header[name] {
			secrets = append(secrets, string(appendTrimmed(nil, v)))
		}
	}
	for _, s := range secrets {
		if s != "" {
			canonical = strings.ReplaceAll(canonical, s, "(not shown)")
		}
	}
	return canonical
}

// A keyCache remembers signing keys, which four HMACs make of a secret and which are good for a
// day. The secret is part of what they are found by, so that a changed one takes effect at once.
type keyCache struct {
	mu   sync.Mutex
	keys map[derivation][]byte
}

type derivation struct{ id, secret, day, region, service string }

// cacheMax bounds the number of signing keys. Two days are in use around midnight.
const cacheMax = 1024

func (c *keyCache) get(q *Request, id, secret string) []byte {
	d := derivation{id, secret, q.scope[:len(dayForm)], q.Region, q.Service}
	c.mu.Lock()
	key := c.keys[d]
	c.mu.Unlock()
	if key != nil {
		return key
	}
	key = []byte("AWS4" + secret)
	for _, text := range []string{d.day, d.region, d.service, terminator} {
		key = q.v.hmac(key, text)
	}
	// The strings are parts of a header that need not stay.
	d = derivation{strings.Clone(id), secret, strings.Clone(d.day), strings.Clone(d.region),
		strings.Clone(d.service)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil || len(c.keys) >= cacheMax {
		c.keys = make(map[derivation][]byte)
	}
	c.keys[d] = key
	return key
}
