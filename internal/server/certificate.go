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
)

// A certificate is the TLS certificate of the server. It is reloaded when its files change, so a
// renewal needs no signal: files may be rewritten or replaced, or a link to them moved.
type certificate struct {
	certFile, keyFile string
	logger            *slog.Logger
	current           atomic.Pointer[tls.Certificate]

	mu sync.Mutex // of one reload at a time
	// the files that the last attempt read, nil for one that was not to be found
	seen   [2]os.FileInfo
	failed string // what was wrong at the last attempt, empty when nothing was
}

func openCertificate(certFile, keyFile string, logger *slog.Logger) (*certificate, error) {
	switch {
	case certFile == "" && keyFile == "":
		return nil, nil
	case certFile == "":
		return nil, configError("--tls-key is set without --tls-cert: pass the file of the certificate too")
	case keyFile == "":
		return nil, configError("--tls-cert is set without --tls-key: pass the file of the key too")
	}
	c := &certificate{certFile: certFile, keyFile: keyFile, logger: logger}
	if err := c.reload(); err != nil {
		return nil, configError("%v", err)
	}
	return c, nil
}

// reload reads the files again. If they cannot be used, the earlier certificate stays.
func (c *certificate) reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *certificate) read() error {
	c.seen = c.files()
	err := c.load()
	c.failed = ""
	if err != nil {
		c.failed = err.Error()
	}
	return err
}

func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("certificate: %w: pass files that this user can read to --tls-cert and --tls-key", err)
	case err != nil:
		return fmt.Errorf("certificate: %s and %s: %w: the files must hold a certificate with its chain, and its key, in PEM", c.certFile, c.keyFile, err)
	}
	if c.current.Swap(&pair) != nil {
		c.logger.Info("certificate reloaded", "ends", pair.Leaf.NotAfter)
	}
	return nil
}

// look reads the files again if they have changed, or if the last ones could not be used: a renewal
// may have written only one of them, or may still have to set their permissions. A lasting problem
// is logged once.
func (c *certificate) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.failed
	if before == "" && !c.changed() {
		return
	}
	if err := c.read(); err != nil && c.failed != before {
		c.logger.Error("certificate not reloaded, the earlier one stays in use", "error", err)
	}
}

// changed compares more than times, because a file that replaces another may be as old.
func (c *certificate) changed() bool {
	for i, now := range c.files() {
		switch was := c.seen[i]; {
		case was == nil || now == nil:
			if was != now {
				return true
			}
		case !os.SameFile(was, now) || !was.ModTime().Equal(now.ModTime()) ||
			was.Size() != now.Size():
			return true
		}
	}
	return false
}

// files are the two files where all links end.
func (c *certificate) files() (files [2]os.FileInfo) {
	for i, name := range []string{c.certFile, c.keyFile} {
		if info, err := os.Stat(name); err == nil {
			files[i] = info
		}
	}
	return files
}

// config returns the TLS configuration of the listener. It offers HTTP/1.1 only, as SQS does.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}

// trust returns the TLS configuration of a client that knows the server by its certificate,
// regardless of its names.
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
