// Package queues has the commands that create, list, change and delete queues, apply a file of
// them, and move messages between them. Each works on any SQS endpoint.
package queues

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/work/extension"
)

func NewCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Create, list, show, change, pause, purge and delete queues",
		Long: `Create, list, show, change, pause, purge and delete queues.

Give a queue by name, URL or ARN. Attributes have the names and values of SQS:
whole seconds and whole bytes. The commands also accept units, such as 90s, 4d
and 256KiB.`,
		Example: `  tenaq queue create orders --attribute VisibilityTimeout=60
  tenaq queue list
  tenaq queue show orders`,
	}
	f := &cli.ClientFlags{}
	f.Register(cmd)
	cmd.AddCommand(newCreateCmd(a, f), newListCmd(a, f), newShowCmd(a, f), newSetCmd(a, f),
		newTagCmd(a, f), newUntagCmd(a, f), newPauseCmd(a, f), newResumeCmd(a, f),
		newPurgeCmd(a, f), newDeleteCmd(a, f), newExampleCmd(a, f))
	cli.AsGroup(cmd)
	return cmd
}

func newListCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List all queues",
		Long: `List all queues, or those whose names begin with --prefix. An empty list is not
an error. Paused queues of a tenaq server are marked. With more than 50 queues,
the marks can be a few seconds old.`,
		Example: `  tenaq queue list
  tenaq queue list --prefix orders-
  tenaq queue list --json | jq -r '.queues[].url'`,
		Args: cli.Wants(0, 0),
		RunE: f.Run(func(ctx context.Context, c *cli.Client, _ []string) error {
			queues, _, err := c.Queues(ctx, prefix, 0)
			if err != nil {
				return err
			}
			paused := pausedQueues(ctx, c, prefix)
			listed := make([]listedQueue, len(queues))
			for i, q := range queues {
				listed[i] = listedQueue{q, paused[q.Name]}
			}
			head := []string{"QUEUE", "URL"}
			if slices.ContainsFunc(listed, func(q listedQueue) bool { return q.Paused }) {
				head = append(head, "")
			}
			return cli.PrintList(a, "queues", listed, "no queues at "+c.Endpoint.String(), head,
				func(q *listedQueue) []string {
					return []string{q.Name, q.URL, cli.OrEmpty(q.Paused, "paused")}[:len(head)]
				})
		}),
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "list only names that begin with this `text`")
	return cmd
}

type listedQueue struct {
	cli.QueueRef
	Paused bool `json:"paused,omitempty"`
}

// pausedQueues finds out which queues are paused: none where the server does not tell. The writer
// looks at each queue of a page, so only one page is asked for. If there are more queues, what the
// monitor has seen last says which of all are paused.
func pausedQueues(ctx context.Context, c *cli.Client, prefix string) map[string]bool {
	paused := map[string]bool{}
	if c.Endpoint.IsAmazon() {
		return paused
	}
	v := &cli.V1Client{C: c, HTTP: c.Options().HTTPClient}
	type page struct {
		Queues   []listedQueue `json:"queues"`
		Next     string        `json:"next"`
		Snapshot struct {
			ID      int `json:"id"`
			Matched int `json:"matched"`
		} `json:"snapshot"`
	}
	for query, seen := (url.Values{"prefix": {prefix}}), 0; ; {
		var p page
		if v.Get(ctx, "look at the queues", "", "/queues", query, &p) != nil {
			return paused
		}
		for _, q := range p.Queues {
			paused[q.Name] = q.Paused
		}
		if p.Next == "" {
			seen += len(p.Queues)
			if len(p.Queues) == 0 || seen >= p.Snapshot.Matched {
				return paused
			}
		}
		query = url.Values{"only": {"paused"}, "sort": {"name"}, "limit": {"100"},
			"from": {strconv.Itoa(seen)}, "snapshot": {strconv.Itoa(p.Snapshot.ID)}}
	}
}

func newSetCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
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
			return f.OnQueue(func(
				ctx context.Context, c *cli.Client, url string, _ []string,
			) error {
				if err := setAttributes(ctx, c, url, values); err != nil {
					return err
				}
				return a.Result(map[string]any{"url": url, "set": values}, "set %s of %s",
					strings.Join(slices.Sorted(maps.Keys(values)), ", "), cli.QueueNameOf(url))
			})(cmd, args)
		},
	}
	cmd.Flags().StringArrayVar(&attributes, "attribute", nil,
		"set an attribute, as `NAME=VALUE`; repeatable")
	return cmd
}

func setAttributes(
	ctx context.Context, c *cli.Client, url string, attributes map[string]string,
) error {
	_, err := cli.Call(ctx, c, c.SetQueueAttributes,
		&sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: attributes})
	return c.Explain("change queue", url, suggestAttribute(attributes, err))
}

func createQueue(ctx context.Context, c *cli.Client, in *sqs.CreateQueueInput) (string, error) {
	out, err := cli.Call(ctx, c, c.CreateQueue, in)
	if err != nil {
		return "", c.Explain("create queue", *in.QueueName, suggestAttribute(in.Attributes, err))
	}
	return aws.ToString(out.QueueUrl), nil
}

// suggestAttribute adds what was probably meant to the server's refusal of an attribute's name.
func suggestAttribute(attributes map[string]string, err error) error {
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok || cli.ErrorKind(answer) != "InvalidAttributeName" {
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

func newTagCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "tag QUEUE KEY=VALUE...",
		Short: "Set tags of a queue",
		Long: `Set tags of a queue. Existing tags with the same keys get new values.

On a tenaq server, tags that begin with tenaq: switch on features that SQS does
not have, such as a rate or a schedule: docs/extensions.md lists them.`,
		Example: `  tenaq queue tag orders team=payments stage=test
  tenaq queue tag orders tenaq:rate=50/s`,
		Args: cli.Wants(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tags, err := cli.ParsePairs("tag", args[1:])
			if err != nil {
				return err
			}
			return f.OnQueue(func(
				ctx context.Context, c *cli.Client, url string, _ []string,
			) error {
				if err := setTags(ctx, c, url, tags); err != nil {
					return err
				}
				return a.Result(map[string]any{"url": url, "tagged": tags}, "tagged %s: %s",
					cli.QueueNameOf(url), strings.Join(slices.Sorted(maps.Keys(tags)), ", "))
			})(cmd, args)
		},
	}
}

func setTags(ctx context.Context, c *cli.Client, url string, tags map[string]string) error {
	_, err := cli.Ask(ctx, c, "tag queue", url, c.TagQueue,
		&sqs.TagQueueInput{QueueUrl: &url, Tags: tags})
	return err
}

func newUntagCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "untag QUEUE KEY...",
		Short:   "Remove tags of a queue",
		Long:    `Remove tags of a queue. The command reports tags that the queue does not have.`,
		Example: "  tenaq queue untag orders stage",
		Args:    cli.Wants(2, -1),
		RunE: f.OnQueue(func(
			ctx context.Context, c *cli.Client, url string, keys []string,
		) error {
			// A caller that may not list tags gets no notes.
			had, noTags := cli.Call(ctx, c, c.ListQueueTags,
				&sqs.ListQueueTagsInput{QueueUrl: &url})
			if _, err := cli.Ask(ctx, c, "untag queue", url, c.UntagQueue,
				&sqs.UntagQueueInput{QueueUrl: &url, TagKeys: keys}); err != nil {
				return err
			}
			removed := keys
			if noTags == nil {
				removed = []string{}
				for _, key := range keys {
					if _, ok := had.Tags[key]; ok {
						removed = append(removed, key)
						continue
					}
					known := slices.Sorted(maps.Keys(had.Tags))
					near := cmp.Or(cli.Nearest(key, known), extension.Meant(key, cli.Nearest))
					a.Note("%s has no tag %s%s", cli.QueueNameOf(url), key,
						cli.OrEmpty(near != "" && near != key, "; did you mean "+near+"?"))
				}
			}
			if len(removed) == 0 && !a.JSON {
				return nil
			}
			return a.Result(map[string]any{"url": url, "untagged": removed}, "untagged %s: %s",
				cli.QueueNameOf(url), strings.Join(removed, ", "))
		}),
	}
}

func newPurgeCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	return afterConfirming(a, f, "Delete them", &cobra.Command{
		Use:   "purge QUEUE",
		Short: "Delete all messages of a queue",
		Long: `Delete all messages of a queue, including those in flight and delayed.

This cannot be undone. The command asks first on a terminal, and requires --yes
elsewhere. A queue can be purged once in 60 seconds; an earlier second purge is
refused with exit code 4.`,
		Example: `  tenaq queue purge orders
  tenaq queue purge orders --yes`,
	}, func(ctx context.Context, c *cli.Client, url string) error {
		if _, err := cli.Ask(ctx, c, "purge queue", url, c.PurgeQueue,
			&sqs.PurgeQueueInput{QueueUrl: &url}); err != nil {
			return err
		}
		return a.Result(map[string]any{"url": url, "purged": true}, "purged %s",
			cli.QueueNameOf(url))
	})
}

func newDeleteCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	return afterConfirming(a, f, "Delete the queue with them", &cobra.Command{
		Use:   "delete QUEUE",
		Short: "Delete a queue and its messages",
		Long: `Delete a queue with its messages, attributes and tags, even if it is not empty.

This cannot be undone. The command asks first on a terminal, and requires --yes
elsewhere. The name is reserved for 60 seconds after that.`,
		Example: `  tenaq queue delete orders
  tenaq queue delete orders --yes`,
	}, func(ctx context.Context, c *cli.Client, url string) error {
		if _, err := cli.Ask(ctx, c, "delete queue", url, c.DeleteQueue,
			&sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
			return err
		}
		return a.Result(map[string]any{"url": url, "deleted": true}, "deleted queue %s",
			cli.QueueNameOf(url))
	})
}

// afterConfirming completes a command that destroys the messages of a queue: unless --yes is set,
// it asks first. The question names their number and the server, so that an operator notices the
// wrong queue in time.
func afterConfirming(
	a *cli.App, f *cli.ClientFlags, what string, cmd *cobra.Command,
	do func(context.Context, *cli.Client, string) error,
) *cobra.Command {
	var yes bool
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Args = cli.Wants(1, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !yes && !cli.IsTerminal(a.Stdin) {
			return cli.Usagef("this cannot be undone and there is no terminal to ask on; add --yes")
		}
		return f.OnQueue(func(ctx context.Context, c *cli.Client, url string, _ []string) error {
			if !yes {
				attributes, err := c.AllAttributes(ctx, url)
				if err != nil {
					return err
				}
				visible, hidden, delayed := cli.CountsOf(attributes)
				question := fmt.Sprintf("%s at %s holds about %s, %d in flight, %d delayed. %s?",
					cli.OneLine(cli.QueueNameOf(url)), c.Endpoint,
					cli.Counted(visible, "message", "messages"), hidden, delayed, what)
				if !agrees(ctx, a, question) {
					return cli.Codedf(cli.ExitFailed, "nothing was done")
				}
			}
			return do(ctx, c, url)
		})(cmd, args)
	}
	return cmd
}

func agrees(ctx context.Context, a *cli.App, question string) bool {
	fmt.Fprintf(a.Stderr, "%s [y/N] ", cli.Shown(a.Stderr, question))
	answer, err := cli.UnlessInterrupted(ctx, func() (string, error) {
		return bufio.NewReader(a.Stdin).ReadString('\n')
	})
	if err != nil {
		fmt.Fprintln(a.Stderr)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}
