package queues

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/work/sqslimits"
)

// maxReceivesDefault is also the default of Amazon's console. It is well above the three attempts
// of "tenaq pipe" and package worker, which dead-letter a message themselves and give a reason.
const maxReceivesDefault = 10

type createFlags struct {
	attributes, tags      []string
	deadLetter            string
	maxReceives           int
	visibility, retention *int32 // seconds; nil unless set
}

func newCreateCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	var cf createFlags
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a queue and print its URL",
		Long: `Create a queue and print its URL.

The command leaves an existing queue as it is. If that queue has other values
for the given attributes, or other tags, the exit code is 4.

A name that ends in .fifo makes a FIFO queue; FifoQueue=true is implied.

--dead-letter moves a message to that queue after --max-receives receives. Give
the queue by name, URL or ARN. A queue given by name is created if it is
missing, and keeps messages for 14 days. The dead-letter queue of a FIFO queue
is FIFO; .fifo is appended to a name that lacks it.

On a tenaq server, tags whose keys begin with tenaq: switch on features that SQS
does not have: docs/extensions.md lists them.`,
		Example: `  tenaq queue create orders
  tenaq queue create orders --dead-letter orders-dlq --max-receives 5
  tenaq queue create orders --visibility 60s --retention 4d --tag team=payments
  tenaq queue create orders --attribute VisibilityTimeout=60
  tenaq queue create orders.fifo --attribute ContentBasedDeduplication=true`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := &sqs.CreateQueueInput{QueueName: &args[0]}
			var err error
			if in.Attributes, err = cf.queueAttributes(cmd, args[0]); err != nil {
				return err
			}
			if in.Tags, err = cli.ParsePairs("--tag", cf.tags); err != nil {
				return err
			}
			return f.Run(func(ctx context.Context, c *cli.Client, args []string) (err error) {
				result := map[string]string{"name": args[0]}
				if cf.deadLetter != "" {
					arn, err := deadLetterQueue(ctx, a, c, args[0], cf.deadLetter)
					if err != nil {
						return err
					}
					result["deadLetterQueueArn"] = arn
					in.Attributes["RedrivePolicy"] = redrivePolicy(arn, cf.maxReceives)
				}
				if result["url"], err = createQueue(ctx, c, in); err != nil {
					return err
				}
				return a.Result(result, "%s", result["url"])
			})(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&cf.attributes, "attribute", nil,
		"set an attribute, as `NAME=VALUE`; repeatable")
	flags.StringArrayVar(&cf.tags, "tag", nil, "set a tag, as `KEY=VALUE`; repeatable")
	cli.Text(flags, &cf.deadLetter, "dead-letter", "move failing messages to this `queue`")
	cli.Number(flags, &cf.maxReceives, "max-receives", maxReceivesDefault, 1,
		sqslimits.ReceivesMax, "`number` of receives before a move")
	cli.Value(flags, &cf.visibility, "visibility", "", "hide received messages for this `duration`",
		cli.SecondsUpTo(sqslimits.VisibilityMax))
	cli.Value(flags, &cf.retention, "retention", "",
		"keep messages for this `duration`, such as 4d",
		cli.SecondsUpTo(sqslimits.RetentionMax))
	return cmd
}

// queueAttributes returns the attributes that the flags ask for, except the redrive policy of
// --dead-letter.
func (f *createFlags) queueAttributes(cmd *cobra.Command, name string) (map[string]string, error) {
	given, err := cli.ParseAttributes(f.attributes)
	if err != nil {
		return nil, err
	}
	attributes := cli.ImpliedAttributes(name, given)
	for _, short := range []struct {
		flag, attribute string
		seconds         *int32
	}{
		{"--visibility", "VisibilityTimeout", f.visibility},
		{"--retention", "MessageRetentionPeriod", f.retention},
	} {
		if short.seconds == nil {
			continue
		}
		if _, double := attributes[short.attribute]; double {
			return nil, sameAttribute(short.flag, short.attribute)
		}
		attributes[short.attribute] = strconv.Itoa(int(*short.seconds))
	}
	_, policy := attributes["RedrivePolicy"]
	switch {
	case f.deadLetter == "" && cmd.Flags().Changed("max-receives"):
		return nil, cli.Usagef("--max-receives needs --dead-letter QUEUE, to which messages move")
	case f.deadLetter != "" && policy:
		return nil, sameAttribute("--dead-letter", "RedrivePolicy")
	case f.deadLetter != "" && cli.IsQueueURL(name):
		return nil, cli.Usagef("%s is a URL; name the new queue instead", name)
	}
	return attributes, nil
}

func sameAttribute(flag, attribute string) error {
	return cli.Usagef("%s and --attribute %s set the same attribute; leave out one of them", flag,
		attribute)
}

// deadLetterQueue returns the ARN of the dead-letter queue for the named queue. It creates a
// missing queue that is given by name.
func deadLetterQueue(
	ctx context.Context, a *cli.App, c *cli.Client, name, deadLetter string,
) (string, error) {
	fifo := strings.HasSuffix(name, ".fifo")
	byName := !cli.IsQueueURL(deadLetter) && !cli.IsQueueARN(deadLetter)
	if fifo && byName && !strings.HasSuffix(deadLetter, ".fifo") {
		deadLetter += ".fifo"
	}
	switch {
	case cli.QueueNameOf(deadLetter) == name:
		return "", cli.Usagef("--dead-letter: %s cannot be its own dead-letter queue; name another",
			name)
	case fifo != strings.HasSuffix(deadLetter, ".fifo"):
		return "", cli.Usagef("--dead-letter: %s is not of the same kind as %s; use two FIFO queues, or two standard queues", cli.QueueNameOf(deadLetter), name)
	}
	arn, err := c.QueueARN(ctx, deadLetter)
	if !byName || cli.ExitCode(err) != cli.ExitNotFound {
		return arn, err
	}
	// An existing queue may have another policy. Do not leave an unused dead-letter queue behind.
	if _, err := c.QueueURL(ctx, name); err == nil {
		return "", cli.Codedf(cli.ExitRefused,
			"queue %s exists and the dead-letter queue %s does not; create that first, then: "+
				"tenaq queue set %s --attribute RedrivePolicy=...", name, deadLetter, name)
	}
	in := &sqs.CreateQueueInput{QueueName: &deadLetter,
		Attributes: cli.ImpliedAttributes(deadLetter, map[string]string{
			"MessageRetentionPeriod": strconv.Itoa(int(sqslimits.RetentionMax / time.Second)),
		})}
	url, err := createQueue(ctx, c, in)
	if err != nil {
		return "", err
	}
	a.Note("created the dead-letter queue %s, which keeps messages for %s", cli.OneLine(deadLetter),
		cli.HumanDuration(sqslimits.RetentionMax))
	return c.QueueARN(ctx, url)
}

func redrivePolicy(arn string, maxReceives int) string {
	policy, _ := json.Marshal(struct { // strings and numbers can be encoded
		Target      string `json:"deadLetterTargetArn"`
		MaxReceives int    `json:"maxReceiveCount"`
	}{arn, maxReceives})
	return string(policy)
}
