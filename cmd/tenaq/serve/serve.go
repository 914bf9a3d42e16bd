// Package serve has the commands that run a server and look after its data: serve, config, verify,
// backup, restore and salvage.
package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/door/credentials"
	"tenaq/internal/redrivehost"
	"tenaq/internal/server"
	"tenaq/internal/settings"
)

func NewCmd(a *cli.App) *cobra.Command {
	f := &settings.SettingFlags{}
	var printConfig bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the queue",
		Long: `Run the queue: serve the SQS API until stopped.

One line on standard output says that the server is ready, and where its console
is; the log goes to standard error. SIGTERM and SIGINT stop it: waiting receives
return empty, accepted requests are completed, and it exits with 0 within ten
seconds. A second signal stops it at once and loses nothing that was
acknowledged.

With keys, requests must be signed. Keys come from the file of --credentials, or
a single one from TENAQ_ACCESS_KEY_ID and TENAQ_SECRET_ACCESS_KEY. SIGHUP
reloads keys and TLS certificate. Without keys, the server listens only on
loopback addresses, unless --allow-unauthenticated is set. Under systemd, use
Type=notify, with or without WatchdogSec.

With --cluster-listen, the server is a node of a cluster, which survives the
loss of a node: see "tenaq cluster --help".

` + settingsHelp,
		Example: `  tenaq serve
  tenaq serve --data-dir /var/lib/tenaq --listen 127.0.0.1:9324
  tenaq serve --config tenaq.yaml --log-format json
  tenaq serve --listen :9324 --credentials keys.json
  tenaq serve --purge-interval 0 --recreate-delay 0    # for tests
  tenaq serve --config tenaq.yaml --print-config`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Load()
			switch {
			case err != nil:
				return err
			case printConfig:
				return printConfiguration(a, c)
			}
			return serve(cmd.Context(), a, c)
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print the settings and exit")
	return cmd
}

func serve(ctx context.Context, a *cli.App, c *settings.Configuration) error {
	// Otherwise Go ends a panic, and the SIGABRT of a watchdog, with status 2: a service manager
	// would take it for a wrong configuration and start no server again. [DUR-43]
	debug.SetTraceback("crash")
	ballast := cli.PaceGC(os.Getenv)
	defer runtime.KeepAlive(ballast)
	cli.AddThreads(os.Getenv)
	c.HeapBallast = len(ballast)
	c.Version = cli.BuildVersion().Version
	c.Logger = c.Log.Logger(a.Stderr)
	c.Fatal = func(err error) { // [DUR-12]
		a.Complain(err)
		os.Exit(cli.ExitCode(err))
	}
	if c.File != nil && c.File.Redrive != nil {
		redriven := redrivehost.NewMetrics(c.File.Redrive.Specs)
		shown := newRedrivers(c.File.Redrive, redriven,
			c.Logger.With("component", "redrive"))
		c.Metrics, c.Redrivers = redriven.Write, shown
		c.Writing = func(ctx context.Context, s *server.Server) {
			redriveHosted(ctx, s, c, redriven, shown)
		}
	}
	if c.File != nil && len(c.File.Stores) > 0 {
		stores := &claimStores{list: c.File.Stores, open: make(map[string]*cli.RecordStore)}
		defer stores.close()
		c.Stores = stores
	}
	signals, stop := hangups(c, os.Getenv)
	defer stop()
	var err error
	if c.Credentials, err = openCredentials(c, os.Getenv); err != nil {
		return err
	}
	s, err := server.New(c.Config)
	if err != nil {
		return err
	}
	go reloadOn(c, signals, s)
	announced := make(chan error, 1)
	serving, cancel := context.WithCancel(ctx)
	manager := openNotifier(os.Getenv, c.Logger)
	go func() {
		if !answers(serving, s) {
			announced <- nil // it was stopped or failed before; Run says why
			return
		}
		err := announce(a, s, c)
		if err != nil {
			cancel() // no supervisor would learn that it is ready
		} else {
			manager.run(serving, s.Stuck)
		}
		announced <- err
	}()
	err = s.Run(serving)
	cancel()
	if failed := <-announced; err == nil && ctx.Err() == nil {
		err = failed
	}
	return err
}

// announce reports that the server is ready.
func announce(a *cli.App, s *server.Server, c *settings.Configuration) error {
	url := s.URL()
	adminURL, where := "", "no admin address"
	if s.AdminAddr() != "" {
		adminURL = "http://" + s.AdminAddr()
		where = "admin on " + adminURL
	}
	if a.JSON {
		return a.PrintJSONLine(map[string]string{
			"version": c.Version, "url": url, "adminUrl": adminURL, "dataDir": c.DataDir,
			"consoleUrl": s.ConsoleURL(),
		})
	}
	if console := s.ConsoleURL(); console != "" {
		where = "console on " + console + ", " + where
	}
	_, err := fmt.Fprintf(a.Stdout, "tenaq %s ready: SQS on %s, %s, data in %s\n", c.Version, url,
		where, c.DataDir)
	return err
}

// answers waits until the server answers a request of this process: New takes the address, but Run
// creates the declared queues before anything is answered. A node of a cluster is ready once it
// knows a leader. It is false if ctx ends first.
func answers(ctx context.Context, s *server.Server) bool {
	client := s.HTTPClient()
	defer client.CloseIdleConnections()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL(), nil)
		if err != nil {
			return false
		}
		if response, err := client.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if s.HasWriter() {
				return true
			}
		}
		if cli.Pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return false
		}
	}
}

// openCredentials reads the keys that requests must be signed with; nil for none.
func openCredentials(
	c *settings.Configuration, getenv func(string) string,
) (*credentials.Set, error) {
	keys := credentials.Config{File: c.CredentialsFile, Account: c.Account,
		Actions: server.Actions(), TLS: c.TLSCert != ""}
	keys.Environment(func(name string) string {
		if name == "TENAQ_CREDENTIALS" {
			return "" // a setting
		}
		return getenv(name)
	})
	set, err := credentials.Open(keys)
	if err != nil {
		return nil, cli.Codedf(cli.ExitUsage, "%v", err)
	}
	return set, nil
}

// hangups catches SIGHUP, which reloads keys and certificate, until stop is called. It is called
// first at the start: renewing a certificate must not end a server that is opening a large store.
// Without keys and certificate, SIGHUP keeps its default meaning, a closed terminal, unless a
// service manager runs the server: it has no terminal, and a reload must not end it.
func hangups(
	c *settings.Configuration, getenv func(string) string,
) (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 1)
	if c.CredentialsFile != "" || c.TLSCert != "" || getenv("TENAQ_ACCESS_KEY_ID") != "" ||
		getenv("NOTIFY_SOCKET") != "" {
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
