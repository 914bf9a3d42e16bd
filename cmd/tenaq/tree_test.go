package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tenaq/docs/alarms"
	"tenaq/internal/cli"
	"tenaq/internal/observe/monitor"
)

// wider lists the commands whose examples need a wider terminal than 80 columns.
var wider = []string{"outbox", "claims", "records", "redrive", "demo"}

// TestHelp checks that every command documents itself in 80 columns: the help is the documentation.
func TestHelp(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.CommandPath() == "tenaq completion" {
			return // its help is cobra's
		}
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" {
			t.Errorf("%s: got short %q, long %q, example %q, want none of them empty", cmd.CommandPath(), cmd.Short, cmd.Long, cmd.Example)
		}
		if !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s: got examples without the command itself:\n%s", cmd.CommandPath(), cmd.Example)
		}
		text := cmd.Short + "\n" + cmd.Long + "\n" + cmd.LocalFlags().FlagUsages()
		if !slices.ContainsFunc(wider, func(name string) bool { return strings.HasPrefix(cmd.CommandPath()+" ", "tenaq "+name+" ") }) {
			text += "\n" + cmd.Example
		}
		for line := range strings.SplitSeq(text, "\n") {
			if len(line) > 80 {
				t.Errorf("%s: got a line of %d characters in the help, want at most 80: %s", cmd.CommandPath(), len(line), line)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRoot(&cli.App{}))
}

// TestCommandsOfNotices checks that the commands exist that a notice tells people to use, with
// these flags and as many arguments: an operator must not find out at night that one does not work.
func TestCommandsOfNotices(t *testing.T) {
	all := monitor.ShippedCommands("orders-dlq", "http://127.0.0.1:9999")
	if len(all) < 10 {
		t.Fatalf("got %d commands, want those of all alarms", len(all))
	}
	for _, kind := range alarms.Kinds() {
		page, _ := alarms.Page(kind)
		for _, m := range command.FindAllStringSubmatch(page, -1) {
			line := strings.NewReplacer("KEY", "order-17", "GROUP", "a", "TEXT", "x").Replace(m[1] + m[2])
			if line = strings.TrimSpace(line); !partial(line) {
				all = append(all, line)
			}
		}
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

// command finds the commands of a page: lines of their own without the comment, and in the text.
var command = regexp.MustCompile("(?m)^    (tenaq [^#\n]+)|`(tenaq [^`]+)`")

// partial reports whether a text names a command without its arguments.
func partial(line string) bool {
	cmd, rest, err := newRoot(&cli.App{}).Find(strings.Fields(line)[1:])
	return err == nil && len(rest) == 0 && cmd.Args != nil && cmd.ValidateArgs(nil) != nil
}

// parses reports why a command line could not be carried out.
func parses(line string) error {
	words := strings.Fields(line)
	if words[0] != "tenaq" {
		return fmt.Errorf("it is another program")
	}
	return parsesWords(words[1:])
}

func parsesWords(words []string) error {
	cmd, rest, err := newRoot(&cli.App{}).Find(words)
	if err != nil {
		return err
	}
	if !cmd.HasParent() || cmd.RunE == nil {
		return fmt.Errorf("%s only has commands below it", cmd.CommandPath())
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd.HasSubCommands() && cmd.Use == cmd.Name() && cmd.Flags().NArg() > 0 {
		return fmt.Errorf("%s has no command %s", cmd.CommandPath(), cmd.Flags().Arg(0))
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

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
			"--log-level=loud":  `--log-level: "loud" is not one of debug, info, warn, error`,
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

// countOfMany finds a number that is followed by a noun in the plural, whatever the number is.
var countOfMany = regexp.MustCompile(`%d (more |sent )?(messages|rows|records|changes|differences|findings|lines|kills|requests|times|checks|queues (are|have))\b`)

// Numbers of things are written by counted, which knows of "1 message".
func TestCountsAgree(t *testing.T) {
	var files []string
	for _, dir := range []string{".", "../../internal/cli", "../../internal/redrivehost", "../../internal/settings"} {
		err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 100 {
		t.Fatalf("%d files", len(files))
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(file, "bench/budget") { // the budget has fixed, large numbers
			continue
		}
		for i, line := range strings.Split(string(b), "\n") {
			if found := countOfMany.FindString(line); found != "" && !strings.Contains(line, "begin with") {
				t.Errorf("%s:%d: %q: use counted", file, i+1, found)
			}
		}
	}
}
