package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

// TestWorkHelpFits checks that the help of the commands about work fits into 80 columns, except for
// flags and paragraphs that package cli shares with other commands.
func TestWorkHelpFits(t *testing.T) {
	shared := []string{cli.RecordsHelp, cli.BodiesHelp, cli.MetricsHelp}
	sharedFlags := []string{
		"aws", "bodies", "endpoint-url", "ledger", "log-format", "log-level", "metrics-listen", "push-metrics", "records", "region", "retention", "timeout",
	}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		text := cmd.Short + "\n" + cmd.Long
		for _, part := range shared {
			text = strings.ReplaceAll(text, part, "")
		}
		flags := cmd.LocalFlags()
		for line := range strings.SplitSeq(text+"\n"+flags.FlagUsages(), "\n") {
			name, isFlag := strings.CutPrefix(strings.TrimSpace(line), "--")
			name, _, _ = strings.Cut(name, " ")
			own := true
			for _, other := range sharedFlags {
				own = own && !(isFlag && name == other)
			}
			if own && len(line) > 80 {
				t.Errorf("%s: got %d characters, want at most 80: %s", cmd.CommandPath(), len(line), line)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	root := newRoot(&cli.App{})
	for _, name := range []string{"outbox", "claims", "records", "redrive"} {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		check(cmd)
	}
}
