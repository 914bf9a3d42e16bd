package serve

import (
	"os"
	"os/signal"
	"syscall"

	"tenaq/internal/cli"
	"tenaq/internal/door/credentials"
	"tenaq/internal/server"
	"tenaq/internal/settings"
)

// openCredentials reads the keys that requests must be signed with; nil for none.
func openCredentials(c *settings.Configuration, getenv func(string) string) (*credentials.Set, error) {
	keys := credentials.Config{File: c.CredentialsFile, Account: c.Account, Actions: server.Actions()}
	keys.Environment(func(name string) string {
		if name == "TENAQ_CREDENTIALS" {
			return "" // it is one of the settings
		}
		return getenv(name)
	})
	set, err := credentials.Open(keys)
	if err != nil {
		return nil, cli.Codedf(cli.ExitUsage, "%v", err)
	}
	return set, nil
}

// hangups takes SIGHUP, which then reads keys and certificate again, until stop is called. It comes before anything else of
// the start: a server that opens a large store must not be ended by who renews its certificate meanwhile. Where there is
// neither, SIGHUP means what it always does, that the terminal is gone.
func hangups(c *settings.Configuration, getenv func(string) string) (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 1)
	if c.CredentialsFile != "" || c.TLSCert != "" || getenv("TENAQ_ACCESS_KEY_ID") != "" {
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals, func() {
		signal.Stop(signals)
		close(signals)
	}
}

// reloadOn reads keys and certificate again at each signal, also at one that came before there was a server.
func reloadOn(c *settings.Configuration, signals <-chan os.Signal, s *server.Server) {
	for range signals {
		if err := s.Reload(); err != nil {
			c.Logger.Error("not everything was reloaded", "error", err)
		}
	}
}
