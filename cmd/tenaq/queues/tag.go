package queues

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func newQueueTagCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "tag QUEUE KEY=VALUE...",
		Short:   "Set tags of a queue",
		Long:    `Set tags of a queue. Existing tags with these keys get new values.`,
		Example: "  tenaq queue tag orders team=payments stage=test",
		Args:    cli.Wants(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tags, err := cli.ParsePairs("tag", args[1:])
			if err != nil {
				return err
			}
			c, err := f.Connect(cmd.Context())
			if err != nil {
				return err
			}
			url, err := c.QueueURL(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if _, err := cli.Call(cmd.Context(), c, c.TagQueue,
				&sqs.TagQueueInput{QueueUrl: &url, Tags: tags}); err != nil {
				return c.Explain("tag queue", args[0], err)
			}
			keys := slices.Sorted(maps.Keys(tags))
			return a.Result(map[string]any{"url": url, "tagged": tags}, "tagged %s: %s",
				cli.QueueNameOf(url), strings.Join(keys, ", "))
		},
	}
}

func newQueueUntagCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "untag QUEUE KEY...",
		Short:   "Remove tags of a queue",
		Long:    `Remove tags of a queue. It is not an error if the queue lacks a tag.`,
		Example: "  tenaq queue untag orders stage",
		Args:    cli.Wants(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.Connect(cmd.Context())
			if err != nil {
				return err
			}
			url, err := c.QueueURL(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			keys := args[1:]
			if _, err := cli.Call(cmd.Context(), c, c.UntagQueue,
				&sqs.UntagQueueInput{QueueUrl: &url, TagKeys: keys}); err != nil {
				return c.Explain("untag queue", args[0], err)
			}
			return a.Result(map[string]any{"url": url, "untagged": keys}, "untagged %s: %s",
				cli.QueueNameOf(url), strings.Join(keys, ", "))
		},
	}
}
