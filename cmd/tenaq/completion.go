package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tenaq/cmd/tenaq/alarms"
	"tenaq/cmd/tenaq/cluster"
	"tenaq/internal/cli"
)

// completionTimeout bounds a request while a user waits at the prompt, and completionMax the
// suggestions.
const (
	completionTimeout = 2 * time.Second
	completionMax     = 1000
)

// A source lists the suggestions for a word of a usage line.
type source func(ctx context.Context, f *cli.ClientFlags, prefix string) ([]string, error)

// sources are keyed by the words of usage lines and flag helps.
var sources = map[string]source{
	"QUEUE":  offerQueues,
	"ALARM":  offerAlarms,
	"MATCH":  offerAlarms,
	"ACTION": offerActions,
	"NODE":   offerNodes,
	"OLD":    offerNodes,
	"NEW":    offerNodes,
}

// withCompletion completes the arguments that usage lines name, and the flags whose value the help
// calls a queue. A server that does not answer in time yields no suggestions.
func withCompletion(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		withCompletion(cmd)
		words, last := usageWords(cmd.Use)
		if cmd.ValidArgs == nil && cmd.ValidArgsFunction == nil &&
			slices.ContainsFunc(words, func(w string) bool {
				return sources[w] != nil
			}) {
			cmd.ValidArgsFunction = func(
				cmd *cobra.Command, args []string, prefix string,
			) ([]string, cobra.ShellCompDirective) {
				word := last
				if len(args) < len(words) {
					word = words[len(args)]
				}
				return offered(cmd, sources[word], args, prefix)
			}
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if word, _ := pflag.UnquoteUsage(flag); word == "queue" &&
				!strings.HasPrefix(cmd.CommandPath(), "tenaq outbox") {
				_ = cmd.RegisterFlagCompletionFunc(flag.Name,
					func(
						cmd *cobra.Command, _ []string, prefix string,
					) ([]string, cobra.ShellCompDirective) {
						return offered(cmd, offerQueues, nil, prefix)
					})
			}
		})
	}
}

// usageWords returns the words for the arguments of a command, and the word for further ones if the
// last may be repeated: "plan QUEUE..." has QUEUE, and QUEUE again.
func usageWords(use string) (words []string, last string) {
	for _, field := range strings.Fields(use)[1:] {
		if strings.HasPrefix(field, "-") || strings.HasPrefix(field, "[-") || field == "[flags]" {
			break
		}
		word, _, _ := strings.Cut(strings.Trim(field, "[]."), "|")
		word = strings.Trim(word, "[].")
		words = append(words, word)
		if strings.Contains(field, "...") {
			return words, word
		}
	}
	return words, ""
}

// offered asks a source, and omits what is already on the command line.
func offered(
	cmd *cobra.Command, from source, args []string, prefix string,
) ([]string, cobra.ShellCompDirective) {
	if from == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	f := &cli.ClientFlags{Timeout: completionTimeout}
	f.EndpointURL, _ = cmd.Flags().GetString("endpoint-url")
	f.Region, _ = cmd.Flags().GetString("region")
	f.AWS, _ = cmd.Flags().GetBool("aws")
	ctx := cmp.Or(cmd.Context(), context.Background())
	found, err := from(ctx, f, prefix)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(found, func(name string) bool {
		return !strings.HasPrefix(name, prefix) || slices.Contains(args, name) ||
			cli.OneLine(name) != name
	}), cobra.ShellCompDirectiveNoFileComp
}

// offerNodes offers members and nodes that wait alike: a node that was lost has both.
func offerNodes(ctx context.Context, f *cli.ClientFlags, _ string) ([]string, error) {
	members, waiting, err := cluster.Nodes(ctx, f)
	return append(members, waiting...), err
}

func offerQueues(ctx context.Context, f *cli.ClientFlags, prefix string) (names []string, _ error) {
	c, err := f.Connect(ctx)
	if err != nil {
		return nil, err
	}
	queues, _, err := c.Queues(ctx, prefix, completionMax)
	for _, q := range queues {
		names = append(names, q.Name)
	}
	return names, err
}

func offerAlarms(ctx context.Context, f *cli.ClientFlags, _ string) ([]string, error) {
	names, _, err := alarms.Names(ctx, f)
	return names, err
}

func offerActions(ctx context.Context, f *cli.ClientFlags, _ string) ([]string, error) {
	_, actions, err := alarms.Names(ctx, f)
	return actions, err
}

var completionExamples = map[string]string{
	"bash":       "  source <(tenaq completion bash)",
	"zsh":        "  source <(tenaq completion zsh)",
	"fish":       "  tenaq completion fish | source",
	"powershell": "  tenaq completion powershell | Out-String | Invoke-Expression",
}

// withCompletionCommand adds cobra's command that writes the scripts. As a group it refuses an
// unknown shell; cobra's own would print the help and report success.
func withCompletionCommand(root *cobra.Command) {
	root.InitDefaultCompletionCmd("completion")
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Example = completionExamples["bash"]
		for _, shell := range cmd.Commands() {
			shell.Example = completionExamples[shell.Name()]
			shell.Args = cli.Wants(0, 0)
		}
		cli.AsGroup(cmd)
	}
}
