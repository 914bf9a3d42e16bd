package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"
)

func newQueueTagCmd(a *app, f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "tag QUEUE KEY=VALUE...",
		Short:   "Set tags of a queue",
		Long:    `Set tags of a queue. A tag that the queue has gets the new value; the others stay.`,
		Example: "  tenaq queue tag orders team=payments stage=test",
		Args:    wants(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tags, err := parsePairs("tag", args[1:])
			if err != nil {
				return err
			}
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			url, err := c.queueURL(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if _, err := call(cmd.Context(), c, c.TagQueue, &sqs.TagQueueInput{QueueUrl: &url, Tags: tags}); err != nil {
				return c.explain("tag queue", args[0], err)
			}
			keys := slices.Sorted(maps.Keys(tags))
			return a.result(map[string]any{"url": url, "tagged": tags}, "tagged %s: %s", queueNameOf(url), strings.Join(keys, ", "))
		},
	}
}

func newQueueUntagCmd(a *app, f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "untag QUEUE KEY...",
		Short:   "Remove tags of a queue",
		Long:    `Remove tags of a queue. A tag that the queue does not have is not an error.`,
		Example: "  tenaq queue untag orders stage",
		Args:    wants(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			url, err := c.queueURL(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			keys := args[1:]
			if _, err := call(cmd.Context(), c, c.UntagQueue, &sqs.UntagQueueInput{QueueUrl: &url, TagKeys: keys}); err != nil {
				return c.explain("untag queue", args[0], err)
			}
			return a.result(map[string]any{"url": url, "untagged": keys}, "untagged %s: %s", queueNameOf(url), strings.Join(keys, ", "))
		},
	}
}
