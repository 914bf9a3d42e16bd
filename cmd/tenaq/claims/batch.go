package claims

import (
	"context"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/producer"
)

// NewBatchCmd returns the commands about registered work.
func NewBatchCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "batch",
		Short: "Count what became of registered work",
		Long: `Count what became of the work that producers registered, for example for one
month of accounts.

` + cli.RecordsHelp,
		Example: `  tenaq batch status downloads.fifo accounts-2026-02-
  tenaq batch status downloads.fifo --list`,
	}
	f, client := &cli.ClaimsFlags{}, &cli.ClientFlags{}
	client.Register(cmd)
	f.Register(cmd)
	f.Connect = client.Connect
	cmd.AddCommand(newBatchStatusCmd(a, f))
	cli.AsGroup(cmd)
	return cmd
}

func newBatchStatusCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	var list bool
	cmd := &cobra.Command{
		Use:   "status QUEUE [PREFIX]",
		Short: "Count how much of the work registered for a queue is done",
		Long: `Count how much of the work that producers registered for a queue is done: all of
it, or the keys that begin with PREFIX. Work is in one of these states:

  completed  a worker did it
  failed     its attempts are used up, or it awaits a decision: see
             "tenaq claims list"
  unsent     registered, and its message was not sent yet
  waiting    sent, and no worker has begun it
  running    a worker has it, or had it when its lease expired
  retrying   it did not succeed and is tried again

The last four are outstanding. The exit code is 0 if all work is completed, 5 if
some failed or is outstanding, and 3 if nothing is registered. Entries expire:
counts are complete for the retention of the producer, by default 15 days.`,
		Example: `  tenaq batch status downloads.fifo
  tenaq batch status downloads.fifo accounts-2026-02- --list
  tenaq batch status downloads.fifo accounts-2026-02- --json | jq .outstanding`,
		Args: cli.Wants(1, 2),
		RunE: with(f, func(ctx context.Context, l *cli.Ledger, args []string) error {
			queue, prefix := cli.QueueNameOf(args[0]), strings.Join(args[1:], "")
			b, err := countBatch(ctx, l, queue, prefix, list)
			switch {
			case err != nil:
				return explain(l, err)
			case b.Expected == 0 && prefix != "":
				return cli.Codedf(cli.ExitNotFound, "no registered work of the queue %s begins "+
					"with %s in %s; see: tenaq claims list --ledger %s%s/", queue, prefix,
					l.Store.Place, producer.Prefix, queue)
			case b.Expected == 0:
				return cli.Codedf(cli.ExitNotFound, "nothing is registered for the queue %s in "+
					"%s; see: tenaq claims list --ledger %s", queue, l.Store.Place, producer.Prefix)
			}
			return b.print(a)
		}),
	}
	cmd.Flags().BoolVar(&list, "list", false, "also list failed and outstanding work")
	return cmd
}

// A batch is registered work and what became of it, as --json prints it.
type batch struct {
	Queue       string       `json:"queue"`
	Prefix      string       `json:"prefix,omitempty"`
	Expected    int          `json:"expected"`
	Completed   int          `json:"completed"`
	Failed      int          `json:"failed"`
	Outstanding int          `json:"outstanding"`
	Unsent      int          `json:"unsent"`
	Waiting     int          `json:"waiting"`
	Running     int          `json:"running"`
	Retrying    int          `json:"retrying"`
	Unfinished  []unfinished `json:"unfinished,omitempty"` // when it was asked for

	list bool
}

// An unfinished is a piece of work that is failed or outstanding.
type unfinished struct {
	Key    string `json:"key"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// countBatch reads the registrations of a queue beside the ledger of the work. Both are in the
// order of their keys, so neither has to be kept in memory.
func countBatch(
	ctx context.Context, work *cli.Ledger, queue, prefix string, list bool,
) (b *batch, err error) {
	registrations, err := claims.New(claims.Config{Store: work.Store,
		Prefix: producer.Prefix + queue + "/"})
	if err != nil {
		return nil, err
	}
	b = &batch{Queue: queue, Prefix: prefix, list: list}
	var failed error // of the ledger of the work
	next, stop := iter.Pull(func(yield func(claims.Entry) bool) {
		failed = work.Each(ctx, prefix, func(e claims.Entry) bool { return !yield(e) })
	})
	defer stop()
	entry, more := next()
	registered := &cli.Ledger{Ledger: registrations, Store: work.Store}
	err = registered.Each(ctx, prefix, func(r claims.Entry) bool {
		for more && entry.Key < r.Key {
			entry, more = next()
		}
		begun := more && entry.Key == r.Key
		if failed == nil {
			b.add(&r, &entry, begun)
		}
		return failed != nil
	})
	b.Outstanding = b.Expected - b.Completed - b.Failed
	if err == nil {
		err = failed
	}
	return b, err
}

// add counts a registration. The entry of its work is there if that was begun.
func (b *batch) add(registered, work *claims.Entry, begun bool) {
	b.Expected++
	state, reason, count := "", work.Reason, &b.Failed
	switch {
	case !begun && registered.State == claims.Completed:
		state, reason, count = "waiting", "", &b.Waiting
	case !begun:
		state, reason, count = "unsent", registered.Reason, &b.Unsent
	case work.State == claims.Completed:
		b.Completed++
		return
	case work.State == claims.Held:
		state, count = "running", &b.Running
	case work.State == claims.Failed || work.State == claims.Released:
		state, count = "retrying", &b.Retrying
	default:
		state = string(work.State)
	}
	*count++
	if b.list {
		b.Unfinished = append(b.Unfinished, unfinished{registered.Key, state, reason})
	}
}

func (b *batch) print(a *cli.App) error {
	if a.JSON {
		if err := a.PrintJSON(b); err != nil {
			return err
		}
	} else {
		t := cli.Table{Head: []string{"EXPECTED", "COMPLETED", "FAILED", "OUTSTANDING", "UNSENT",
			"WAITING", "RUNNING", "RETRYING"}}
		var row []string
		for _, n := range []int{b.Expected, b.Completed, b.Failed, b.Outstanding, b.Unsent,
			b.Waiting, b.Running, b.Retrying} {
			row = append(row, strconv.Itoa(n))
		}
		t.Add(row...)
		if err := a.PrintTable(t); err != nil {
			return err
		}
		if err := b.printUnfinished(a); err != nil {
			return err
		}
	}
	if b.Completed < b.Expected {
		return cli.Codedf(cli.ExitPartly, "%d of %d not completed%s", b.Expected-b.Completed,
			b.Expected, cli.OrEmpty(!b.list, "; --list shows them"))
	}
	return nil
}

func (b *batch) printUnfinished(a *cli.App) error {
	if len(b.Unfinished) == 0 {
		return nil
	}
	t := cli.Table{Head: []string{"KEY", "STATE", "REASON"}}
	for _, u := range b.Unfinished {
		t.Add(u.Key, u.State, cli.OrDash(u.Reason))
	}
	return a.PrintTable(t)
}
