// Package alarms has the commands that show and silence a server's alarms, and that watch the
// queues of any SQS endpoint from outside.
package alarms

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func NewCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	var state string
	var asExitCode bool
	cmd := &cobra.Command{
		Use:   "alarms",
		Short: "Show, acknowledge and silence the alarms of a server",
		Long: `Show the alarms of a tenaq server: alarms created with the CloudWatch API, and
built-in alarms that are not OK or were not OK recently.

Each queue has these built-in alarms, unless the server runs with
--shipped-alarms=false:
  dead-letters      there are dead letters, or more have arrived
  dead-letter-age   the work of a dead letter was first sent over an hour ago
  oldest-age        the oldest message was sent over an hour ago
  double-deletes    workers delete messages that others have received since:
                    work is done twice
  timed-out         visibility timeouts end before the work does
  expired           messages have expired
  in-flight-stuck   messages are in flight for 30 min, and none was deleted
  near-expiry       messages have used nine tenths of their retention
  in-flight-limit   nearly the maximum number of messages are in flight

Redrivers and relays report to the server, so these alarms exist for dead-letter
queues and outboxes:
  redriver-silent   no report of a redriver for ten minutes
  redriver-fails    its steps fail
  breaker-open      its breaker is open or half-open for 30 min
  relay-silent      no report of a relay for ten minutes
  relay-late        rows are due for more than five minutes
  rows-parked       rows were set aside

An alarm is named QUEUE/KIND. The configuration of the server says which actions
it runs: see "tenaq config --help". With --exit-code the command exits with 4 if
an alarm is in the state ALARM, even if acknowledged or silenced, and with 1 if
the server cannot be reached.`,
		Example: `  tenaq alarms
  tenaq alarms --state ALARM
  tenaq alarms --exit-code > /dev/null || page-me
  tenaq alarms history
  tenaq alarms ack orders/dead-letters
  tenaq alarms silence 'orders/*' --for 2h --reason "moving the database"
  tenaq alarms test team`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := ConnectAlarms(f, cmd.Context())
			if err != nil {
				return err
			}
			return printAlarms(a, cmd.Context(), v, state, asExitCode)
		},
	}
	f.Register(cmd)
	cmd.Flags().StringVar(&state, "state", "", "show only this `state`")
	cmd.Flags().BoolVar(&asExitCode, "exit-code", false,
		"exit with 4 if an alarm is in the state ALARM")
	cli.Completes(cmd, "state", "ALARM", "OK", "INSUFFICIENT_DATA")
	cmd.AddCommand(newAlarmsHistoryCmd(a), newAlarmsAckCmd(a), newAlarmsSilenceCmd(a),
		newAlarmsTestCmd(a))
	return cmd
}

// ConnectAlarms connects to a tenaq server.
func ConnectAlarms(f *cli.ClientFlags, ctx context.Context) (*cli.V1Client, error) {
	return f.ConnectV1(ctx, `has no alarms for this command, which needs a tenaq server; elsewhere, use "tenaq watch"`)
}

// A listedAlarm is an alarm as the server shows it.
type listedAlarm struct {
	Name          string     `json:"name"`
	Queue         string     `json:"queue,omitempty"`
	Description   string     `json:"description,omitempty"`
	Shipped       bool       `json:"shipped"`
	State         string     `json:"state"`
	Since         time.Time  `json:"since"`
	Reason        string     `json:"reason"`
	Actions       []string   `json:"actions"`
	Acknowledged  bool       `json:"acknowledged,omitempty"`
	SilencedUntil *time.Time `json:"silencedUntil,omitempty"`
	Commands      []string   `json:"commands,omitempty"`
}

// A silence keeps alarms from running actions.
type silence struct {
	Match  string    `json:"match"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
}

// AlarmList is what the server answers.
type AlarmList struct {
	Alarms   []listedAlarm `json:"alarms"`
	Silences []silence     `json:"silences"`
	Actions  []string      `json:"actions"`
}

func printAlarms(
	a *cli.App, ctx context.Context, v *cli.V1Client, state string, asExitCode bool,
) error {
	if state != "" && !strings.EqualFold(state, "ALARM") && asExitCode {
		return cli.Usagef("--exit-code checks for the state ALARM, which --state %s excludes; use one of them", state)
	}
	query := map[string][]string{}
	if state != "" {
		query["state"] = []string{strings.ToUpper(state)}
	}
	var list AlarmList
	if err := v.Get(ctx, "look at the alarms", "", "/alarms", query, &list); err != nil {
		return err
	}
	raised := 0
	for _, al := range list.Alarms {
		if al.State == "ALARM" {
			raised++
		}
	}
	var verdict error
	if asExitCode && raised > 0 {
		verdict = cli.Codedf(cli.ExitRefused, "%s in the state ALARM",
			cli.Counted(raised, "alarm is", "alarms are"))
	}
	if a.JSON {
		return cmp.Or(a.PrintJSON(list), verdict)
	}
	if len(list.Alarms) == 0 {
		a.Note("no alarms%s at %s", cli.OrEmpty(state != "", " in this state"), v.C.Endpoint)
	} else if err := a.PrintTable(alarmTable(list.Alarms)); err != nil {
		return err
	}
	for _, al := range list.Alarms {
		if al.State != "ALARM" {
			continue
		}
		a.Note("\n%s: %s", cli.OneLine(al.Name), cli.OneLine(al.Reason))
		if al.Description != "" {
			a.Note("  %s", cli.OneLine(al.Description))
		}
		for _, c := range al.Commands {
			a.Note("    %s", cli.OneLine(c))
		}
	}
	for _, s := range list.Silences {
		a.Note("\nsilence: %s until %s%s", cli.OneLine(s.Match), clock(s.Until),
			cli.OrEmpty(s.Reason != "", " ("+cli.OneLine(s.Reason)+")"))
	}
	return verdict
}

func alarmTable(alarms []listedAlarm) cli.Table {
	t := cli.Table{Head: []string{"ALARM", "STATE", "SINCE", "ACTIONS", ""}}
	for _, al := range alarms {
		var marks []string
		if al.Acknowledged {
			marks = append(marks, "acknowledged")
		}
		if al.SilencedUntil != nil {
			marks = append(marks, "silenced until "+clock(*al.SilencedUntil))
		}
		t.Add(al.Name, al.State, clock(al.Since), cli.OrDash(strings.Join(al.Actions, ",")),
			strings.Join(marks, ", "))
	}
	return t
}

// clock is a time for people: in UTC, as in logs.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func newAlarmsHistoryCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show changes of alarm states",
		Long: `Show changes of alarm states: the last two hundred, including those before a
restart of the server.`,
		Example: "  tenaq alarms history\n  tenaq alarms history --json | jq '.changes[] | select(.state == \"ALARM\")'",
		Args:    cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := ConnectAlarms(f, cmd.Context())
			if err != nil {
				return err
			}
			var list cli.AlarmHistory
			if err := v.Get(cmd.Context(), "look at the alarms", "", "/alarms/history", nil,
				&list); err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(list)
			}
			t := cli.Table{Head: []string{"TIME", "ALARM", "STATE", "WHY"}}
			for _, c := range list.Changes {
				t.Add(clock(c.At), c.Alarm, c.State, c.Reason)
			}
			if len(t.Rows) == 0 {
				a.Note("no changes")
				return nil
			}
			return a.PrintTable(t)
		},
	}
	f.Register(cmd)
	return cmd
}

func newAlarmsAckCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	cmd := &cobra.Command{
		Use:   "ack ALARM",
		Short: "Acknowledge an alarm until its state changes",
		Long: `Acknowledge an alarm: it runs no actions until its state changes. Without that,
an alarm repeats every four hours, or as --alarm-repeat of the server says.`,
		Example: "  tenaq alarms ack orders/dead-letters",
		Args:    cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := ConnectAlarms(f, cmd.Context())
			if err != nil {
				return err
			}
			in := map[string]string{"alarm": args[0]}
			if err := v.Post(cmd.Context(), "acknowledge "+args[0], "", "/alarms/acknowledge", in,
				&struct{}{}); err != nil {
				return err
			}
			return a.Result(in, "%s is acknowledged", args[0])
		},
	}
	f.Register(cmd)
	return cmd
}

func newAlarmsSilenceCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	var lasts, reason string
	var end bool
	cmd := &cobra.Command{
		Use:   "silence MATCH",
		Short: "Silence alarms for a while",
		Long: `Silence alarms for a while. They are still evaluated: when the silence ends, an
alarm whose state differs from the last notice sends one. MATCH is the name of
an alarm, in which * matches any text: "orders/*" matches all alarms of the
queue orders, and "*" all alarms.`,
		Example: `  tenaq alarms silence 'orders/*' --for 2h --reason "moving the database"
  tenaq alarms silence 'orders/*' --end`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if end == (lasts != "") {
				return cli.Usagef("set either --for, such as --for 2h, or --end")
			}
			if end {
				lasts = "0s"
			} else if d, err := cli.ParseDuration(lasts); err != nil || d <= 0 {
				return cli.Usagef("--for: %q is not a duration such as 2h", lasts)
			}
			v, err := ConnectAlarms(f, cmd.Context())
			if err != nil {
				return err
			}
			var list struct {
				About    int       `json:"about"`
				Silences []silence `json:"silences"`
			}
			in := map[string]string{"match": args[0], "for": lasts, "reason": reason}
			if err := v.Post(cmd.Context(), "silence "+args[0], "", "/alarms/silence", in,
				&list); err != nil {
				return err
			}
			for _, s := range list.Silences {
				if s.Match == args[0] {
					if list.About == 0 {
						a.Note("no alarm matches at the moment; tenaq alarms lists the alarms")
					}
					return a.Result(s, "%s is silenced until %s", s.Match, clock(s.Until))
				}
			}
			return a.Result(in, "%s is no longer silenced", args[0])
		},
	}
	f.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&lasts, "for", "", "`duration` of the silence, at most 720h")
	flags.StringVar(&reason, "reason", "", "reason to show with the alarms, a `text`")
	flags.BoolVar(&end, "end", false, "end the silence")
	return cmd
}

func newAlarmsTestCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	cmd := &cobra.Command{
		Use:   "test ACTION",
		Short: "Run an action once, with a test notice",
		Long: `Run an action of the server's configuration once, with a test notice. The
command fails if the action does; the log of the server says why.`,
		Example: "  tenaq alarms test team",
		Args:    cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := ConnectAlarms(f, cmd.Context())
			if err != nil {
				return err
			}
			v.C.Timeout = max(v.C.Timeout, 40*time.Second) // an attempt may take 30 s
			in := map[string]string{"action": args[0]}
			if err := v.Post(cmd.Context(), "test "+args[0], "", "/alarms/test", in,
				&struct{}{}); err != nil {
				return err
			}
			return a.Result(in, "%s", args[0]+" accepted the notice")
		},
	}
	f.Register(cmd)
	return cmd
}
