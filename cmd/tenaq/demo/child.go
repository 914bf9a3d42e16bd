package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

// newDemoChildCmd makes the command that the demo starts its other processes with, from its own binary.
func newDemoChildCmd(a *cli.App) *cobra.Command {
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
			return cli.Usagef("there is no scenario %q that starts processes", append(args, "")[0])
		},
	}
}

// Whose SQS a child is to use.
const (
	childOurs  = "ours"
	childOther = "other"
)

// childCommand is the command of another process of a scenario, which finds the same SQS with childClient.
func (s *demoSQS) childCommand(scenario string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	whose := childOther
	if s.server != nil {
		whose = childOurs
	}
	return exec.Command(program, "demo", "child", scenario, whose, s.endpoint, s.aws.Region), nil
}

// childClient is the client that the arguments of a child speak of.
func childClient(ctx context.Context, args []string) (*sqs.Client, error) {
	if len(args) != 3 {
		return nil, cli.Usagef("a child is told whose SQS it is to use, its address and its region")
	}
	if args[0] == childOurs {
		return newDemoClient(openConfig(), args[1]), nil
	}
	cfg, err := cli.AWSConfig(ctx, cli.Endpoint{URL: args[1]}, args[2])
	if err != nil {
		return nil, err
	}
	return newDemoClient(cfg, args[1]), nil
}
