package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// The files of an authority and of the nodes it signs for, as NewAuthority and NewCertificate write
// them.
const (
	authorityFile    = "ca.pem"
	authorityKeyFile = "ca-key.pem"
	certificateFile  = "node.pem"
	keyFile          = "node-key.pem"
)

const (
	authorityLife   = 20 * 365 * 24 * time.Hour
	certificateLife = 2 * 365 * 24 * time.Hour
	backdate        = time.Hour // for nodes whose clocks are behind

	// nodeName is the name in every certificate of a node. Nodes are not told apart by it: they may
	// move between addresses.
	nodeName = "node.tenaq.internal"
)

// madeBy ends the errors of files that a node needs.
const madeBy = `pass the directory of a node that "tenaq cluster ca node" made`

// An Identity is what a node shows to others: the certificate of the authority, and its own with
// its key. The files are read for each handshake, so that a renewal takes no restart.
type Identity struct{ authority, certificate, key string }

// OpenIdentity reads ca.pem, node.pem and node-key.pem in dir. The error says which file is missing
// or wrong.
func OpenIdentity(dir string) (*Identity, error) {
	id := &Identity{authority: filepath.Join(dir, authorityFile),
		certificate: filepath.Join(dir, certificateFile),
		key:         filepath.Join(dir, keyFile)}
	pool, own, err := id.read()
	if err != nil {
		return nil, err
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
		x509.ExtKeyUsageClientAuth} {
		_, err := own.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: nodeName,
			KeyUsages: []x509.ExtKeyUsage{usage}})
		if err != nil {
			return nil, fmt.Errorf("%s is not the certificate of a node signed by %s: %w: create one with this authority", id.certificate, id.authority, err)
		}
	}
	return id, nil
}

// Ends is when the certificate of this node expires.
func (id *Identity) Ends() (time.Time, error) {
	own, err := id.own()
	if err != nil {
		return time.Time{}, err
	}
	return own.Leaf.NotAfter, nil
}

func (id *Identity) pool() (*x509.CertPool, error) {
	text, err := os.ReadFile(id.authority)
	if err != nil {
		return nil, fmt.Errorf("the certificate of the cluster's authority: %w: %s", err, madeBy)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", id.authority)
	}
	return pool, nil
}

func (id *Identity) own() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(id.certificate, id.key)
	if err != nil {
		return nil, fmt.Errorf("the certificate of this node, %s with %s: %w: %s", id.certificate,
			id.key, err, madeBy)
	}
	return &pair, nil
}

func (id *Identity) read() (pool *x509.CertPool, own *tls.Certificate, err error) {
	if pool, err = id.pool(); err == nil {
		own, err = id.own()
	}
	return pool, own, err
}

func (id *Identity) server() *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, own, err := id.read()
		if err != nil {
			return nil, err
		}
		return &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs:    pool,
			Certificates: []tls.Certificate{*own}, SessionTicketsDisabled: true}, nil
	}}
}

func (id *Identity) client() (*tls.Config, error) {
	pool, own, err := id.read()
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: nodeName,
		Certificates: []tls.Certificate{*own}}, nil
}

// NewAuthority makes an authority in dir: ca.pem, which every node needs, and ca-key.pem, which
// only NewCertificate needs and which belongs nowhere near the nodes. It overwrites nothing.
func NewAuthority(dir string) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	name := pkix.Name{CommonName: "tenaq cluster"}
	template := &x509.Certificate{Subject: name, NotBefore: time.Now().Add(-backdate),
		NotAfter: time.Now().Add(authorityLife),
		IsCA:     true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign}
	return sign(template, template, key, key, filepath.Join(dir, authorityFile),
		filepath.Join(dir, authorityKeyFile))
}

// NewCertificate makes node.pem and node-key.pem in dir, signed by the authority in the directory
// authority, and a copy of its ca.pem: all that a node needs. The certificate ends after two years.
// It overwrites nothing.
func NewCertificate(authority, dir string) error {
	pair, err := tls.LoadX509KeyPair(filepath.Join(authority, authorityFile),
		filepath.Join(authority, authorityKeyFile))
	if err != nil {
		return fmt.Errorf("the authority in %s: %w: pass the directory that \"tenaq cluster ca new\" made", authority, err)
	}
	signer, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return fmt.Errorf("the key of the authority in %s is a %T, want ECDSA", authority,
			pair.PrivateKey)
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: nodeName},
		DNSNames:  []string{nodeName},
		NotBefore: time.Now().Add(-backdate), NotAfter: time.Now().Add(certificateLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if template.NotAfter.After(pair.Leaf.NotAfter) {
		template.NotAfter = pair.Leaf.NotAfter
	}
	if err := sign(template, pair.Leaf, key, signer, filepath.Join(dir, certificateFile),
		filepath.Join(dir, keyFile)); err != nil {
		return err
	}
	if filepath.Clean(authority) == filepath.Clean(dir) {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(authority, authorityFile))
	if err != nil {
		return err
	}
	return create(filepath.Join(dir, authorityFile), text, 0o644)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// sign writes a certificate and its key.
func sign(
	template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey, certificate, keyPath string,
) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := create(keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		0o600); err != nil {
		return err
	}
	return create(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		0o644)
}

// create writes a file that must not be there yet.
func create(path string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already and is left as it is: choose another directory", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
