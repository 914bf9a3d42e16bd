// Package alarms has the commands that show and silence a server's alarms, and that watch the
// queues of any SQS endpoint from outside.
package alarms

import (
	"cmp"
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/docs/alarms"
	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
	"tenaq/internal/observe/monitor"
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

The leader of a cluster has these, named cluster/KIND:
  follower-behind   a node does not catch up
  voter-unreachable a voter does not answer
  replica-stopped   a node left the group: its rows do not match
  clock-difference  the clocks of the nodes differ by over half a second

All others are named QUEUE/KIND. The configuration of the server says which
actions it runs: see "tenaq config --help". With --exit-code the command exits
with 4 if an alarm is in the state ALARM, even if acknowledged or silenced, and
with 1 if the server cannot be reached.`,
		Example: `  tenaq alarms
  tenaq alarms --state ALARM
  tenaq alarms --exit-code > /dev/null || page-me
  tenaq alarms explain orders/dead-letters
  tenaq alarms history
  tenaq alarms ack orders/dead-letters
  tenaq alarms silence 'orders/*' --for 2h --reason "moving the database"
  tenaq alarms test team`,
		Args: cli.Wants(0, 0),
		RunE: f.RunV1(lack, func(ctx context.Context, v *cli.V1Client, _ []string) error {
			return printAlarms(ctx, a, v, state, asExitCode)
		}),
	}
	f.Register(cmd)
	cli.Text(cmd.Flags(), &state, "state", "show only this `state`")
	cmd.Flags().BoolVar(&asExitCode, "exit-code", false,
		"exit with 4 if an alarm is in the state ALARM")
	cli.Completes(cmd, "state", "ALARM", "OK", "INSUFFICIENT_DATA")
	cmd.AddCommand(newExplainCmd(a), newHistoryCmd(a), newAckCmd(a), newSilenceCmd(a),
		newTestCmd(a))
	return cmd
}

const lack = `has no alarms for this command, which needs a tenaq server; elsewhere, use "tenaq watch"`

func list(ctx context.Context, v *cli.V1Client, query url.Values) (list v1.AlarmList, err error) {
	return list, v.Get(ctx, "look at the alarms", "", "/alarms", query, &list)
}

// Names lists the names of the alarms of a server, and of the actions that it declares.
func Names(ctx context.Context, f *cli.ClientFlags) (alarms, actions []string, err error) {
	v, err := f.ConnectV1(ctx, lack)
	if err != nil {
		return nil, nil, err
	}
	all, err := list(ctx, v, nil)
	for _, al := range all.Alarms {
		alarms = append(alarms, al.Name)
	}
	return alarms, all.Actions, err
}

func printAlarms(
	ctx context.Context, a *cli.App, v *cli.V1Client, state string, asExitCode bool,
) error {
	if state != "" && !strings.EqualFold(state, "ALARM") && asExitCode {
		return cli.Usagef("--exit-code checks for the state ALARM, which --state %s excludes; use one of them", state)
	}
	query := url.Values{}
	if state != "" {
		query.Set("state", strings.ToUpper(state))
	}
	list, err := list(ctx, v, query)
	if err != nil {
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
		if al.Page != "" {
			a.Note("  What to do: %s", cli.OneLine(al.Page))
		}
	}
	for _, s := range list.Silences {
		a.Note("\nsilence: %s until %s%s", cli.OneLine(s.Match), clock(s.Until),
			cli.OrEmpty(s.Reason != "", " ("+cli.OneLine(s.Reason)+")"))
	}
	return verdict
}

func alarmTable(alarms []v1.ShownAlarm) cli.Table {
	t := cli.Table{Head: []string{"ALARM", "STATE", "SINCE", "ACTIONS", ""}}
	for _, al := range alarms {
		var marks []string
		switch {
		case al.Ack != nil && al.Ack.Note != "":
			marks = append(marks, "acknowledged by "+al.Ack.By+": "+al.Ack.Note)
		case al.Acknowledged:
			marks = append(marks, "acknowledged")
		}
		if al.SilencedUntil != nil {
			marks = append(marks, "silenced until "+clock(*al.SilencedUntil))
		}
		t.Add(al.Name, string(al.State), clock(al.Since), cli.OrDash(strings.Join(al.Actions, ",")),
			strings.Join(marks, ", "))
	}
	return t
}

// clock is a time for people: in UTC, as in logs.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func newExplainCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "explain ALARM",
		Short: "Explain a built-in alarm: what it means, where to look, what to do",
		Long: `Explain a built-in alarm: what it means, where to look, what to do and when it
ends. ALARM is its name, or the last part of it. The command needs no server.`,
		Example:   "  tenaq alarms explain orders/dead-letters\n  tenaq alarms explain relay-late",
		Args:      cli.Wants(1, 1),
		ValidArgs: alarms.Kinds(),
		RunE: func(_ *cobra.Command, args []string) error {
			queue, kind := "", args[0]
			if i := strings.LastIndexByte(kind, '/'); i >= 0 {
				queue, kind = kind[:i], kind[i+1:]
			}
			page, ok := alarms.Page(kind)
			if !ok {
				return cli.Usagef("no built-in alarm is called %s; there are %s", cli.OneLine(kind),
					strings.Join(alarms.Kinds(), ", "))
			}
			if queue != "" {
				page = strings.ReplaceAll(page, "QUEUE", queue)
			}
			if a.JSON {
				return a.PrintJSON(map[string]string{"alarm": args[0], "page": page})
			}
			return a.PrintText(page)
		},
	}
}

func newHistoryCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show changes of alarm states",
		Long: `Show changes of alarm states: the last two hundred, including those before a
restart of the server.`,
		Example: "  tenaq alarms history\n  tenaq alarms history --json | jq '.changes[] | select(.state == \"ALARM\")'",
		Args:    cli.Wants(0, 0),
		RunE: f.RunV1(lack, func(ctx context.Context, v *cli.V1Client, _ []string) error {
			var list struct{ Changes []monitor.Change }
			if err := v.Get(ctx, "look at the alarms", "", "/alarms/history", nil,
				&list); err != nil {
				return err
			}
			return cli.PrintList(a, "changes", list.Changes, "no changes",
				[]string{"TIME", "ALARM", "STATE", "WHY"}, func(c *monitor.Change) []string {
					return []string{clock(c.At), c.Alarm, string(c.State), c.Reason}
				})
		}),
	}
	f.Register(cmd)
	return cmd
}

func newAckCmd(a *cli.App) *cobra.Command {
	var end bool
	var note string
	cmd := postCmd(&cobra.Command{
		Use:   "ack ALARM",
		Short: "Acknowledge an alarm until its state changes",
		Long: `Acknowledge an alarm: it runs no actions until its state changes. An alarm that
is not acknowledged repeats every four hours, or at the server's --alarm-repeat.
--end ends the acknowledgement: reminders resume, at once if one is overdue.

--note says what is known and who looks at it, in one line of at most 500 bytes.
"tenaq alarms" and the console show it until the acknowledgement ends. A later
acknowledgement with a note replaces it.`,
		Example: `  tenaq alarms ack orders/dead-letters
  tenaq alarms ack orders/dead-letters --note "Ann asks the bank"
  tenaq alarms ack orders/dead-letters --end`,
	}, func(ctx context.Context, v *cli.V1Client, name string) error {
		in, says := map[string]any{"alarm": name, "end": end}, "%s is acknowledged"
		switch {
		case end:
			says = "%s is no longer acknowledged"
		case note != "":
			in["note"] = note
		}
		if err := v.Post(ctx, "acknowledge "+name, "", "/alarms/acknowledge", in,
			&struct{}{}); err != nil {
			return err
		}
		return a.Result(in, says, name)
	})
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if end && cmd.Flags().Changed("note") {
			return cli.Usagef("give either --note or --end")
		}
		return nil
	}
	cmd.Flags().BoolVar(&end, "end", false, "end the acknowledgement")
	cli.Text(cmd.Flags(), &note, "note", "`text` that says what is known; shown with the alarm")
	return cmd
}

func newTestCmd(a *cli.App) *cobra.Command {
	return postCmd(&cobra.Command{
		Use:   "test ACTION",
		Short: "Run an action once, with a test notice",
		Long: `Run an action from the server's configuration once, with a test notice. The
command fails if the action fails; the log of the server says why.`,
		Example: "  tenaq alarms test team",
	}, func(ctx context.Context, v *cli.V1Client, name string) error {
		v.C.Timeout = max(v.C.Timeout, 40*time.Second) // an attempt may take 30 s
		in := map[string]string{"action": name}
		if err := v.Post(ctx, "test "+name, "", "/alarms/test", in, &struct{}{}); err != nil {
			return err
		}
		return a.Result(in, "%s accepted the notice", name)
	})
}

func newSilenceCmd(a *cli.App) *cobra.Command {
	var lasts time.Duration
	var reason string
	var end bool
	cmd := postCmd(&cobra.Command{
		Use:   "silence MATCH",
		Short: "Silence alarms for a while",
		Long: `Silence alarms for a while. They are still evaluated: when the silence ends, an
alarm whose state differs from the last notice sends one. MATCH is the name of
an alarm, in which * matches any text: "orders/*" matches all alarms of the
queue orders, and "*" all alarms.`,
		Example: `  tenaq alarms silence 'orders/*' --for 2h --reason "moving the database"
  tenaq alarms silence 'orders/*' --end`,
	}, func(ctx context.Context, v *cli.V1Client, match string) error {
		var list struct {
			About    int
			Silences []monitor.Silence
		}
		in := map[string]string{"match": match, "for": lasts.String(), "reason": reason}
		if err := v.Post(ctx, "silence "+match, "", "/alarms/silence", in, &list); err != nil {
			return err
		}
		for _, s := range list.Silences {
			if s.Match == match {
				if list.About == 0 {
					a.Note("no alarm matches at the moment; tenaq alarms lists the alarms")
				}
				return a.Result(s, "%s is silenced until %s", s.Match, clock(s.Until))
			}
		}
		return a.Result(in, "%s is no longer silenced", match)
	})
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if end == (lasts > 0) {
			return cli.Usagef("set either --for, such as --for 2h, or --end")
		}
		return nil
	}
	flags := cmd.Flags()
	cli.SomeTime(flags, &lasts, "for", "", "`duration` of the silence, at most 720h")
	flags.StringVar(&reason, "reason", "", "`text` that says why; shown with the alarms")
	flags.BoolVar(&end, "end", false, "end the silence")
	return cmd
}

// postCmd completes a command with one argument that changes something at the server.
func postCmd(
	cmd *cobra.Command, do func(ctx context.Context, v *cli.V1Client, name string) error,
) *cobra.Command {
	f := &cli.ClientFlags{}
	f.Register(cmd)
	cmd.Args = cli.Wants(1, 1)
	cmd.RunE = f.RunV1(lack, func(ctx context.Context, v *cli.V1Client, args []string) error {
		return do(ctx, v, args[0])
	})
	return cmd
}
