package main

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tenaq": main})
}

// TestScripts runs the scripts that need no server.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		Cmds:                scriptCmds,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setup,
	})
}

// raceEnv keeps the race detector from sleeping for a second at the end of each of hundreds of processes.
const raceEnv = "GORACE=atexit_sleep_ms=0"

func setup(env *testscript.Env) error {
	env.Vars = append(env.Vars, raceEnv)
	return nil
}

type scriptCmd = func(ts *testscript.TestScript, neg bool, args []string)

var scriptCmds = map[string]scriptCmd{"exits": exits, "record": record, "register": register, "scrape": scrape}

// exits runs a command and checks its exit code: exits 2 tenaq send.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// TestFlagHelpFits checks that the flags which most commands have, and those of commands for the first minutes, have
// help that fits on one line.
func TestFlagHelpFits(t *testing.T) {
	root := newRoot(&cli.App{})
	for _, path := range []string{"queue list", "queue create", "queue set", "move start", "alarms", "health", "env", "delete"} {
		cmd, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %v, %q left over", path, err, rest)
		}
		for line := range strings.SplitSeq(cmd.LocalFlags().FlagUsages()+cmd.InheritedFlags().FlagUsages(), "\n") {
			if len(line) > 80 {
				t.Errorf("%s: got %d characters, want at most 80: %s", path, len(line), line)
			}
		}
	}
}

// TestHelp checks that every command documents itself: the help is the documentation.
func TestHelp(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" {
			t.Errorf("%s: got short %q, long %q, example %q, want none of them empty", cmd.CommandPath(), cmd.Short, cmd.Long, cmd.Example)
		}
		if !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s: got examples without the command itself:\n%s", cmd.CommandPath(), cmd.Example)
		}
		for line := range strings.SplitSeq(cmd.Long, "\n") {
			if len(line) > 110 {
				t.Errorf("%s: got a line of %d characters in the help, want at most 110: %s", cmd.CommandPath(), len(line), line)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRoot(&cli.App{}))
}
