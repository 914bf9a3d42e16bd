package main

import (
	"github.com/spf13/cobra"
)

// newDemoChildCmd makes the command that the demo starts its other processes with, from its own binary.
func newDemoChildCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "child SCENARIO [ARG]...",
		Hidden: true,
		Short:  "Be one of the other processes of a scenario",
		Long: `Be one of the other processes of a scenario, such as a worker that is going to be killed. The demo starts
them and tells them the rest; it is of no use to anybody else.`,
		Example: `  tenaq demo child order`,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, s := range scenarios {
				if len(args) > 0 && s.name == args[0] && s.child != nil {
					return s.child(cmd.Context(), a, args[1:])
				}
			}
			return usagef("there is no scenario %q that starts processes", append(args, "")[0])
		},
	}
}
