package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/cluster"
	"tenaq/internal/ops/doctor"
)

const lack = `is not a node of a cluster: start nodes with --cluster-listen, or three on this machine with "tenaq cluster local"`

// explained replaces the answer of a server that has no cluster.
func explained(v *cli.V1Client, err error) error {
	refusal, ok := errors.AsType[smithy.APIError](err)
	if ok && cli.ErrorKind(refusal) == "NotFound" {
		return v.Missing()
	}
	return err
}

func newStatusCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes of a cluster",
		Long: `Show the nodes of a cluster as one of them sees it. Any node answers, even
without a leader.

  ROLE    leader; follower; learner: it catches up and has no vote yet;
          unreachable; stopped: its rows did not match
  COMMIT  last commit in its rows, and the beginning of its hash: nodes with
          equal ones have equal rows
  LAG     entries behind the leader
  CLOCK   seconds by which its clock is ahead of that of the node that answers
  FREE    free disk space

Below the table, a line for each problem says what to do. The exit code is 1 if
there is one: a node is lost or far behind, the loss of another node would stop
the cluster, or there is no leader. A cluster of one or two voters survives no
loss.`,
		Example: `  tenaq cluster status
  tenaq cluster status --endpoint-url https://queue.example.com
  tenaq cluster status > /dev/null || page-me
  tenaq cluster status --json | jq -r '.members[] | select(.lag > 1000).address'`,
		Args: cli.Wants(0, 0),
		RunE: f.RunV1(lack, func(ctx context.Context, v *cli.V1Client, _ []string) error {
			status, err := doctor.GetCluster(ctx, v)
			if err != nil {
				return explained(v, err)
			}
			return printStatus(a, &status)
		}),
	}
	f.Register(cmd)
	return cmd
}

// Nodes lists the addresses of the members of a cluster, and those of the nodes that wait.
func Nodes(ctx context.Context, f *cli.ClientFlags) (members, waiting []string, err error) {
	v, err := f.ConnectV1(ctx, lack)
	if err != nil {
		return nil, nil, err
	}
	status, err := doctor.GetCluster(ctx, v)
	for _, m := range status.Members {
		members = append(members, m.Address)
	}
	for _, w := range status.Waiting {
		waiting = append(waiting, w.Address)
	}
	return members, waiting, err
}

func printStatus(a *cli.App, s *cluster.Status) error {
	problems := 0
	findings := doctor.CheckCluster(s, 0)
	for _, f := range findings {
		if f.State == doctor.Problem {
			problems++
		}
	}
	var verdict error
	if problems > 0 {
		verdict = cli.Codedf(cli.ExitFailed, "%s", cli.Counted(problems, "problem", "problems"))
	}
	if a.JSON {
		return cmp.Or(a.PrintJSON(s), verdict)
	}
	if err := a.PrintTable(statusTable(s)); err != nil {
		return err
	}
	for _, f := range findings {
		if f.State == doctor.OK {
			continue
		}
		a.Note("\n%s: %s", f.Subject, f.Says)
		if f.Do != "" {
			a.Note("  -> %s", f.Do)
		}
	}
	return verdict
}

func statusTable(s *cluster.Status) cli.Table {
	t := cli.Table{Head: []string{"NODE", "ADDRESS", "ROLE", "COMMIT", "LAG", "CLOCK", "FREE",
		"VERSION"}}
	members := slices.SortedFunc(slices.Values(s.Members), func(x, y cluster.Member) int {
		return cmp.Compare(x.Address, y.Address)
	})
	for _, m := range members {
		row := []string{cluster.Short(m.ID), m.Address, string(m.Role)}
		if m.Role != cluster.Unreachable {
			row = append(row, fmt.Sprintf("%d %.4s", m.Commit, m.Hash),
				strconv.FormatUint(m.Lag, 10), clockText(m.Clock), cli.HumanSize(m.FreeBytes),
				m.Version)
		}
		t.Add(row...)
	}
	for _, w := range s.Waiting {
		t.Add(cluster.Short(w.ID), w.Address, "waiting", "", "", "", "", w.Version)
	}
	return t
}

// clockText is a difference of clocks to the millisecond.
func clockText(seconds float64) string {
	ms := math.Round(seconds * 1000)
	if ms == 0 {
		return "0"
	}
	return fmt.Sprintf("%+.3f", ms/1000)
}
