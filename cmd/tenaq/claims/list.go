package claims

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/records"
)

var states = []string{
	string(claims.Held), string(claims.Completed), string(claims.Failed), string(claims.Exhausted),
	string(claims.Released), string(claims.Parked), string(claims.Unreadable),
}

func newListCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	var wanted []string
	var least time.Duration
	var limit int
	cmd := &cobra.Command{
		Use:     "list [PREFIX]",
		Aliases: []string{"ls"},
		Short:   "List the entries of a ledger",
		Long: `List the entries of a ledger in the order of their keys: all of them, or those
whose keys begin with PREFIX. If there are none the exit code is 0.

AGE is the time since the last write of the entry. A holder writes it several
times per lease, so if the age exceeds the lease, no worker has it: the state
says "lease expired". DynamoDB has no clock: ages are unknown there,
--older-than is rejected, and a listing reads the whole table.

"tenaq claims show" also shows results and memos.`,
		Example: `  tenaq claims list
  tenaq claims list order- --state held --state failed --older-than 30m
  tenaq claims list --ledger send/orders/
  tenaq claims list --state parked --limit 0 --json | jq -r '.claims[].key'`,
		Args: cli.Wants(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, s := range wanted {
				if err := checkState(s); err != nil {
					return err
				}
			}
			return with(f, func(ctx context.Context, l *cli.Ledger, args []string) error {
				prefix := strings.Join(args, "") // there is one at most
				var found []document
				more, unknown := false, false
				err := l.Each(ctx, prefix, func(e claims.Entry) (stop bool) {
					if unknown = e.Age == records.AgeUnknown && least > 0; unknown {
						return true
					}
					if len(wanted) > 0 && !slices.Contains(wanted, string(e.State)) ||
						least > 0 && e.Age < least {
						return false
					}
					if more = limit > 0 && len(found) == limit; !more {
						found = append(found, newDocument(&e))
					}
					return more
				})
				switch {
				case err != nil:
					return err
				case unknown:
					return cli.Usagef("--older-than: %s has no clock, so ages are unknown; see: tenaq claims sweep --help", l.Store.Place)
				}
				filtered := prefix != "" || len(wanted) > 0 ||
					cmd.Flag("older-than").Value.String() != ""
				return printClaims(a, l, found, more,
					"no claims"+cli.OrEmpty(filtered, " that match"), "AGE",
					func(d *document) time.Duration { return d.age })
			})(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&wanted, "state", nil,
		"list only entries in this `state`; may be repeated")
	cli.Duration(flags, &least, "older-than", "",
		"list only entries of at least this `age`")
	cli.Number(flags, &limit, "limit", 1000, 0, 0, "list at most this `number`; 0 for all")
	return cmd
}

func checkState(s string) error {
	if slices.Contains(states, s) {
		return nil
	}
	return cli.Usagef("--state: there is no state %q%s", s,
		cmp.Or(cli.DidYouMean(s, states), "; there are: "+strings.Join(states, ", ")))
}

// printClaims prints entries with one of their times. none is the note for an empty list.
func printClaims(
	a *cli.App, l *cli.Ledger, found []document, more bool, none, column string,
	of func(*document) time.Duration,
) error {
	if more {
		defer a.Note("there are more; see --limit")
	}
	return cli.PrintList(a, "claims", found, none+" in "+l.Store.Place.String(),
		[]string{"KEY", "STATE", column, "ATTEMPTS", "OWNER", "MESSAGE", "REASON"},
		func(d *document) []string {
			return []string{d.Key, d.state(), cli.AgeText(of(d)), strconv.Itoa(d.Attempts),
				cli.OrDash(d.Owner), cli.OrDash(d.Message), d.Reason}
		})
}

func newStuckCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	var least time.Duration
	var limit int
	var scan bool
	cmd := &cobra.Command{
		Use:   "stuck",
		Short: "List claims on unfinished work that no worker is doing",
		Long: `List claims on unfinished work that no worker is doing, the longest idle first:
held claims whose lease has expired, failed and released ones, and parked ones,
which await a decision. IDLE is the time since then. Nothing is changed: "tenaq
claims sweep" says what can be done, and does it with --run.

DynamoDB has no clock, so there IDLE goes by the clock of the worker that wrote
the claim. If the table has the index of "tenaq records init --index", only
stuck claims are read; otherwise the whole table is. Claims that an earlier
version of tenaq wrote enter the index with their next write; --scan finds them,
too.`,
		Example: `  tenaq claims stuck
  tenaq claims stuck --older-than 1h --json | jq -r '.claims[].key'
  tenaq claims stuck --records dynamodb:tenaq-records --scan`,
		Args: cli.Wants(0, 0),
		RunE: with(f, func(ctx context.Context, l *cli.Ledger, _ []string) error {
			found, more, err := findStuck(ctx, a, l, time.Now(), least, limit, scan)
			if err != nil {
				return err
			}
			return printClaims(a, l, found, more, "no stuck claims", "IDLE",
				func(d *document) time.Duration { return d.idle })
		}),
	}
	flags := cmd.Flags()
	cli.Duration(flags, &least, "older-than", "15m", "idle for at least this `duration`")
	cli.Number(flags, &limit, "limit", records.ListMax, 1, records.ListMax,
		"list at most this `number` of claims")
	flags.BoolVar(&scan, "scan", false, "read all claims, even if there is an index")
	return cmd
}

// findStuck returns up to limit stuck claims, the longest idle first, and whether there are more.
func findStuck(
	ctx context.Context, a *cli.App, l *cli.Ledger, now time.Time, least time.Duration, limit int,
	scan bool,
) (found []document, more bool, err error) {
	keep := func(e claims.Entry) (stop bool) {
		switch e.State {
		case claims.Held, claims.Failed, claims.Released, claims.Parked:
			if idle := e.Idle(now); idle >= least {
				d, seconds, over := newDocument(&e), idle.Seconds(), true
				if d.Idle, d.idle = &seconds, idle; e.State == claims.Held {
					d.LeaseOver = &over // else it would not be idle
				}
				found = append(found, d)
			}
		}
		return false
	}
	due, err := []claims.Entry(nil), records.ErrNoIndex
	if !scan {
		due, err = l.Due(ctx, now.Add(-least), limit)
	}
	switch {
	case err == nil:
		for _, e := range due {
			keep(e)
		}
		more = len(due) == limit
	case errors.Is(err, records.ErrNoIndex):
		if _, dynamo := l.Store.Place.(*cli.DynamoPlace); dynamo && !scan {
			a.Note("%s has no index of stuck claims that this role can use; reading the whole table. Create one with: tenaq records init --index", l.Store.Place)
		}
		if err := l.Each(ctx, "", keep); err != nil {
			return nil, false, err
		}
	default:
		return nil, false, explain(l, err)
	}
	slices.SortStableFunc(found, func(x, y document) int { return cmp.Compare(y.idle, x.idle) })
	if len(found) > limit {
		found, more = found[:limit], true
	}
	return found, more, nil
}
