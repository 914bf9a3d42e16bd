package main

import (
	"errors"
	"os/exec"
	"slices"
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

// raceEnv keeps the race detector from sleeping for a second at the end of each of hundreds of
// processes.
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

// wider lists the commands whose help is still wider than a terminal of 80 columns.
var wider = []string{"outbox", "claims", "records", "redrive", "demo", "completion"}

// TestHelp checks that every command documents itself in 80 columns: the help is the documentation.
func TestHelp(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" {
			t.Errorf("%s: got short %q, long %q, example %q, want none of them empty", cmd.CommandPath(), cmd.Short, cmd.Long, cmd.Example)
		}
		if !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s: got examples without the command itself:\n%s", cmd.CommandPath(), cmd.Example)
		}
		text, most := cmd.Long+"\n"+cmd.UsageString(), 80
		if slices.ContainsFunc(wider, func(name string) bool { return strings.HasPrefix(cmd.CommandPath()+" ", "tenaq "+name+" ") }) {
			text, most = cmd.Long, 110
		}
		for line := range strings.SplitSeq(text, "\n") {
			if len(line) > most {
				t.Errorf("%s: got a line of %d characters in the help, want at most %d: %s", cmd.CommandPath(), len(line), most, line)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRoot(&cli.App{}))
}
