package main

import (
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

// newUnixCommands returns commands that say why they do nothing here.
func newUnixCommands(*cli.App) unixCommands {
	absent := func(name, short string) *cobra.Command {
		return &cobra.Command{
			Use:                name,
			Short:              short + " (not on Windows)",
			DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return cli.Usagef("tenaq %s does not run on Windows: use Linux, macOS or a container. "+
					"The client commands work here: name a server with --endpoint-url", name)
			},
		}
	}
	return unixCommands{
		serve:   absent("serve", "Run the queue"),
		verify:  absent("verify", "Check the data on disk for damage"),
		restore: absent("restore", "Make a data directory from a backup"),
		salvage: absent("salvage", "Copy what is intact of a damaged store into a new one"),
		bench:   absent("bench", "Measure a server"),
		pipe:    absent("pipe", "Run a program for each message"),
		demo:    absent("demo", "See what survives crashes"),
	}
}
