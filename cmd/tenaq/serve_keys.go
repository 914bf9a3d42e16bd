package main

import (
	"os"
	"os/signal"
	"syscall"

	"tenaq/internal/credentials"
	"tenaq/internal/server"
)

// openCredentials reads the keys that requests must be signed with; nil for none.
func (c *configuration) openCredentials(getenv func(string) string) (*credentials.Set, error) {
	keys := credentials.Config{File: c.credentials, Account: c.Account, Actions: server.Actions()}
	keys.Environment(func(name string) string {
		if name == "TENAQ_CREDENTIALS" {
			return "" // it is one of the settings
		}
		return getenv(name)
	})
	set, err := credentials.Open(keys)
	if err != nil {
		return nil, codedf(exitUsage, "%v", err)
	}
	return set, nil
}

// reloadOnSignal lets SIGHUP read keys and certificate again, until stop is called. Where there is neither it means what
// it always does, that the terminal is gone.
func (c *configuration) reloadOnSignal(s *server.Server) (stop func()) {
	if c.Credentials == nil && c.TLSCert == "" {
		return func() {}
	}
	signals := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-signals:
				if err := s.Reload(); err != nil {
					c.Logger.Error("not everything was reloaded", "error", err)
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}
