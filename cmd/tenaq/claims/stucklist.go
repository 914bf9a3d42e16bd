package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/records"
)

// stuckStates are the states of work that was begun or given back, and is not done.
var stuckStates = []claims.State{claims.Held, claims.Failed, claims.Released, claims.Parked}

func newClaimsStuckCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	var olderThan string
	var limit int
	var scan bool
	cmd := &cobra.Command{
		Use:   "stuck",
		Short: "List claims on work that is not done and that no worker is doing",
		Long: `List claims on work that is not done and that no worker is doing, the ones that have waited longest first:
held claims whose lease is over, failed and released ones, and parked ones, which wait for a decision. IDLE is
for how long that has been so; claims that have waited for less than --older-than are left out, because their
messages may come back soon. Nothing is changed: "tenaq claims sweep" says what can be done, and does it.

DynamoDB has no clock, so there IDLE goes by the clock of the worker that wrote the claim. If the table has
the index of "tenaq records init --index", only what is stuck is read. Otherwise the command reads the whole
table, and says so. Claims that an earlier version of tenaq wrote are not in the index until their next write;
--scan finds them too.`,
		Example: `  tenaq claims stuck
  tenaq claims stuck --older-than 1h --json | jq -r '.claims[].key'
  tenaq claims stuck --records dynamodb:tenaq-records --scan`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			least, err := cli.ParseDuration(olderThan)
			if err != nil {
				return cli.Usagef("--older-than: %v", err)
			}
			if limit < 1 || limit > records.ListMax {
				return cli.Usagef("--limit: %d is not a number from 1 to %d", limit, records.ListMax)
			}
			l, err := f.Open(cmd.Context())
			if err != nil {
				return err
			}
			defer l.Close()
			found, more, err := findStuck(a, cmd.Context(), l, time.Now(), least, limit, scan)
			if err != nil {
				return err
			}
			if more {
				defer a.Note("there are more; see --limit")
			}
			return printStuckClaims(a, l, found, time.Now())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&olderThan, "older-than", "15m", "leave out claims that have waited for less than this `duration`")
	flags.IntVar(&limit, "limit", records.ListMax, "list at most this `number` of claims")
	flags.BoolVar(&scan, "scan", false, "read all claims, although there is an index")
	return cmd
}

// findStuck returns up to limit stuck claims, the one that has waited longest first, and whether there are more.
func findStuck(a *cli.App, ctx context.Context, l *cli.Ledger, now time.Time, least time.Duration, limit int, scan bool) (found []claims.Entry, more bool, err error) {
	keep := func(e claims.Entry) (stop bool) {
		if slices.Contains(stuckStates, e.State) && e.Idle(now) >= least {
			found = append(found, e)
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
			a.Note("%s has no index of stuck claims that this role can use; reading the whole table. Make one with: tenaq records init --index", l.Store.Place)
		}
		if err := l.Each(ctx, "", keep); err != nil {
			return nil, false, err
		}
	default:
		return nil, false, fmt.Errorf("%w (in %s)", err, l.Store.Place)
	}
	slices.SortStableFunc(found, func(x, y claims.Entry) int { return cmp.Compare(y.Idle(now), x.Idle(now)) })
	if len(found) > limit {
		found, more = found[:limit], true
	}
	return found, more, nil
}

// A stuckClaim is a stuck claim as --json prints it.
type stuckClaim struct {
	claimDocument
	Idle float64 `json:"idleSeconds"`
}

func printStuckClaims(a *cli.App, l *cli.Ledger, found []claims.Entry, now time.Time) error {
	if a.JSON {
		documents := []stuckClaim{}
		for _, e := range found {
			documents = append(documents, stuckClaim{newClaimDocument(&e), e.Idle(now).Seconds()})
		}
		return a.PrintJSON(map[string]any{"claims": documents})
	}
	if len(found) == 0 {
		a.Note("no stuck claims in %s", l.Store.Place)
		return nil
	}
	t := cli.Table{Head: []string{"KEY", "STATE", "IDLE", "ATTEMPTS", "OWNER", "MESSAGE", "REASON"}}
	for _, e := range found {
		state := string(e.State)
		if e.State == claims.Held {
			state += ", lease over"
		}
		t.Add(e.Key, state, cli.AgeText(e.Idle(now)), strconv.Itoa(e.Attempts), cli.OrDash(e.Owner), cli.OrDash(e.Message), e.Reason)
	}
	return a.PrintTable(t)
}
