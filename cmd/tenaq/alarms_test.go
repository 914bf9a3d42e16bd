package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/observe/monitor"
)

// TestCommandsOfNotices checks that the commands exist that a notice tells people to use, with
// these flags and as many arguments: nobody wants to find out at night.
func TestCommandsOfNotices(t *testing.T) {
	all := monitor.ShippedCommands("orders-dlq", "http://127.0.0.1:9999")
	if len(all) < 10 {
		t.Fatalf("got %d commands, want those of all alarms", len(all))
	}
	for _, line := range all {
		if err := parses(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if parses("tenaq peek orders --body 200 x") == nil || parses("tenaq peak orders") == nil {
		t.Error("a command that does not exist passes")
	}
}

// parses reports why a command line could not be carried out.
func parses(line string) error {
	words := strings.Fields(line)
	if words[0] != "tenaq" {
		return fmt.Errorf("it is another program")
	}
	var cmd *cobra.Command
	cmd, rest, err := newRoot(&cli.App{}).Find(words[1:])
	if err != nil {
		return err
	}
	if !cmd.HasParent() || cmd.RunE == nil {
		return fmt.Errorf("%s only has commands below it", cmd.CommandPath())
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
