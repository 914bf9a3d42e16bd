package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/settings"
)

func NewHealthCmd(a *cli.App) *cobra.Command {
	var f settings.SettingFlags
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check that the server on this machine is ready",
		Long: `Check that the server on this machine is ready for requests. The command asks
/readyz at the admin address, which it finds as "tenaq serve" does:
--admin-listen, TENAQ_ADMIN_LISTEN, the configuration file, 127.0.0.1:9325. It
is meant for scripts, and for containers without curl. It waits up to
--timeout for a server that has just been started.

The exit code is 0 if the server is ready. It is 1 if the server cannot be
reached or reports why it is not ready: it is stopping, the disk is full, or a
forced write does not return. "tenaq status" shows the figures of a server.`,
		Example: `  tenaq health
  tenaq health --admin-listen 127.0.0.1:9425 --timeout 1s
  docker run --health-cmd '/tenaq health' -p 127.0.0.1:9324:9324 tenaq`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Load()
			if err != nil {
				return err
			}
			if c.AdminListen == "off" {
				return cli.Usagef("admin-listen is off, so the server answers no health checks; set an address")
			}
			address := "http://" + cli.ReachableAddress(c.AdminListen)
			if err := checkReady(cmd.Context(), address, timeout); err != nil {
				return err
			}
			return a.Result(map[string]any{"ready": true, "url": address}, "ready")
		},
	}
	f.RegisterSome(cmd.Flags(), "admin-listen")
	cmd.Flags().Lookup("admin-listen").Usage = "admin `address` to ask"
	cmd.Flags().Lookup("config").Usage = "YAML `file` with settings"
	cli.SomeTime(cmd.Flags(), &timeout, "timeout", "3s", "fail after this `duration`")
	return cmd
}

func checkReady(ctx context.Context, address string, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected = true },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/readyz", nil)
	if err != nil {
		return cli.Usagef("%s is not a valid address: %v", address, err)
	}
	status, says, err := getReady(req)
	refused := errors.Is(err, syscall.ECONNREFUSED)
	for refused && !connected && ctx.Err() == nil {
		cli.Pause(ctx, 50*time.Millisecond)
		status, says, err = getReady(req)
	}
	switch {
	case refused && !connected: // the time limit may have ended the last attempt
		return cli.Codedf(cli.ExitFailed,
			"nothing listens at %s; start the server, or name its admin address with --admin-listen", address)
	case err != nil:
		return cli.Codedf(cli.ExitFailed, "%s: %v; look at the log of the server", address,
			cli.WithCause(ctx, err))
	case status != http.StatusOK:
		return cli.Codedf(cli.ExitFailed, "%s is not ready: %s", address, says)
	}
	return nil
}

func getReady(req *http.Request) (status int, says string, err error) {
	// Do not use a proxy of the environment for this machine.
	resp, err := (&http.Client{Transport: &http.Transport{}}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	return resp.StatusCode, strings.TrimSpace(string(text)), err
}
