package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func newTokenCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	var life time.Duration
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Print a short-lived token for curl",
		Long: `Print a bearer token for requests to /v1, so that curl does not have to sign
them.

The token has the rights of your key. It expires after --for, or with the key:
when the key expires, is removed, or gets another secret. The SQS API does not
accept tokens. A server without keys ignores them.

With --json, the output also has the time at which the token expires.`,
		Example: `  TOKEN=$(tenaq token)
  curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:9324/v1
  tenaq token --for 12h --json`,
		Args: cli.Wants(0, 0),
		RunE: f.RunV1("makes no tokens: this needs a tenaq server of this version",
			func(ctx context.Context, v *cli.V1Client, _ []string) error {
				var made struct {
					Token   string    `json:"token"`
					Expires time.Time `json:"expires"`
				}
				if err := v.Post(ctx, "make a token", "", "/tokens",
					map[string]string{"for": life.String()}, &made); err != nil {
					return err
				}
				if a.JSON {
					return a.PrintJSON(made)
				}
				_, err := fmt.Fprintln(a.Stdout, made.Token)
				return err
			}),
	}
	f.Register(cmd)
	cli.Duration(cmd.Flags(), &life, "for", "1h", "`duration` of the token, at most 12h")
	return cmd
}
