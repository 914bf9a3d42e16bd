package serve

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/settings"
)

const settingsHelp = `Every setting can be given as a flag (--data-dir), in the environment (TENAQ_DATA_DIR) and in a YAML file
(data-dir:) named by --config; the first of these that has it wins. In the file an unknown key is an
error. The file may declare queues, with the attribute names of SQS:

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

and have the server bring their dead letters back, as "tenaq redrive run" does, with the same words:

  redrive:
    records: postgres://app@db.example.com/app      # where the workers keep their claims
    queues:
      - dead-letter: orders-dlq
        parking: orders-parking
        schedule: rate(5 minutes)
        policy: {rate-max: 50, redrives: 3}

Alarms tell whom the file names; a queue has some from the beginning, and programs create others with the
calls of CloudWatch, which can use only what is declared here:

  alarm-actions: [team]
  actions:
    team:  {webhook: https://hooks.example.com/services/T1}   # webhook-file: reads it from a file
    pager: {command: [/usr/local/bin/page, --urgent]}         # JSON on its standard input
    copy:  {queue: alarm-events}

Durations have a unit (90s, 5m); sizes may have one (512MiB, 1GB).`

func NewConfigCmd(a *cli.App) *cobra.Command {
	f := &settings.SettingFlags{}
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings that serve would run with, and where each comes from",
		Long: `Print the settings that "tenaq serve" would run with, and where each comes from. It takes the flags of
serve, reads the same file and environment, and checks them.

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
	if a.JSON {
		queues := []queueDocument{}
		for _, q := range c.Queues {
			queues = append(queues, queueDocument(q))
		}
		values := map[string]settings.Loaded{}
		for _, v := range c.Values {
			values[v.Name] = v
		}
		document := map[string]any{"settings": values, "queues": queues}
		if c.File != nil && c.File.Redrive != nil {
			document["redrive"] = c.File.Redrive.Document()
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
		t.Add("queues", strings.Join(settings.QueueNames(c.Queues), ","), fmt.Sprintf("%s:%d", c.File.Path, c.File.Queues[0].Line))
	}
	if c.File != nil && c.File.Redrive != nil {
		t.Add("redrive", strings.Join(c.File.Redrive.QueueNames(), ","), fmt.Sprintf("%s:%d", c.File.Path, c.File.Redrive.Line))
	}
	if c.File != nil && len(c.File.Actions) > 0 {
		t.Add("actions", strings.Join(c.File.ActionNames(), ","), c.File.Path)
	}
	return a.PrintTable(t)
}

// A queueDocument is a declared queue as --json prints it.
type queueDocument struct {
	Name       string            `json:"name"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`
}
