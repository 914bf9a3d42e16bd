package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/door/credentials"
	"tenaq/internal/door/sigv4"
)

// A token stands for a key for some hours, so that a shell with curl can use /v1 without signing
// requests. It is a text of four parts between dots:
//
//	tqt1.KEYID.EXPIRES.SEAL
//
// EXPIRES is in Unix seconds. SEAL is an HMAC-SHA256 over the parts before it, by a secret of the
// store and the secret of the key. The server keeps nothing about a token: it may do what its key
// may do, and it ends with the key, also when the key gets another secret under the same id.
// [V1-6, V1-7]
const tokenVersion = "tqt1"

// Bounds of the life of a token.
const (
	TokenUsual = time.Hour
	TokenMax   = 12 * time.Hour
)

// A bearer is what a token says. It is worth nothing before its seal has been compared.
type bearer struct {
	keyID   string
	expires int64
	sealed  string // the parts before the seal
	seal    []byte
}

// errBearer refuses a token that this server did not make, or whose key has ended.
func errBearer() *Error {
	return &Error{Code: sigv4.InvalidClientTokenID, Status: http.StatusForbidden,
		Message: "The bearer token is not valid here, or its key has ended: make another one with tenaq token."}
}

// bearerOf reads the token of a request; nil if it has none. A token that is not well-formed is one
// without a seal.
func bearerOf(r *http.Request) *bearer {
	headers := r.Header["Authorization"]
	if len(headers) != 1 {
		return nil
	}
	scheme, text, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return nil
	}
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) != 4 || parts[0] != tokenVersion {
		return &bearer{}
	}
	b := &bearer{keyID: parts[1], sealed: strings.Join(parts[:3], ".")}
	var err error
	if b.expires, err = strconv.ParseInt(parts[2], 10, 64); err != nil {
		return &bearer{}
	}
	b.seal, err = base64.RawURLEncoding.DecodeString(parts[3])
	if err != nil || len(b.seal) != sha256.Size {
		return &bearer{}
	}
	return b
}

// SetTokenSecret sets the secret of the store that tokens are sealed with. Before that the door
// makes no token and accepts none.
func (d *Door) SetTokenSecret(secret []byte) { d.tokens.Store(&secret) }

// seal seals the parts of a token for a key; nil if the door has no secret. Key is nil without
// credentials.
func (d *Door) seal(sealed string, key *credentials.Key) []byte {
	secret := d.tokens.Load()
	if secret == nil {
		return nil
	}
	of := hmac.New(sha256.New, *secret)
	of.Write([]byte("bearer token\n"))
	if key != nil {
		of.Write([]byte(key.Secret.Reveal()))
	}
	mac := hmac.New(sha256.New, of.Sum(nil))
	mac.Write([]byte(sealed))
	return mac.Sum(nil)
}

// NewToken makes a token of a principal. It ends after life, or with the key if that ends first.
// [V1-6]
func (d *Door) NewToken(
	who Principal, life time.Duration,
) (text string, expires time.Time, err error) {
	switch {
	case who.token:
		return "", expires, denied("A token cannot make another one: sign the request with a key.")
	case who.isPage():
		return "", expires, denied("A session cannot make a token: sign the request with a key.")
	}
	id := ""
	expires = time.Now().Add(life).Truncate(time.Second)
	if who.key != nil {
		id = who.key.ID
		if end := who.key.Expires; !end.IsZero() && end.Before(expires) {
			expires = end.Truncate(time.Second)
		}
	}
	text = tokenVersion + "." + id + "." + strconv.FormatInt(expires.Unix(), 10)
	seal := d.seal(text, who.key)
	if seal == nil {
		return "", expires, denied("This server has no secret for tokens: sign requests with a key.")
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(seal), expires.UTC(), nil
}

// AuthenticateV1 is Authenticate for /v1, where a request may carry a token instead of a signature,
// or come from a page that has signed in or does so, by itself or by a proxy.
func (d *Door) AuthenticateV1(r *http.Request) (Pending, error) {
	if d.cfg.Credentials == nil {
		return d.unsigned(r)
	}
	if d.cfg.Sessions {
		if IsSignIn(r) || IsSession(r) {
			return d.authenticatePage(r)
		}
		if proxy := d.proxyOf(r); proxy != nil {
			return d.authenticateProxied(r, proxy)
		}
	}
	b := bearerOf(r)
	if b == nil {
		return d.Authenticate(r, "sqs")
	}
	if b.seal == nil || d.cfg.Credentials.Find(b.keyID) == nil {
		return Pending{}, errBearer()
	}
	return Pending{door: d, bearer: b}, nil
}

// verifyToken makes the principal of a token.
func (d *Door) verifyToken(b *bearer) (Principal, error) {
	key := d.cfg.Credentials.Find(b.keyID)
	if key == nil {
		return Principal{}, errBearer()
	}
	seal := d.seal(b.sealed, key)
	if seal == nil { // of the store, which this node has never opened
		return Principal{}, &Error{Code: sigv4.InvalidClientTokenID, Status: http.StatusForbidden,
			Message: "This node has never led and cannot check bearer tokens: sign the request with a key, or ask the node that leads."}
	}
	if !hmac.Equal(b.seal, seal) {
		return Principal{}, errBearer()
	}
	now := time.Now()
	if now.Unix() >= b.expires || !key.Expires.IsZero() && !now.Before(key.Expires) {
		return Principal{}, &Error{Code: sigv4.InvalidClientTokenID,
			Status:  http.StatusForbidden,
			Message: "The bearer token has expired: make another one with tenaq token."}
	}
	return Principal{account: key.Account, id: key.UserID(), region: d.cfg.Region, key: key,
		token: true, ends: time.Unix(b.expires, 0)}, nil
}
