package main

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"
)

func newQueueCreateCmd(a *app, f *clientFlags) *cobra.Command {
	var attributes, tags []string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a queue and print its URL",
		Long: `Create a queue and print its URL.

A queue that already exists is left as it is. If it has another value for one of the attributes given, or
other tags than those given, the command is refused with exit code 4.

A name that ends in .fifo makes a FIFO queue; FifoQueue=true need not be said.`,
		Example: `  tenaq queue create orders
  tenaq queue create orders --attribute VisibilityTimeout=60 --attribute MessageRetentionPeriod=1209600 --tag team=payments
  tenaq queue create orders.fifo --attribute ContentBasedDeduplication=true
  tenaq queue create orders --attribute 'RedrivePolicy={"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:orders-dlq","maxReceiveCount":5}'`,
		Args: wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			in := &sqs.CreateQueueInput{QueueName: &name}
			var err error
			if in.Attributes, err = parsePairs("--attribute", attributes); err != nil {
				return err
			}
			if in.Tags, err = parsePairs("--tag", tags); err != nil {
				return err
			}
			in.Attributes = impliedAttributes(name, in.Attributes)
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			out, err := call(cmd.Context(), c, c.CreateQueue, in)
			if err != nil {
				return c.explain("create queue", name, suggestAttribute(in.Attributes, err))
			}
			url := aws.ToString(out.QueueUrl)
			return a.result(map[string]string{"name": name, "url": url}, "%s", url)
		},
	}
	cmd.Flags().StringArrayVar(&attributes, "attribute", nil, "an attribute, as `NAME=VALUE`; may be repeated")
	cmd.Flags().StringArrayVar(&tags, "tag", nil, "a tag, as `KEY=VALUE`; may be repeated")
	return cmd
}
