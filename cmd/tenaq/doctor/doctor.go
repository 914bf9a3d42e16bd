// Package doctor has the commands that examine a running system: doctor and health. They parse
// flags and print; package internal/ops/doctor examines.
package doctor

import (
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/ops/doctor"
	"tenaq/internal/settings"
)

func NewCmd(a *cli.App) *cobra.Command {
	var c doctor.Config
	var server settings.SettingFlags
	var strict, verbose bool
	cmd := &cobra.Command{
		Use:   "doctor [QUEUE]...",
		Short: "Find problems of the disk, clock, endpoint and queue settings",
		Long: `Find problems with the machine, the clock, the endpoint and the queues.
The command changes nothing and receives no message.

  machine    the data directory of a server on this machine, or --data-dir:
             time of a forced write, free space, file system, memory, open
             files. It writes and removes a file of at most 1 MiB and does not
             open the store of a running server
  clock      compared with the endpoint's; whether it jumps during the check
  endpoint   what answers, whether queue URLs lead back to it, region,
             contradicting variables, implausible credentials
  queues     contradicting settings, of the named queues or of all

Queue settings come from queue attributes, so these checks work on Amazon SQS.
Measurements come from the metrics of the server, if it uses this configuration,
and from every --metrics-url: the admin address of a server, or the
--metrics-listen of a worker.

Each check is ok, a warning, a problem, or not checked, with the reason.
--verbose also shows checks that are ok. The exit code is 1 if there is a
problem; with --strict, also if there is a warning.`,
		Example: `  tenaq doctor
  tenaq doctor orders orders-dlq
  tenaq doctor --aws --region eu-west-1 --strict
  tenaq doctor --metrics-url http://127.0.0.1:9325/metrics
  tenaq doctor --json | jq '.findings[] | select(.state == "problem")'`,
		Args: cli.Wants(0, -1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if c.Settings, err = server.Load(); err != nil {
				return err
			}
			d, err := doctor.New(c)
			if err != nil {
				return err
			}
			report, err := d.Examine(cmd.Context(), args)
			if err != nil {
				return err
			}
			if err := printReport(a, report, verbose); err != nil {
				return err
			}
			return verdict(report, strict)
		},
	}
	c.Connect.Register(cmd)
	flags := cmd.Flags()
	server.RegisterSome(flags, "data-dir", "disk-reserve")
	flags.StringArrayVar(&c.MetricsURLs, "metrics-url", nil,
		"read the metrics at this `URL`; repeatable")
	cli.Number(flags, &c.Limit, "limit", 1000, 1, doctor.QueuesMax,
		"maximum `number` of queues to examine")
	flags.BoolVar(&strict, "strict", false, "exit with 1 for warnings too")
	flags.BoolVarP(&verbose, "verbose", "v", false, "show checks that are ok")
	return cmd
}

func verdict(r *doctor.Report, strict bool) error {
	switch {
	case r.Problems > 0:
		return cli.Codedf(cli.ExitFailed, "%s; each says what to do",
			cli.Counted(r.Problems, "problem", "problems"))
	case strict && r.Warnings > 0:
		return cli.Codedf(cli.ExitFailed, "%s, and --strict; each says what to do",
			cli.Counted(r.Warnings, "warning", "warnings"))
	}
	return nil
}
