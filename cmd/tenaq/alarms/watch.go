package alarms

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/ops/doctor"
	"tenaq/internal/ops/watch"
	"tenaq/internal/settings"
)

// Bounds of --interval. Alarms count in minutes, and Amazon charges for each request.
const (
	intervalLeast = 10 * time.Second
	intervalMost  = time.Hour
)

func NewWatchCmd(a *cli.App) *cobra.Command {
	var c watch.Config
	var alarms, cloudWatch, config string
	cmd := &cobra.Command{
		Use:   "watch [QUEUE]...",
		Short: "Watch queues of any SQS endpoint and report alarms",
		Long: `Watch the named queues with their dead-letter queues, those with --prefix, or
all queues. Print a line whenever an alarm begins or ends. The command receives
no message and works on every SQS endpoint. A tenaq server also has alarms of
its own: see "tenaq alarms".

  dead-letters     a dead-letter queue or a parking lot holds messages
  oldest-age       the oldest message of another queue exceeds --age-max;
                   needs a tenaq server or CloudWatch
  in-flight-limit  more than --in-flight-max messages are in flight for 5 min
  backlog-grows    at least --backlog-min messages wait, and their number grows
                   for 15 min
  double-deletes   1.05 times as many deletes as sends within 15 min; needs
                   CloudWatch. Working off a backlog looks the same, see
                   docs/operations/watch.md
  unreachable      three readings in a row failed; always watched

A queue counts as a dead-letter queue if a redrive policy names it, if its name
ends like OrdersDLQ, orders-dead-letters or ParkingLotQueue, if --parking names
it, or if the section redrive: of the file --config does.

Where CloudWatch answers, each reading sends it one GetMetricData with at most
500 metrics. Amazon charges for these, and CloudWatch lags by some minutes. If
the credentials do not allow it, the command reports that once and goes on
without it. --cloudwatch=off does not ask.

--exec runs a shell command with the alarm as JSON on standard input. --webhook
or TENAQ_WEBHOOK posts {"text": ...}, as Slack expects. Each gets four attempts
of 30 seconds. A notice never contains anything from a message.

With --once the command exits when the alarms are decided, with exit code 4 if
one is in ALARM. By default it then checks only alarms that need one reading.`,
		Example: `  tenaq watch
  tenaq watch orders mail --age-max 10m --webhook https://hooks.example.com/T0
  tenaq watch orders --parking undecided-orders
  tenaq watch --aws --prefix prod- --exec 'jq -r .alarm | logger -t tenaq'
  tenaq watch --once || echo "something is wrong"
  tenaq watch --json --alarms dead-letters,oldest-age`,
		Args: cli.Wants(0, -1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if config != "" {
				file, err := settings.ReadConfigFile(config)
				if err != nil {
					return err
				}
				if file.Redrive != nil {
					c.Redriven = file.Redrive.DeadLetterQueues()
				}
			}
			c.Queues, c.Alarms, c.NoCloudWatch = args, cli.SplitList(alarms), cloudWatch == "off"
			if alarms != "" && len(c.Alarms) == 0 {
				return cli.Usagef("--alarms: names no alarm; see: tenaq watch --help")
			}
			w, err := watch.New(cmd.Context(), a, c)
			if err != nil {
				return err
			}
			return w.Run(cmd.Context())
		},
	}
	c.Connect.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&c.Prefix, "prefix", "", "watch queues whose names begin with this `text`")
	flags.StringArrayVar(&c.Parking, "parking", nil,
		"watch this `queue` as a parking lot; repeatable")
	cli.Text(flags, &config, "config", "take redriven queues from this YAML `file`")
	cli.Number(flags, &c.Limit, "limit", 1000, 1, doctor.QueuesMax,
		"maximum `number` of queues to watch")
	cli.Value(flags, &c.Limits.Interval, "interval", "60s", "`duration` between readings",
		parseInterval)
	cli.Text(flags, &alarms, "alarms", "watch only for these `names`, comma-separated")
	cli.Duration(flags, &c.Limits.AgeMax, "age-max", "1h", "maximum `age` of a message")
	cli.Number(flags, &c.Limits.InFlightMax, "in-flight-max", 100_000, 0, 0,
		"maximum `number` in flight")
	cli.Number(flags, &c.Limits.BacklogMin, "backlog-min", 100, 0, 0,
		"ignore backlogs below this `number`")
	cli.Choice(cmd, &cloudWatch, "cloudwatch", "auto", "CloudWatch `mode`: auto or off",
		"auto", "off")
	flags.StringArrayVar(&c.Commands, "exec", nil,
		"run this shell `command` with alarms; repeatable")
	flags.StringArrayVar(&c.Webhooks, "webhook", nil, "post alarms to this `URL`; repeatable")
	flags.BoolVar(&c.Once, "once", false, "exit when decided, with 4 if there is an alarm")
	return cmd
}

func parseInterval(text string) (time.Duration, error) {
	d, err := cli.ParseDuration(text)
	if err == nil && (d < intervalLeast || d > intervalMost) {
		err = fmt.Errorf("%q is not between %s and %s", text, cli.HumanDuration(intervalLeast),
			cli.HumanDuration(intervalMost))
	}
	return d, err
}
