package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"tenaq/internal/door/credentials"
)

// A session stands for a key in a browser. Two random values prove it: a cookie, which no script
// can read, and a proof, which the page keeps and sends as a header. Cookies know no ports, so
// another server on the same host may see the cookie, or set one; it cannot see the proof. The
// server keeps hashes of both, in memory. [CONSOLE-10, CONSOLE-11]
type session struct {
	key    *credentials.Key // as it was at the sign-in
	cookie [sha256.Size]byte
	proof  [sha256.Size]byte
	ends   time.Time
	used   time.Time
}

// Bounds of sessions.
const (
	SessionIdle   = 30 * time.Minute
	SessionMax    = 8 * time.Hour
	sessionsMax   = 1000
	sessionsOfKey = 20
)

// ProofHeader is the header with the proof of a session.
const ProofHeader = "Tenaq-Session"

// signInPath is where a page sends the id and the secret of a key.
const signInPath = "/v1/session"

// signInMax is how many bytes a sign-in may have.
const signInMax = 4 << 10

// sessions are the open ones, and the addresses and keys that have failed to begin one.
type sessions struct {
	mu    sync.Mutex
	all   map[[sha256.Size]byte]*session // by the hash of the cookie
	fails map[string]*fails              // by address and by key
}

// fails are the failed sign-ins of an address or a key.
type fails struct {
	n    int
	from time.Time
}

// Bounds of failures. [CONSOLE-12]
const (
	failsMax   = 5
	failsTime  = time.Minute
	failsKnown = 4096
)

func unauthorized(code, message string) *Error {
	return &Error{Code: code, Status: http.StatusUnauthorized, Message: message}
}

var (
	errSession = unauthorized("SessionEnded",
		"The session has ended, or its key has: sign in again.")
	errSignIn = unauthorized("SignInFailed",
		"The id and the secret do not belong to a key of this server.")
	errSignInForm = &Error{Code: "InvalidParameterValue", Status: http.StatusBadRequest,
		Message: "A sign-in is JSON with the members id and secret, and token for a temporary key."}
	errManySessions = &Error{Code: "TooManySessions", Status: http.StatusTooManyRequests,
		Message: "The server has as many sessions as it may have: sign out elsewhere first."}
	errManyFails = &Error{Code: "TooManyAttempts", Status: http.StatusTooManyRequests,
		Message: "Too many sign-ins have failed: try again in a minute."}
	errPlain = denied("Others could read the secret on the way: " +
		"sign in over TLS, or open the console on the machine itself.")
)

// HasSessions reports whether pages can sign in, or need not.
func (d *Door) HasSessions() bool { return d.cfg.Sessions }

// ReadOnly reports whether pages may change nothing.
func (d *Door) ReadOnly() bool { return d.cfg.ReadOnlyPages }

// IsSignIn reports whether a request is a sign-in.
func IsSignIn(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path == signInPath
}

// IsSession reports whether a request claims to be of a session. A signature or a token in it wins.
func IsSession(r *http.Request) bool {
	return len(r.Header[ProofHeader]) > 0 && len(r.Header["Authorization"]) == 0 &&
		!strings.Contains(r.URL.RawQuery, "X-Amz-")
}

// fromOwnPage reports whether a page of the very same origin made a request, port included. Every
// browser of today says so; what says nothing is refused. [CONSOLE-11]
func fromOwnPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && strings.EqualFold(origin.Host, r.Host)
}

// isSecure reports whether the browser has the page over TLS, which a proxy may have ended.
func isSecure(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://")
}

// A signIn is a request to begin a session.
type signIn struct{ address string }

// authenticatePage is Authenticate for a sign-in and for the requests of a session. [CONSOLE-11]
func (d *Door) authenticatePage(r *http.Request) (Pending, error) {
	if !fromOwnPage(r) {
		return Pending{}, errElsewhere
	}
	if !IsSignIn(r) {
		token, ok := sessionCookie(r)
		if proof := r.Header[ProofHeader]; ok && len(proof) == 1 {
			return Pending{door: d, session: &session{cookie: sha256.Sum256([]byte(token)),
				proof: sha256.Sum256([]byte(proof[0]))}}, nil
		}
		return Pending{}, errSession
	}
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !isSecure(r) && !IsLoopback(r.Host) {
		return Pending{}, errPlain
	}
	ip, _ := netip.ParseAddr(address)
	if ip.Is6() && !ip.Is4In6() { // a host has as many addresses as it likes
		if prefix, err := ip.WithZone("").Prefix(64); err == nil {
			address = prefix.String()
		}
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if strings.TrimSpace(kind) != "application/json" || r.ContentLength > signInMax {
		return Pending{}, errSignInForm
	}
	return Pending{door: d, signIn: &signIn{address}}, nil
}

// A SignIn is what a page sends to begin a session.
type SignIn struct {
	ID     string `json:"id" doc:"of an access key"`
	Secret string `json:"secret"`
	Token  string `json:"token,omitempty" doc:"session token of a temporary key"`
}

// verifySignIn makes the principal of a sign-in. An unknown key takes the time of a known one.
// [CONSOLE-12]
func (d *Door) verifySignIn(from *signIn, body []byte) (Principal, error) {
	var in SignIn
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if len(body) > signInMax || decoder.Decode(&in) != nil || decoder.More() || in.ID == "" {
		return Principal{}, errSignInForm
	}
	s := &d.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	names := []string{"address " + from.address, "key " + in.ID}
	if slices.ContainsFunc(names, func(name string) bool { return s.blocked(name, now) }) {
		return Principal{}, errManyFails
	}
	key, secret, token := d.cfg.Credentials.Find(in.ID), "", ""
	if key != nil {
		secret, token = key.Secret.Reveal(), key.Token.Reveal()
	}
	same := equal(in.Secret, secret) & equal(in.Token, token)
	if same != 1 || key == nil || expired(key, now) {
		for _, name := range names {
			s.failed(name, now)
		}
		return Principal{}, errSignIn
	}
	return Principal{account: key.Account, id: key.UserID(), region: d.cfg.Region, key: key,
		signedIn: true}, nil
}

// equal compares texts in a time that says nothing about them.
func equal(a, b string) int {
	left, right := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(left[:], right[:])
}

func expired(key *credentials.Key, now time.Time) bool {
	return !key.Expires.IsZero() && !now.Before(key.Expires)
}

func (s *sessions) blocked(name string, now time.Time) bool {
	f := s.fails[name]
	if f != nil && now.Sub(f.from) >= failsTime {
		delete(s.fails, name)
		return false
	}
	return f != nil && f.n >= failsMax
}

// failed counts a failure. The last one that is allowed blocks for the whole time.
func (s *sessions) failed(name string, now time.Time) {
	f := s.fails[name]
	if f == nil {
		for other, old := range s.fails { // order does not matter: any makes room
			if len(s.fails) < failsKnown {
				break
			}
			if now.Sub(old.from) >= failsTime || len(s.fails) >= 2*failsKnown {
				delete(s.fails, other)
			}
		}
		if s.fails == nil {
			s.fails = make(map[string]*fails)
		}
		f = &fails{from: now}
		s.fails[strings.Clone(name)] = f
	}
	if f.n++; f.n == failsMax {
		f.from = now
	}
}

// NewSession begins a session of a principal that has signed in. It sets the cookie and returns the
// proof, and when the session ends at the latest. [CONSOLE-10]
func (d *Door) NewSession(
	w http.ResponseWriter, r *http.Request, who Principal,
) (proof string, ends time.Time, err error) {
	if !who.signedIn {
		return "", ends, denied("Only the id and the secret of a key begin a session.")
	}
	s, now := &d.sessions, time.Now()
	ends = now.Add(SessionMax)
	if !who.key.Expires.IsZero() && who.key.Expires.Before(ends) {
		ends = who.key.Expires
	}
	token, proof := random(), random()
	begun := &session{key: who.key, cookie: sha256.Sum256([]byte(token)),
		proof: sha256.Sum256([]byte(proof)), ends: ends, used: now}
	s.mu.Lock()
	defer s.mu.Unlock()
	var same []*session
	for at, other := range s.all { // order does not matter: the result is sorted
		switch {
		case d.keyOf(other, now) == nil:
			delete(s.all, at)
		case other.key.ID == who.key.ID:
			same = append(same, other)
		}
	}
	if len(same) >= sessionsOfKey {
		oldest := slices.MinFunc(same, func(a, b *session) int { return a.used.Compare(b.used) })
		delete(s.all, oldest.cookie)
	}
	if len(s.all) >= sessionsMax {
		return "", ends, errManySessions
	}
	if s.all == nil {
		s.all = make(map[[sha256.Size]byte]*session)
	}
	s.all[begun.cookie] = begun
	setCookie(w, r, token)
	return proof, ends.UTC().Truncate(time.Second), nil
}

func random() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// keyOf returns the key that a session stands for, as it is now; nil if the session has ended, by
// time or with its key. [CONSOLE-13]
func (d *Door) keyOf(s *session, now time.Time) *credentials.Key {
	key := d.cfg.Credentials.Find(s.key.ID)
	if key != nil && key.Account == s.key.Account &&
		key.Secret.Reveal() == s.key.Secret.Reveal() &&
		key.Token.Reveal() == s.key.Token.Reveal() && !expired(key, now) &&
		now.Before(s.ends) && now.Sub(s.used) < SessionIdle {
		return key
	}
	return nil
}

// verifySession makes the principal of a request of a session.
func (d *Door) verifySession(claimed *session) (Principal, error) {
	s, now := &d.sessions, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.all[claimed.cookie]
	if found == nil {
		return Principal{}, errSession
	}
	key := d.keyOf(found, now)
	if key == nil {
		delete(s.all, found.cookie)
	}
	if key == nil || subtle.ConstantTimeCompare(found.proof[:], claimed.proof[:]) != 1 {
		return Principal{}, errSession
	}
	found.used = now
	return Principal{account: key.Account, id: key.UserID(), region: d.cfg.Region, key: key,
		session: found, ends: found.ends}, nil
}

// isOpen reports whether a session is still there.
func (s *sessions) isOpen(of *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[of.cookie] == of
}

// EndSession ends the session of a principal, or all sessions of its key. [CONSOLE-13]
func (d *Door) EndSession(w http.ResponseWriter, r *http.Request, who Principal, all bool) {
	s := &d.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, other := range s.all { // order does not matter
		if other == who.session || all && who.key != nil && other.key.ID == who.key.ID {
			delete(s.all, at)
		}
	}
	setCookie(w, r, "")
}

// AllowChange refuses a change that a page makes where pages are read-only, and without keys one
// that a page of another origin makes. [CONSOLE-11, CONSOLE-14]
func (d *Door) AllowChange(who Principal, r *http.Request) error {
	page := who.isPage()
	if who.key == nil {
		if err := http.NewCrossOriginProtection().Check(r); err != nil {
			return errElsewhere
		}
		page = isBrowser(r)
	}
	if page && d.cfg.ReadOnlyPages {
		return errReadOnly
	}
	return nil
}

var errReadOnly = denied("The console of this server is read-only: use the command instead.")

// cookieName names the cookie of a server. Cookies know no ports, so the name has the port.
func cookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil && port != "" {
		return "tenaq-session-" + port
	}
	return "tenaq-session"
}

// hostPrefix begins the name of a cookie that only this host can set, over TLS.
const hostPrefix = "__Host-"

// sessionCookie returns the cookie of a session. Over TLS, or behind a proxy that ends it, the one
// counts that only this host can set. Two of the same name are none: another server has set one.
func sessionCookie(r *http.Request) (token string, ok bool) {
	name := cookieName(r)
	strict, plain := r.CookiesNamed(hostPrefix+name), r.CookiesNamed(name)
	if len(strict) == 0 && r.TLS == nil {
		strict = plain
	}
	if len(strict) != 1 || strict[0].Value == "" {
		return "", false
	}
	return strict[0].Value, true
}

// setCookie sets the cookie of a session, or removes it if the token is empty.
func setCookie(w http.ResponseWriter, r *http.Request, token string) {
	set := &http.Cookie{Name: cookieName(r), Value: token, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode}
	if token == "" {
		set.MaxAge = -1
	}
	if isSecure(r) || token == "" && len(r.CookiesNamed(hostPrefix+set.Name)) > 0 {
		set.Name, set.Secure = hostPrefix+set.Name, true
	}
	http.SetCookie(w, set)
}
