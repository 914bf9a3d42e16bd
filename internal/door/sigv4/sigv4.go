// Package sigv4 verifies requests that are signed with AWS Signature Version 4, in the
// Authorization header or, presigned, in the query string.
//
// It works in two steps, so that the body of a request that cannot be valid is never read.
// Verifier.Parse checks everything that needs no secret: the form, the date, what is signed, the
// day, region and service. Request.Verify takes the secret and the hash of the body and compares
// signatures.
//
// What it guarantees:
//
//   - A handler acts only on what was signed: method, path, query, host, every X-Amz-* header, and
//     the bytes of the body. Path and query are used as received; nothing is normalised that a
//     handler would not normalise in the same way.
//   - There is one way to read a signature. A part that occurs twice, or in two places, is refused.
//   - An unknown key costs the same work as a known one.
//   - The work before a secret is needed is bounded by the limits in this file.
//   - Errors have the code, status and text of AWS, and hold no secret and no session token.
//
// It leaves to others who owns a key and what the key may do. It does not prevent a signed request
// from being sent again within the minutes of its validity: TLS does that.
package sigv4

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	algorithm  = "AWS4-HMAC-SHA256"
	terminator = "aws4_request"
	stampForm  = "20060102T150405Z"
	dayForm    = "20060102"

	// expiresMax is the longest life of a presigned request: a week.
	expiresMax = 604800 * time.Second

	// Limits on what an unknown sender can make this package do.
	authorizationMax = 16 << 10 // bytes; a session token is not in there
	signedMax        = 100      // headers
	parametersMax    = 10_000   // of the query string
)

// Config configures a Verifier.
type Config struct {
	// Region is the one that requests must be signed for; empty for any.
	Region string

	// Hosts are names, with their port where clients use one, under which clients know this server
	// although requests arrive with another Host, because a proxy writes its own. A signature may
	// be for any of them.
	Hosts []string

	// Skew is how far the date of a request may be from Now, in either direction; 15 minutes when
	// zero.
	Skew time.Duration

	// Now is the clock; time.Now when nil. Clients have no other clock than that of the wall.
	Now func() time.Time
}

// A Verifier verifies requests. It may be used by any number of goroutines.
type Verifier struct {
	cfg   Config
	keys  keyCache
	dummy Key    // stands for keys that are not known
	work  func() // called for every hash, in tests
}

// New returns a verifier.
func New(cfg Config) *Verifier {
	cfg.Skew = cmp.Or(cfg.Skew, 15*time.Minute)
	cfg.Hosts = slices.Clone(cfg.Hosts)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Verifier{cfg: cfg, dummy: Key{Secret: rand.Text() + rand.Text()}, work: func() {}}
}

// A Request is a signed request whose signature is still to be verified. Its fields say who claims
// to have sent it: they are worth nothing before Verify has returned nil.
type Request struct {
	KeyID     string
	Region    string
	Service   string
	Presigned bool

	v     *Verifier
	http  *http.Request
	token string // session token
	date  time.Time
	scope string // day/region/service/aws4_request

	signedNames string // as given
	signed      []string
	query       string // canonical
	contentHash string // the header, if it is there
	signature   string
}

// Parse reads the signature of a request and checks all that needs no secret. The signature must be
// for one of services, such as "sqs". Its errors are of type *Error. [AUTH-5, AUTH-6]
func (v *Verifier) Parse(r *http.Request, services ...string) (*Request, error) {
	q := &Request{v: v, http: r}
	pairs, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	p, err := readParameters(r, pairs)
	if err != nil {
		return nil, err
	}
	q.Presigned, q.signature = p.presigned, p.signature
	q.query = canonicalQuery(pairs, p.presigned)
	for _, check := range []func(parameters) error{q.readDate, q.readSigned, q.readAlgorithm} {
		if err := check(p); err != nil {
			return nil, err
		}
	}
	if err := q.readCredential(p.credential, services); err != nil {
		return nil, err
	}
	if err := q.readToken(p); err != nil {
		return nil, err
	}
	return q, q.readContentHash()
}

// readDate checks when the request was signed. [AUTH-7, AUTH-8, AUTH-16]
func (q *Request) readDate(p parameters) error {
	var err error
	if q.date, err = parseDate(p.date); err != nil {
		return incomplete("Date must be in ISO-8601 'basic format'. Got '%s'. See http://en.wikipedia.org/wiki/ISO_8601", p.date)
	}
	// Dates are whole seconds, so the clock is read as one too.
	now, skew := q.v.cfg.Now().UTC().Truncate(time.Second), q.v.cfg.Skew
	minutes := int(skew / time.Minute)
	if latest := now.Add(skew); q.date.After(latest) {
		return mismatch("Signature not yet current: %s is still later than %s (%s + %d min.)",
			stamp(q.date), stamp(latest), stamp(now), minutes)
	}
	if p.expires != "" {
		life, err := parseExpires(p.expires)
		if err != nil {
			return err
		}
		if q.date.Add(life).Before(now) {
			return &Error{RequestExpired, http.StatusBadRequest, "Request has expired."}
		}
		return nil
	}
	if earliest := now.Add(-skew); q.date.Before(earliest) {
		return mismatch("Signature expired: %s is now earlier than %s (%s - %d min.)",
			stamp(q.date), stamp(earliest), stamp(now), minutes)
	}
	return nil
}

func stamp(t time.Time) string { return t.Format(stampForm) }

// parseDate reads X-Amz-Date, or Date, which HTTP writes in another form.
func parseDate(text string) (time.Time, error) {
	if t, err := time.Parse(stampForm, text); err == nil {
		return t, nil
	}
	t, err := http.ParseTime(text)
	return t.UTC(), err
}

func parseExpires(text string) (time.Duration, error) {
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' || n > int(expiresMax/time.Second) {
			n = 0
			break
		}
		n = 10*n + int(c-'0')
	}
	life := time.Duration(n) * time.Second
	if life <= 0 || life > expiresMax {
		return 0, incomplete("X-Amz-Expires must be a number of seconds from 1 to %d.",
			int(expiresMax/time.Second))
	}
	return life, nil
}

// readSigned checks that everything is signed that decides what the request means: the host, the
// date, and all X-Amz-* headers, of which X-Amz-Target names the action. Content-Type cannot be
// demanded, since the AWS SDK for PHP leaves it out. [AUTH-6]
func (q *Request) readSigned(p parameters) error {
	if strings.Count(p.signed, ";") >= signedMax {
		return incomplete("More than %d headers are signed.", signedMax)
	}
	q.signedNames, q.signed = p.signed, strings.Split(p.signed, ";")
	for i, name := range q.signed {
		switch {
		case name == "" || strings.ToLower(name) != name || strings.ContainsAny(name, " \t\r\n:"):
			return mismatch("'%s' is not the name of a header in lower case, as 'SignedHeaders' has them.", name)
		case i > 0 && name <= q.signed[i-1]:
			return mismatch("'SignedHeaders' must be sorted and name each header once: '%s' follows '%s'.", name, q.signed[i-1])
		case name == "host" || name == "content-length":
		case len(q.http.Header.Values(name)) == 0:
			return mismatch("The header '%s' is among the 'SignedHeaders' and not in the request.",
				name)
		}
	}
	// A second Host would be one that is not looked at.
	if !slices.Contains(q.signed, "host") || differs(q.http.Header["Host"], q.http.Host) {
		return mismatch("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
	}
	if p.dateHeader && !slices.Contains(q.signed, "date") {
		return mismatch("'Date' must be a 'SignedHeader' in the AWS Authorization.")
	}
	for name, values := range q.http.Header {
		if !isAmz(name) {
			continue
		}
		if !slices.Contains(q.signed, strings.ToLower(name)) {
			return mismatch("'%s' must be a 'SignedHeader' in the AWS Authorization.", name)
		}
		if len(values) > 1 {
			return mismatch("The header '%s' is in the request more than once.", name)
		}
	}
	return nil
}

func isAmz(name string) bool {
	const prefix = "x-amz-"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

func differs(values []string, want string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return v != want })
}

func (q *Request) readAlgorithm(p parameters) error {
	if p.algorithm != algorithm {
		return incomplete("Unsupported AWS 'algorithm': '%s' (only AWS4-HMAC-SHA256 for now). ",
			p.algorithm)
	}
	return nil
}

// readCredential checks what the signature is for. The error names every mistake at once. [AUTH-14]
func (q *Request) readCredential(credential string, services []string) error {
	parts := strings.SplitN(credential, "/", 6)
	if len(parts) != 5 || parts[0] == "" {
		return incomplete("Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '%s'", credential)
	}
	var wrong []string
	day, region, service, term := parts[1], parts[2], parts[3], parts[4]
	if region == "" || q.v.cfg.Region != "" && region != q.v.cfg.Region {
		wrong = append(wrong, "Credential should be scoped to a valid region.")
	}
	if !slices.Contains(services, service) {
		wrong = append(wrong, "Credential should be scoped to correct service: '"+
			strings.Join(services, "', '")+"'.")
	}
	if term != terminator {
		wrong = append(wrong, "Credential should be scoped with a valid terminator: '"+terminator+
			"', not '"+term+"'.")
	}
	if want := q.date.Format(dayForm); day != want {
		wrong = append(wrong, "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '"+
			day+"' != '"+want+"', from '"+stamp(q.date)+"'.")
	}
	if wrong != nil {
		return mismatch("%s", strings.Join(wrong, " "))
	}
	q.KeyID, q.Region, q.Service = parts[0], region, service
	q.scope = credential[len(q.KeyID)+1:]
	return nil
}

// readToken finds the session token, which goes where the signature is.
func (q *Request) readToken(p parameters) error {
	header := q.http.Header.Get("X-Amz-Security-Token") // there at most once, and signed
	if q.token = p.token; !q.Presigned {
		q.token = header
	} else if header != "" {
		return mismatch("A presigned request has its session token in the query string and not in a header.")
	}
	return nil
}

// readContentHash refuses all hashes but those of bodies. Of the services that this package is for,
// no client leaves bodies unsigned or signs them in pieces, as those of S3 do. [AUTH-15]
func (q *Request) readContentHash() error {
	values := q.http.Header["X-Amz-Content-Sha256"]
	if len(values) == 0 {
		return nil
	}
	q.contentHash = values[0]
	if len(q.contentHash) == 64 && strings.Trim(q.contentHash, "0123456789abcdef") == "" {
		return nil
	}
	return mismatch("The header x-amz-content-sha256 must be the SHA-256 of the body in lower-case hexadecimal; " +
		"bodies that are not signed, or signed in pieces, are not accepted.")
}
