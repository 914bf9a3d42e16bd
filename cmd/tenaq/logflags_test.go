package main

import (
	"testing"

	"tenaq/internal/cli"
)

// Every command that writes a log has the same two flags, and refuses the same values.
func TestLogFlags(t *testing.T) {
	commands := [][]string{
		{"serve"},
		{"pipe", "orders"},
		{"redrive", "run", "orders-dlq", "--parking", "parking"},
		{"outbox", "relay", "--db", "sqlite:nowhere.db"},
	}
	for _, c := range commands {
		for flag, says := range map[string]string{
			"--log-level=loud":  `--log-level: "loud" is none of debug, info, warn, error`,
			"--log-format=yaml": `--log-format: "yaml" is neither text nor json`,
		} {
			args := append(append([]string{}, c...), flag)
			if c[0] == "pipe" {
				args = append(args, "--", "true")
			}
			wantExecute(t, cli.ExitUsage, says, args...)
		}
	}
}
