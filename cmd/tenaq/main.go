// Command tenaq is a durable message queue that speaks the Amazon SQS protocol, and a client for
// every server that speaks it, Amazon's included.
//
// Each group of commands is a package below this one. A command parses flags, calls a library and
// prints; its help is its documentation. Package internal/cli has what commands share: exit codes,
// output, clients. Package internal/settings has the settings of a server.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"tenaq/cmd/tenaq/alarms"
	"tenaq/cmd/tenaq/claims"
	"tenaq/cmd/tenaq/cluster"
	"tenaq/cmd/tenaq/dead"
	"tenaq/cmd/tenaq/doctor"
	"tenaq/cmd/tenaq/messages"
	"tenaq/cmd/tenaq/outbox"
	"tenaq/cmd/tenaq/queues"
	"tenaq/cmd/tenaq/redrive"
	"tenaq/cmd/tenaq/serve"
	"tenaq/internal/cli"
)

// version and commit are set by a release build: -ldflags "-X main.version=v1.2.3".
var version, commit string

// unixCommands are those that do not run on Windows: a server needs what Unix promises of files,
// and the others run servers or signal processes.
type unixCommands struct{ serve, verify, restore, salvage, bench, pipe, demo *cobra.Command }

func main() {
	cli.Version, cli.Commit = version, commit
	ctx := untilSignal(context.Background())
	a := &cli.App{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	os.Exit(run(a, ctx, os.Args[1:]))
}

// untilSignal returns a context that ends with the first interrupt or SIGTERM. The second signal
// ends the process at once.
func untilSignal(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(cli.ExitFailed)
	}()
	return ctx
}

func run(a *cli.App, ctx context.Context, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	out := &helpWriter{to: a.Stdout}
	root.SetOut(out)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = out.err
	}
	if err != nil {
		a.Complain(err)
	}
	return cli.ExitCode(err)
}

// A helpWriter keeps the first error of a write, because package cobra ignores it when it prints a
// help text.
type helpWriter struct {
	to  io.Writer
	err error
}

func (w *helpWriter) Write(text []byte) (int, error) {
	n, err := w.to.Write(text)
	w.err = cmp.Or(w.err, err)
	return n, err
}

const rootHelp = `tenaq is a durable message queue that speaks the Amazon SQS protocol: any AWS
SDK can use it.

"tenaq serve" runs the queue. The other commands are clients of any SQS
endpoint. The endpoint is the first of these that is set:

  --endpoint-url, TENAQ_ENDPOINT_URL, AWS_ENDPOINT_URL_SQS, AWS_ENDPOINT_URL,
  TENAQ_LISTEN (the address of the server), http://127.0.0.1:9324

--aws means Amazon SQS. The region comes from --region, TENAQ_REGION,
AWS_REGION or AWS_DEFAULT_REGION, and is us-east-1 otherwise.

Exit codes:
  0  done
  1  failed
  2  wrong usage or configuration
  3  not found
  4  refused by the present state: a queue exists with other attributes, a
     purge is in progress, or a check found an alarm
  5  partly done
  6  the storage is damaged
  7  the storage failed or is full
  8  pipe --once: messages are left that cannot be received yet`

const rootExample = `  tenaq serve                        # run the queue
  eval "$(tenaq env)"                # point the AWS SDKs of this shell at it
  tenaq queue create orders
  tenaq send orders '{"id": 1}'
  tenaq receive orders --wait 20s --delete`

const (
	groupServer   = "server"
	groupQueues   = "queues"
	groupMessages = "messages"
	groupWork     = "work"
)

func newRoot(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:           "tenaq",
		Short:         "A durable message queue that speaks the Amazon SQS protocol",
		Long:          rootHelp,
		Example:       rootExample,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.PersistentFlags().BoolVar(&a.JSON, "json", false, "print JSON instead of text and tables")
	root.SetFlagErrorFunc(cli.FlagError)
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
	unix := newUnixCommands(a)
	add(groupServer, unix.serve, serve.NewConfigCmd(a), doctor.NewHealthCmd(a),
		doctor.NewStatusCmd(a), doctor.NewCmd(a), cluster.NewCmd(a), alarms.NewCmd(a),
		newKeysCmd(a), unix.verify, serve.NewBackupCmd(a), unix.restore, unix.salvage, unix.bench)
	add(groupQueues, queues.NewCmd(a), queues.NewApplyCmd(a), queues.NewMoveCmd(a),
		queues.NewBridgeCmd(a), queues.NewGroupCmd(a), dead.NewCmd(a), dead.NewTaskCmd(a),
		alarms.NewWatchCmd(a))
	add(groupMessages, messages.NewSendCmd(a), messages.NewReceiveCmd(a), messages.NewPeekCmd(a),
		messages.NewShowCmd(a), messages.NewTraceCmd(a), messages.NewHistoryCmd(a),
		dead.NewReplayCmd(a),
		messages.NewDeleteCmd(a), messages.NewVisibilityCmd(a), messages.NewNackCmd(a))
	add(groupWork, unix.pipe, redrive.NewCmd(a), claims.NewCmd(a), claims.NewBatchCmd(a),
		claims.NewRecordsCmd(a), outbox.NewCmd(a))
	add("", unix.demo, newEnvCmd(a), newTokenCmd(a), newManCmd(a),
		cli.NewVersionCmd(a))
	cli.AsGroup(root)
	withVersionFlag(a, root)
	withHelpCommand(root)
	withCompletion(root)
	withCompletionCommand(root)
	return root
}

// withVersionFlag adds --version. Cobra's own flag needs a template, and package text/template
// calls methods by name: the linker would have to keep all exported methods, and the program would
// be a quarter larger.
func withVersionFlag(a *cli.App, root *cobra.Command) {
	show := root.Flags().BoolP("version", "v", false, "print the version of this program")
	otherwise := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if !*show {
			return otherwise(cmd, args)
		}
		_, err := fmt.Fprintln(a.Stdout, "tenaq", cli.BuildVersion().Version)
		return err
	}
}

// withHelpCommand adds cobra's help command. Cobra's own would print the help of the program for an
// unknown command, and report success.
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
				return cli.Usagef("%v; see: tenaq --help", err)
			case len(rest) > 0 && about.HasAvailableSubCommands():
				return cli.Usagef("%s has no command %q%s", about.CommandPath(), rest[0],
					cli.SuggestCommand(about, rest[0]))
			}
			about.InitDefaultHelpFlag() // so that it is shown
			return about.Help()
		}
	}
}
