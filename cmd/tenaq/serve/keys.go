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
func openCredentials(
	c *settings.Configuration, getenv func(string) string,
) (*credentials.Set, error) {
	keys := credentials.Config{File: c.CredentialsFile, Account: c.Account,
		Actions: server.Actions()}
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

// hangups catches SIGHUP, which then reloads keys and certificate, until stop is called. It comes
// first at the start: renewing a certificate must not end a server that is opening a large store.
// Without either, SIGHUP keeps its default meaning, a closed terminal.
func hangups(
	c *settings.Configuration, getenv func(string) string,
) (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 1)
	if c.CredentialsFile != "" || c.TLSCert != "" || getenv("TENAQ_ACCESS_KEY_ID") != "" {
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals, func() {
		signal.Stop(signals)
		close(signals)
	}
}

// reloadOn reloads keys and certificate at each signal, including one that came before the server
// was ready.
func reloadOn(c *settings.Configuration, signals <-chan os.Signal, s *server.Server) {
	for range signals {
		if err := s.Reload(); err != nil {
			c.Logger.Error("reload failed in part", "error", err)
		}
	}
}
