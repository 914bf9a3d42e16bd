package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "tenaq/internal/api/v1"
	"tenaq/internal/cli"
)

func newKeysCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "List the access keys of a server, and when each was last used",
		Long: `List the access keys of a tenaq server with their users, rights and latest use.
It shows no secrets. To add, change or remove a key, edit the credentials file
and send SIGHUP to the server.

  EXPIRES   when the key expires, or that it has expired
  LAST USE  the latest request that was signed with the key, or that came with
            a token or a session of it
  ALLOW     the actions that it allows; * is every action

Uses are known since the server started. In a cluster, they are those that the
leader has seen since it took the lead.

The command needs a key with tenaq:ViewKeys, of the account of the server.`,
		Example: `  tenaq keys
  tenaq keys --json | jq -r '.keys[] | select(.lastUse == null).id'`,
		Args: cli.Wants(0, 0),
		RunE: f.RunV1("lists no keys: this needs a tenaq server of this version",
			func(ctx context.Context, v *cli.V1Client, _ []string) error {
				var list v1.KeyList
				if err := v.Get(ctx, "list the keys", "", "/keys", nil, &list); err != nil {
					return err
				}
				return printKeys(a, v.C.Endpoint, list)
			}),
	}
	f.Register(cmd)
	return cmd
}

func printKeys(a *cli.App, endpoint cli.Endpoint, list v1.KeyList) error {
	switch {
	case a.JSON:
		return a.PrintJSON(list)
	case list.Open:
		a.Note("%s has no keys: requests to it need not be signed", endpoint)
		return nil
	}
	clock := func(t *time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
	t := cli.Table{Head: []string{"KEY", "USER", "ACCOUNT", "EXPIRES", "LAST USE", "ALLOW"}}
	for _, k := range list.Keys {
		expires, used := "never", "-"
		switch {
		case k.Expired:
			expires = "expired " + clock(k.Expires)
		case k.Expires != nil:
			expires = clock(k.Expires)
		}
		if k.LastUse != nil {
			used = clock(k.LastUse)
		}
		t.Add(k.ID, k.User, k.Account, expires, used, strings.Join(k.Allow, " "))
	}
	if err := a.PrintTable(t); err != nil {
		return err
	}
	a.Note("\nuses are known since %s", clock(&list.Since))
	return nil
}
