package cli

import (
	"github.com/spf13/cobra"
)

// Completes gives a flag the values that it may have.
func Completes(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// AsGroup makes a command that only holds others print its help when it is given nothing, and
// refuse an unknown word; cobra would print the help and report success.
func AsGroup(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return Usagef("%s has no command %q%s", cmd.CommandPath(), args[0],
			SuggestCommand(cmd, args[0]))
	}
}

// Wants makes the check of a command's arguments: between low and high of them, no upper bound when
// high is negative. What is missing or too much is said in the words of the usage line.
func Wants(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < low:
			return Usagef("%s needs more arguments; usage: %s", cmd.CommandPath(), cmd.UseLine())
		case high == 0 && len(args) > 0 && cmd.HasAvailableSubCommands():
			return Usagef("%s has no command %q%s", cmd.CommandPath(), args[0],
				SuggestCommand(cmd, args[0]))
		case high >= 0 && len(args) > high:
			return Usagef("%s does not take %q; usage: %s", cmd.CommandPath(), args[high],
				cmd.UseLine())
		}
		return nil
	}
}
