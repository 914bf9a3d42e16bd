package queues

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func newQueueSetCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	var attributes []string
	cmd := &cobra.Command{
		Use:   "set QUEUE --attribute NAME=VALUE...",
		Short: "Change attributes of a queue",
		Long: `Change attributes of a queue. Attributes that are not named keep their values.

An empty value removes Policy, RedrivePolicy, RedriveAllowPolicy and
KmsMasterKeyId. A shorter MessageRetentionPeriod also applies to messages that
are in the queue: older ones expire.`,
		Example: `  tenaq queue set orders --attribute VisibilityTimeout=120
  tenaq queue set orders --attribute MessageRetentionPeriod=7d
  tenaq queue set orders --attribute MaximumMessageSize=256KiB
  tenaq queue set orders --attribute RedrivePolicy=`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			values, err := cli.ParseAttributes(attributes)
			switch {
			case err != nil:
				return err
			case len(values) == 0:
				return cli.Usagef("nothing to set; add --attribute NAME=VALUE")
			}
			c, err := f.Connect(cmd.Context())
			if err != nil {
				return err
			}
			url, err := c.QueueURL(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if _, err := cli.Call(cmd.Context(), c, c.SetQueueAttributes,
				&sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: values}); err != nil {
				return c.Explain("change queue", args[0], suggestAttribute(values, err))
			}
			names := slices.Sorted(maps.Keys(values))
			return a.Result(map[string]any{"url": url, "set": values}, "set %s of %s",
				strings.Join(names, ", "), cli.QueueNameOf(url))
		},
	}
	cmd.Flags().StringArrayVar(&attributes, "attribute", nil,
		"set an attribute, as `NAME=VALUE`; repeatable")
	return cmd
}

// suggestAttribute adds what was probably meant to the server's refusal of an attribute's name.
func suggestAttribute(attributes map[string]string, err error) error {
	var answer smithy.APIError
	if !errors.As(err, &answer) || cli.ErrorKind(answer) != "InvalidAttributeName" {
		return err
	}
	known := cli.SettableAttributes()
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if near := cli.Nearest(name, known); near != "" && near != name {
			return &smithy.GenericAPIError{
				Code:    answer.ErrorCode(),
				Message: fmt.Sprintf("%s Did you mean %s?", answer.ErrorMessage(), near),
			}
		}
	}
	return err
}
