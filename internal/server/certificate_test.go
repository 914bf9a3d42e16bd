package server

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newCertificate writes a certificate for a name and its key.
func newCertificate(t *testing.T, name, certFile, keyFile string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// A server with a certificate speaks TLS and nothing else, shows the certificate that is there now,
// and keeps the old one when the new one is none.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := newCertificate(t, "queue.example.com", certFile, keyFile)
	cfg := config(t)
	var log bytes.Buffer
	cfg.TLSCert, cfg.TLSKey, cfg.Logger = certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil))
	cfg.AllowedHosts = []string{"queue.example.com"}
	s, stop := run(t, cfg)
	trusting := func(cert *x509.Certificate) *http.Client {
		pool := x509.NewCertPool()
		pool.AddCert(cert)
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "queue.example.com"}}}
	}
	list := func(c *http.Client) string {
		resp, err := c.Get(s.URL() + "/?Action=ListQueues")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.Proto + " " + resp.Status + " " + string(body)
	}
	own := s.HTTPClient()
	own.Transport.(*http.Transport).DisableKeepAlives = true
	expect := func(what string, c *http.Client, want string) {
		t.Helper()
		if got := list(c); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %q in it", what, got, want)
		}
	}
	if !strings.HasPrefix(s.URL(), "https://127.0.0.1:") {
		t.Errorf("got the URL %s, want https", s.URL())
	}
	expect("who trusts it", trusting(first), "HTTP/1.1 200")
	expect("the process itself", own, "HTTP/1.1 200")
	if resp, err := http.Get("http://" + s.Addr() + "/?Action=ListQueues"); err != nil {
		t.Errorf("without TLS: got %v, want to be told that it takes TLS", err)
	} else {
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "HTTPS server") {
			t.Errorf("without TLS: got %s, %s, want to be told that it takes TLS", resp.Status, body)
		}
	}
	two, err := tls.Dial("tcp", s.Addr(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	io.WriteString(two, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	if resp, err := http.ReadResponse(bufio.NewReader(two), nil); err != nil || resp.StatusCode != http.StatusBadRequest || !resp.Close {
		t.Errorf("two lengths: got %v, %v, want status 400 and the connection closed [WIRE-32]", resp, err)
	}
	old, err := tls.Dial("tcp", s.Addr(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})
	if err == nil {
		old.Close()
		t.Error("TLS 1.1: got a connection, want none")
	}

	if err := os.WriteFile(certFile, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "stays in use") {
		t.Errorf("a broken certificate: got %v, want it refused", err)
	}
	expect("after a broken one", trusting(first), "HTTP/1.1 200")

	second := newCertificate(t, "queue.example.com", certFile, keyFile)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	expect("who trusts the old one", trusting(first), "certificate")
	expect("who trusts the new one", trusting(second), "HTTP/1.1 200")
	expect("the process itself", own, "HTTP/1.1 200")

	third := newCertificate(t, "queue.example.com", certFile, keyFile)
	past := time.Now().Add(-time.Minute)
	for _, name := range []string{certFile, keyFile} {
		if err := os.Chtimes(name, past, past); err != nil {
			t.Fatal(err)
		}
	}
	s.certificate.look() // as the server does from time to time
	expect("who trusts one that nobody told of", trusting(third), "HTTP/1.1 200")

	newCertificate(t, "queue.example.com", filepath.Join(dir, "another.pem"), filepath.Join(dir, "another.key"))
	another, err := openCertificate(filepath.Join(dir, "another.pem"), filepath.Join(dir, "another.key"), cfg.Logger)
	if err != nil {
		t.Fatal(err)
	}
	expect("a process with another certificate", &http.Client{Transport: &http.Transport{TLSClientConfig: another.trust()}}, "is not its own")
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := strings.Count(log.String(), "certificate reloaded"); got != 2 {
		t.Errorf("got %d reloads in the log, want 2:\n%s", got, &log)
	}
}

// A renewal is noticed however it is made. A certificate that cannot be used is tried again, and
// logged once.
func TestCertificateLook(t *testing.T) {
	dir := t.TempDir()
	path := func(name ...string) string { return filepath.Join(dir, filepath.Join(name...)) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	day := time.Now().Add(-time.Hour).Truncate(time.Second)
	pair := func(folder string) *x509.Certificate { // all of the same time
		must(os.MkdirAll(path(folder), 0o700))
		cert := newCertificate(t, "a", path(folder, "cert"), path(folder, "key"))
		must(os.Chtimes(path(folder, "cert"), day, day))
		must(os.Chtimes(path(folder, "key"), day, day))
		return cert
	}
	first := pair("first")
	must(os.Symlink("first", path("data")))
	must(os.Symlink(filepath.Join("data", "cert"), path("cert.pem")))
	must(os.Symlink(filepath.Join("data", "key"), path("key.pem")))
	var log bytes.Buffer
	c, err := openCertificate(path("cert.pem"), path("key.pem"), slog.New(slog.NewTextHandler(&log, nil)))
	must(err)
	expect := func(what string, want *x509.Certificate, reloads, failures int) {
		t.Helper()
		for range 3 {
			c.look()
		}
		if !c.current.Load().Leaf.Equal(want) {
			t.Errorf("%s: got another certificate", what)
		}
		if r, f := strings.Count(log.String(), "certificate reloaded"), strings.Count(log.String(), "not reloaded"); r != reloads || f != failures {
			t.Errorf("%s: got %d reloads and %d failures in the log, want %d and %d:\n%s", what, r, f, reloads, failures, &log)
		}
	}
	expect("nothing new", first, 0, 0)

	renamed := pair("renamed")
	must(os.Rename(path("renamed", "key"), path("first", "key")))
	expect("half of a pair of the same time", first, 0, 1)
	must(os.Rename(path("renamed", "cert"), path("first", "cert")))
	expect("both of a pair of the same time", renamed, 1, 1)

	linked := pair("linked")
	must(os.Symlink("linked", path("next")))
	must(os.Rename(path("next"), path("data")))
	expect("a folder that a link leads to", linked, 2, 1)

	// A certificate that was unreadable becomes readable, although neither file, size nor time
	// changes.
	good, err := os.ReadFile(path("linked", "key"))
	must(err)
	write := func(data []byte) {
		must(os.WriteFile(path("linked", "key"), data, 0o600))
		must(os.Chtimes(path("linked", "key"), day, day))
	}
	write(append([]byte("no key"), good...))
	expect("unreadable", linked, 2, 2)
	write(append([]byte("\n\n\n\n\n\n"), good...))
	expect("readable", linked, 3, 2)

	must(os.Rename(path("linked", "key"), path("linked", "away")))
	expect("away", linked, 3, 3)
	must(os.Rename(path("linked", "away"), path("linked", "key")))
	expect("back", linked, 4, 3)

	// An error that SIGHUP reported is not reported again.
	must(os.Rename(path("linked", "key"), path("linked", "away")))
	if err := c.reload(); err == nil {
		t.Error("a reload without a key: got no error")
	}
	expect("away at a reload", linked, 4, 3)
}

// [AUTH-1]
func TestCertificateIncomplete(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	newCertificate(t, "a", certFile, keyFile)
	newCertificate(t, "b", filepath.Join(dir, "other"), filepath.Join(dir, "other key"))
	for name, test := range map[string]struct{ cert, key, want string }{
		"no key":          {certFile, "", "--tls-key"},
		"no certificate":  {"", keyFile, "--tls-cert"},
		"not there":       {filepath.Join(dir, "nowhere"), keyFile, "can read"},
		"key of another":  {certFile, filepath.Join(dir, "other key"), "its key"},
		"no certificates": {keyFile, keyFile, "PEM"},
	} {
		cfg := config(t)
		cfg.TLSCert, cfg.TLSKey = test.cert, test.key
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, test.want)
		}
	}
}

func TestURL(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:9324": "http://127.0.0.1:9324",
		"0.0.0.0:9324":   "http://127.0.0.1:9324",
		"[::]:9324":      "http://127.0.0.1:9324",
		"[::1]:9324":     "http://[::1]:9324",
		"10.0.0.7:9324":  "http://10.0.0.7:9324",
	} {
		s := &Server{listener: at(addr)}
		if got := s.URL(); got != want {
			t.Errorf("%s is reached at %s, want %s", addr, got, want)
		}
	}
}

// at is a listener that has nothing but an address.
type at string

func (a at) Addr() net.Addr          { return a }
func (at) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (at) Close() error              { return nil }
func (at) Network() string           { return "tcp" }
func (a at) String() string          { return string(a) }
