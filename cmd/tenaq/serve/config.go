package serve

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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
checks them.

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
	return cmd
}

func printConfiguration(a *cli.App, c *settings.Configuration) error {
	if err := c.CheckClusterFiles(); err != nil {
		return err
	}
	if a.JSON {
		values := map[string]settings.Loaded{}
		for _, v := range c.Values {
			values[v.Name] = v
		}
		document := map[string]any{"settings": values,
			"queues": append([]server.Queue{}, c.Queues...)}
		if c.File != nil && c.File.Redrive != nil {
			document["redrive"] = c.File.Redrive.Document()
		}
		if c.File != nil && len(c.File.Stores) > 0 {
			document["claims"] = settings.StoreNames(c.File.Stores)
		}
		if c.File != nil && len(c.File.Actions) > 0 {
			document["actions"] = c.File.ActionNames() // and not what they hold
		}
		return a.PrintJSON(document)
	}
	t := cli.Table{Head: []string{"SETTING", "VALUE", "FROM"}}
	for _, v := range c.Values {
		t.Add(v.Name, cli.OrDash(v.Value), v.Origin)
	}
	if len(c.Queues) > 0 {
		t.Add("queues", strings.Join(settings.QueueNames(c.Queues), ","),
			fmt.Sprintf("%s:%d", c.File.Path, c.File.Queues[0].Line))
	}
	if c.File != nil && c.File.Redrive != nil {
		t.Add("redrive", strings.Join(c.File.Redrive.QueueNames(), ","),
			fmt.Sprintf("%s:%d", c.File.Path, c.File.Redrive.Line))
	}
	if c.File != nil && len(c.File.Stores) > 0 {
		t.Add("claims", strings.Join(settings.StoreNames(c.File.Stores), ","),
			fmt.Sprintf("%s:%d", c.File.Path, c.File.Stores[0].Line))
	}
	if c.File != nil && len(c.File.Actions) > 0 {
		t.Add("actions", strings.Join(c.File.ActionNames(), ","), c.File.Path)
	}
	return a.PrintTable(t)
}
