package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"
)

func newQueueSetCmd(a *app, f *clientFlags) *cobra.Command {
	var attributes []string
	cmd := &cobra.Command{
		Use:   "set QUEUE --attribute NAME=VALUE...",
		Short: "Change attributes of a queue",
		Long: `Change attributes of a queue; those that are not named stay as they are.

An empty value removes Policy, RedrivePolicy, RedriveAllowPolicy and KmsMasterKeyId. A shorter
MessageRetentionPeriod takes effect on the messages that are there: older ones vanish.`,
		Example: `  tenaq queue set orders --attribute VisibilityTimeout=120
  tenaq queue set orders --attribute MessageRetentionPeriod=7d --attribute MaximumMessageSize=256KiB
  tenaq queue set orders --attribute RedrivePolicy=`,
		Args: wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			values, err := parseAttributes(attributes)
			switch {
			case err != nil:
				return err
			case len(values) == 0:
				return usagef("nothing to set; add --attribute NAME=VALUE")
			}
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			url, err := c.queueURL(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if _, err := call(cmd.Context(), c, c.SetQueueAttributes, &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: values}); err != nil {
				return c.explain("change queue", args[0], suggestAttribute(values, err))
			}
			names := slices.Sorted(maps.Keys(values))
			return a.result(map[string]any{"url": url, "set": values}, "set %s of %s", strings.Join(names, ", "), queueNameOf(url))
		},
	}
	cmd.Flags().StringArrayVar(&attributes, "attribute", nil, "an attribute, as `NAME=VALUE`; may be repeated")
	return cmd
}

// suggestAttribute adds what was probably meant to the server's refusal of an attribute's name.
func suggestAttribute(attributes map[string]string, err error) error {
	var answer smithy.APIError
	if !errors.As(err, &answer) || errorKind(answer) != "InvalidAttributeName" {
		return err
	}
	known := settableAttributes()
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if near := nearest(name, known); near != "" && near != name {
			return &smithy.GenericAPIError{
				Code:    answer.ErrorCode(),
				Message: fmt.Sprintf("%s Did you mean %s?", answer.ErrorMessage(), near),
			}
		}
	}
	return err
}
