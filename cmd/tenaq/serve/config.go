package serve

import (
	"context"

	"github.com/spf13/cobra"

	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
	"tenaq/internal/server"
	"tenaq/internal/settings"
)

const settingsHelp = `A setting is a flag (--data-dir), a variable (TENAQ_DATA_DIR), or a key
(data-dir:) of the YAML file that --config names; the first of these wins. An
unknown key is an error. Durations need a unit (90s, 5m); sizes may have one
(512MiB, 1GB). A duration of 0 disables what it limits. The data directory
defaults to $STATE_DIRECTORY, $XDG_STATE_HOME/tenaq or ~/.local/state/tenaq.
"--admin-listen off" disables health checks and metrics.

The file may declare queues, with the attribute names of SQS:

  data-dir: /var/lib/tenaq
  purge-interval: 0s
  queues:
    - name: orders
      attributes:
        VisibilityTimeout: 60
        RedrivePolicy:
          deadLetterTargetArn: arn:aws:sqs:us-east-1:000000000000:orders-dlq
          maxReceiveCount: 5
      tags: {team: payments}
    - name: orders-dlq
    - name: orders-parking

It can make the server bring dead letters back, as "tenaq redrive run" does:

  redrive:
    records: postgres://app@db.example.com/app   # with the workers' claims
    queues:
      - dead-letter: orders-dlq
        parking: orders-parking
        schedule: rate(5 minutes)
        policy: {rate-max: 50, redrives: 3}

It names stores of records whose claims the console shows beside its own:

  claims:
    - {name: shop, records: "postgres://app@db.example.com/shop"}

It declares the actions that alarms may run. Each queue has built-in alarms;
programs can create others with the CloudWatch API:

  alarm-actions: [team]
  actions:
    team:  {webhook: https://hooks.example.com/T1}   # or webhook-file: PATH
    pager: {command: [/usr/local/bin/page, --urgent]}  # JSON on standard input
    copy:  {queue: alarm-events}`

func NewConfigCmd(a *cli.App) *cobra.Command {
	f := &settings.SettingFlags{}
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings that serve would use, and where each comes from",
		Long: `Print the settings that "tenaq serve" would use, and where each comes from. The
command takes the flags of serve, reads the same file and environment, and
checks them. It asks no server: "tenaq config running" does.

` + settingsHelp,
		Example: `  tenaq config
  tenaq config --config tenaq.yaml --listen 127.0.0.1:7000
  TENAQ_ACCOUNT=123456789012 tenaq config --json`,
		Args: cli.Wants(0, 0),
		RunE: func(*cobra.Command, []string) error {
			c, err := f.Load()
			if err != nil {
				return err
			}
			return printConfiguration(a, c)
		},
	}
	f.Register(cmd.Flags())
	cmd.AddCommand(newRunningCmd(a))
	return cmd
}

func printConfiguration(a *cli.App, c *settings.Configuration) error {
	if err := c.CheckClusterFiles(); err != nil {
		return err
	}
	document := map[string]any{"queues": append([]server.Queue{}, c.Queues...)}
	if c.File != nil && c.File.Redrive != nil {
		document["redrive"] = c.File.Redrive.Document()
	}
	if c.File != nil && len(c.File.Stores) > 0 {
		document["claims"] = settings.StoreNames(c.File.Stores)
	}
	if c.File != nil && len(c.File.Actions) > 0 {
		document["actions"] = c.File.ActionNames() // and not what they hold
	}
	return printSettings(a, c.Settings, document)
}

// printSettings prints a list of settings, with --json as a part of a document.
func printSettings(a *cli.App, list []v1.Setting, document map[string]any) error {
	if a.JSON {
		values := map[string]settings.Loaded{}
		for _, s := range list {
			values[s.Name] = settings.Loaded(s)
		}
		document["settings"] = values
		return a.PrintJSON(document)
	}
	t := cli.Table{Head: []string{"SETTING", "VALUE", "FROM"}}
	for _, s := range list {
		t.Add(s.Name, cli.OrDash(s.Value), s.Origin)
	}
	return a.PrintTable(t)
}

func newRunningCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	cmd := &cobra.Command{
		Use:   "running",
		Short: "Print the settings of a running server, and where each comes from",
		Long: `Print the settings that a running server was started with, and where each comes
from. "tenaq config" prints those that a start on this machine would use.

Passwords are left out. SIGHUP, which reloads keys and certificate, changes no
setting. In a cluster, the leader answers with its own settings.

The command needs a key with tenaq:ViewSettings, of the account of the server.`,
		Example: `  tenaq config running
  tenaq config running --json | jq -r '.settings.listen.value'`,
		Args: cli.Wants(0, 0),
		RunE: f.RunV1("does not show its settings: this needs a tenaq server of this version",
			func(ctx context.Context, v *cli.V1Client, _ []string) error {
				var list v1.SettingList
				err := v.Get(ctx, "list the settings", "", "/settings", nil, &list)
				if err != nil {
					return err
				}
				return printSettings(a, list.Settings, map[string]any{})
			}),
	}
	f.Register(cmd)
	return cmd
}
