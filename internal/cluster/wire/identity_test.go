package wire

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func peerOf(conn net.Conn) *x509.Certificate {
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
}

func TestCertificates(t *testing.T) {
	ca := authority(t)
	dir, id := certificate(t, ca)
	ends, err := id.Ends()
	if left := time.Until(ends); err != nil || left < certificateLife-time.Hour ||
		left > certificateLife {
		t.Errorf("the certificate ends in %v, %v, want %v", left, err, certificateLife)
	}
	for name, mode := range map[string]os.FileMode{
		filepath.Join(ca, authorityKeyFile): 0o600, filepath.Join(dir, keyFile): 0o600,
	} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: got %v, %v, want the mode %v", name, info, err, mode)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, authorityKeyFile)); err == nil {
		t.Error("a node got the key of the authority")
	}
}

// Existing files may be in use, so none is overwritten.
func TestNothingIsOverwritten(t *testing.T) {
	ca := authority(t)
	dir, _ := certificate(t, ca)
	for name, err := range map[string]error{"authority": NewAuthority(ca),
		"certificate": NewCertificate(ca, dir)} {
		if err == nil || !strings.Contains(err.Error(), "exists already") {
			t.Errorf("a second %s: got %v", name, err)
		}
	}
	if _, err := OpenIdentity(dir); err != nil {
		t.Errorf("after the refusals: %v", err)
	}
}

func TestOpenIdentityRefuses(t *testing.T) {
	ca := authority(t)
	for name, tt := range map[string]struct {
		change func(t *testing.T, dir string) error
		want   string
	}{
		"no authority": {func(_ *testing.T, dir string) error {
			return os.Remove(filepath.Join(dir, authorityFile))
		}, authorityFile},
		"no PEM": {func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, authorityFile), []byte("x"), 0o600)
		}, "no certificate in PEM"},
		"no key": {func(_ *testing.T, dir string) error {
			return os.Remove(filepath.Join(dir, keyFile))
		}, keyFile},
		"other key": {func(t *testing.T, dir string) error {
			return copyOf(t, ca, dir, keyFile)
		}, "private key does not match"},
		"other cluster": {func(t *testing.T, dir string) error {
			return copyOf(t, authority(t), dir, authorityFile)
		}, "is not the certificate of a node"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := certificate(t, ca)
			if err := tt.change(t, dir); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenIdentity(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// copyOf replaces a file of dir by that of another node, or of the authority itself.
func copyOf(t *testing.T, authority, dir, name string) error {
	other, _ := certificate(t, authority)
	text, err := os.ReadFile(filepath.Join(other, name))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), text, 0o600)
}
