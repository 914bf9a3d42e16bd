// Command tenaq is a durable message queue that speaks the Amazon SQS protocol, and a client for every
// server that speaks it, Amazon's included.
//
// Each subcommand has a file of its own; its help text is its documentation. What all of them share is
// here and in exit.go (exit codes), output.go (tables and JSON), client.go (the SQS client) and
// settings.go (where the settings of a server come from).
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx := untilSignal(context.Background())
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// untilSignal returns a context that ends with the first interrupt or SIGTERM. The second one means that
// whoever sends them does not want to wait, so it ends the process at once.
func untilSignal(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitFailed)
	}()
	return ctx
}

// unlessInterrupted does what cannot be cancelled, such as reading from a terminal, and does not wait for
// its end when ctx ends first.
func unlessInterrupted[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := do()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, errors.New("interrupted")
	}
}

// An app is one run of the program: its streams and the flags that every command has.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	json bool
}

// run carries out one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		a.complain(err)
	}
	return exitCode(err)
}

const rootHelp = `tenaq is a durable message queue that speaks the Amazon SQS protocol: any AWS SDK can use it.

"tenaq serve" runs the queue. The other commands are clients; they work against any SQS endpoint,
which they look for in this order: --endpoint-url, TENAQ_ENDPOINT_URL, AWS_ENDPOINT_URL_SQS,
AWS_ENDPOINT_URL, http://127.0.0.1:9324. With --aws they talk to Amazon itself. The region comes from
--region, TENAQ_REGION, AWS_REGION, AWS_DEFAULT_REGION, or is us-east-1.

Exit codes:
  0  done
  1  failed
  2  wrong usage or configuration
  3  not found
  4  refused by the present state of things, such as a queue that exists with other attributes
  5  partly done
  6  the storage is damaged
  7  the storage failed or is full`

const rootExample = `  tenaq serve                            # run the queue
  eval "$(tenaq env)"                    # point the AWS SDKs of this shell at it
  tenaq queue create orders
  tenaq send orders '{"id": 1}'
  tenaq receive orders --wait 20s --delete`

const (
	groupServer   = "server"
	groupQueues   = "queues"
	groupMessages = "messages"
	groupWork     = "work"
)

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "tenaq",
		Short:         "A durable message queue that speaks the Amazon SQS protocol",
		Long:          rootHelp,
		Example:       rootExample,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON instead of text and tables")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%v%s", err, cmp.Or(suggestFlag(cmd, err), "; see: "+cmd.CommandPath()+" --help"))
	})
	root.AddGroup(
		&cobra.Group{ID: groupServer, Title: "Server:"},
		&cobra.Group{ID: groupQueues, Title: "Queues:"},
		&cobra.Group{ID: groupMessages, Title: "Messages:"},
		&cobra.Group{ID: groupWork, Title: "Work:"},
	)

	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupServer, newServeCmd(a), newConfigCmd(a), newHealthCmd(a), newDoctorCmd(a), newAlarmsCmd(a), newVerifyCmd(a), newBackupCmd(a), newRestoreCmd(a), newSalvageCmd(a), newBenchCmd(a))
	add(groupQueues, newQueueCmd(a), newApplyCmd(a), newMoveCmd(a), newWatchCmd(a))
	add(groupMessages, newSendCmd(a), newReceiveCmd(a), newPeekCmd(a), newDeleteCmd(a), newVisibilityCmd(a))
	add(groupWork, newPipeCmd(a), newRedriveCmd(a), newClaimsCmd(a), newRecordsCmd(a), newOutboxCmd(a))
	add("", newDemoCmd(a), newEnvCmd(a), newVersionCmd(a))
	asGroup(root)
	withVersionFlag(a, root)
	withHelpCommand(root)
	withCompletion(root)
	withCompletionCommand(root)
	return root
}

// withVersionFlag gives the program --version. Cobra's own would need a template of ours for its words, and
// package text/template calls methods by their names: then the linker has to keep all exported methods of
// all types, and the program is a quarter larger.
func withVersionFlag(a *app, root *cobra.Command) {
	show := root.Flags().BoolP("version", "v", false, "print the version of this program")
	otherwise := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if !*show {
			return otherwise(cmd, args)
		}
		_, err := fmt.Fprintln(a.stdout, "tenaq", buildVersion().Version)
		return err
	}
}

// withHelpCommand adds cobra's command, which would print the help of the whole program for a command that
// does not exist, and report success.
func withHelpCommand(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "help" {
			continue
		}
		cmd.Example = "  tenaq help send"
		cmd.Run = nil
		cmd.RunE = func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			switch {
			case err != nil:
				return usagef("%v; see: tenaq --help", err)
			case len(rest) > 0 && about.HasAvailableSubCommands():
				return usagef("%s has no command %q%s", about.CommandPath(), rest[0], suggestCommand(about, rest[0]))
			}
			about.InitDefaultHelpFlag() // so that it is shown
			return about.Help()
		}
	}
}

// asGroup makes a command that only holds others print its help when it is given nothing, and refuse an
// unknown word; cobra would print the help and report success.
func asGroup(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return usagef("%s has no command %q%s", cmd.CommandPath(), args[0], suggestCommand(cmd, args[0]))
	}
}

// wants makes the check of a command's arguments: between low and high of them, no upper bound when high
// is negative. What is missing or too much is said in the words of the usage line.
func wants(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < low:
			return usagef("%s needs more arguments; usage: %s", cmd.CommandPath(), cmd.UseLine())
		case high == 0 && len(args) > 0 && cmd.HasAvailableSubCommands():
			return usagef("%s has no command %q%s", cmd.CommandPath(), args[0], suggestCommand(cmd, args[0]))
		case high >= 0 && len(args) > high:
			return usagef("%s does not take %q; usage: %s", cmd.CommandPath(), args[high], cmd.UseLine())
		}
		return nil
	}
}
