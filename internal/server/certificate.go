package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A certificate is what the server shows of itself over TLS. It is read again when its files change, so that whoever
// renews it need not tell anybody.
type certificate struct {
	certFile, keyFile string
	logger            *slog.Logger
	current           atomic.Pointer[tls.Certificate]

	mu   sync.Mutex   // of one reload at a time
	seen [2]time.Time // when the files were changed that the last attempt read
}

func openCertificate(certFile, keyFile string, logger *slog.Logger) (*certificate, error) {
	switch {
	case certFile == "" && keyFile == "":
		return nil, nil
	case certFile == "":
		return nil, configError("there is a key for TLS and no certificate: name its file with --tls-cert")
	case keyFile == "":
		return nil, configError("there is a certificate for TLS and no key: name its file with --tls-key")
	}
	c := &certificate{certFile: certFile, keyFile: keyFile, logger: logger}
	if err := c.reload(); err != nil {
		return nil, configError("%v", err)
	}
	return c, nil
}

// reload reads the files again. When there is anything wrong, what was read before stays.
func (c *certificate) reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *certificate) read() error {
	c.seen = c.changed()
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("certificate: %w: let --tls-cert and --tls-key name files that this user can read", err)
	case err != nil:
		return fmt.Errorf("certificate: %s and %s: %w: they must hold a certificate with its chain, and the key to it, in PEM", c.certFile, c.keyFile, err)
	}
	if c.current.Swap(&pair) != nil {
		c.logger.Info("certificate reloaded", "ends", pair.Leaf.NotAfter)
	}
	return nil
}

// look reads the files again if they are others than those last read. A renewal that has written one of the two is tried,
// and again when it has written the other.
func (c *certificate) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed() == c.seen {
		return
	}
	if err := c.read(); err != nil {
		c.logger.Error("certificate not reloaded; the one of before stays in use", "error", err)
	}
}

func (c *certificate) changed() (times [2]time.Time) {
	for i, name := range []string{c.certFile, c.keyFile} {
		if info, err := os.Stat(name); err == nil {
			times[i] = info.ModTime()
		}
	}
	return times
}

// config is that of the listener. It is for HTTP/1.1 alone, as that of SQS is.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// trust is for a client that knows the server by its certificate, whatever names that is for.
func (c *certificate) trust() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection does
		VerifyConnection: func(state tls.ConnectionState) error {
			if own := c.current.Load().Leaf; !state.PeerCertificates[0].Equal(own) {
				return errors.New("the certificate at the server's own address is not its own")
			}
			return nil
		},
	}
}
