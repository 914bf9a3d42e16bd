package claims

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/records"
)

// claimStates are all states, in the order of the help.
var claimStates = []claims.State{
	claims.Held, claims.Completed, claims.Failed, claims.Exhausted, claims.Released, claims.Parked, claims.Unreadable,
}

func newClaimsListCmd(a *cli.App, f *cli.ClaimsFlags) *cobra.Command {
	var states []string
	var olderThan string
	var limit int
	cmd := &cobra.Command{
		Use:     "list [PREFIX]",
		Aliases: []string{"ls"},
		Short:   "List the entries of a ledger",
		Long: `List the entries of a ledger in the order of their keys: all of them, or those whose keys begin with
PREFIX. None is not an error.

AGE is how long ago the entry was written last. A holder writes it several times per lease, so an age that
grows beyond the lease means that nobody works on it any more: the state says "lease over". DynamoDB has no
clock, so there ages are not known and --older-than is refused; a listing reads the whole table.

Results and memos are left out; "tenaq claims show" has them.`,
		Example: `  tenaq claims list
  tenaq claims list order- --state held --state failed --older-than 30m
  tenaq claims list --ledger send/orders/
  tenaq claims list --state parked --limit 0 --json | jq -r '.claims[].key'`,
		Args: cli.Wants(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := newClaimFilter(states, olderThan)
			if err != nil {
				return err
			}
			if limit < 0 {
				return cli.Usagef("--limit: %d is negative; 0 is for no limit", limit)
			}
			l, err := f.Open(cmd.Context())
			if err != nil {
				return err
			}
			defer l.Close()
			prefix := strings.Join(args, "") // there is one at most
			found, more, unknown := []claims.Entry{}, false, false
			err = l.Each(cmd.Context(), prefix, func(e claims.Entry) (stop bool) {
				unknown = e.Age == records.AgeUnknown && filter.olderThan > 0
				switch {
				case unknown:
					return true
				case !filter.matches(&e):
					return false
				case limit > 0 && len(found) == limit:
					more = true
					return true
				}
				found = append(found, e)
				return false
			})
			switch {
			case err != nil:
				return err
			case unknown:
				return cli.Usagef("--older-than: %s has no clock, so ages are not known; see: tenaq claims sweep --help", l.Store.Place)
			case more:
				defer a.Note("there are more; see --limit")
			}
			if len(found) == 0 && !a.JSON {
				match := " that match"
				if prefix == "" && filter.isEmpty() {
					match = ""
				}
				a.Note("no claims%s in %s", match, l.Store.Place)
				return nil
			}
			return printClaims(a, found)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&states, "state", nil, "list only entries in this `state`; may be repeated")
	flags.StringVar(&olderThan, "older-than", "", "list only entries that were written last longer ago than this `duration`, such as 30m")
	flags.IntVar(&limit, "limit", 1000, "list at most this `number` of entries; 0 for all")
	return cmd
}

// A claimFilter says which entries are wanted.
type claimFilter struct {
	states    []claims.State // all when empty
	olderThan time.Duration
}

func newClaimFilter(states []string, olderThan string) (f claimFilter, err error) {
	for _, s := range states {
		if !slices.Contains(claimStates, claims.State(s)) {
			var names []string
			for _, state := range claimStates {
				names = append(names, string(state))
			}
			if near := cli.Nearest(s, names); near != "" {
				return f, cli.Usagef("--state: there is no state %q; did you mean %s?", s, near)
			}
			return f, cli.Usagef("--state: there is no state %q; there are: %s", s, strings.Join(names, ", "))
		}
		f.states = append(f.states, claims.State(s))
	}
	if olderThan != "" {
		if f.olderThan, err = cli.ParseDuration(olderThan); err != nil {
			return f, cli.Usagef("--older-than: %v", err)
		}
	}
	return f, nil
}

func (f *claimFilter) isEmpty() bool { return len(f.states) == 0 && f.olderThan == 0 }

func (f *claimFilter) matches(e *claims.Entry) bool {
	return (len(f.states) == 0 || slices.Contains(f.states, e.State)) && (f.olderThan == 0 || e.Age >= f.olderThan)
}

func printClaims(a *cli.App, entries []claims.Entry) error {
	if a.JSON {
		documents := []claimDocument{}
		for _, e := range entries {
			documents = append(documents, newClaimDocument(&e))
		}
		return a.PrintJSON(map[string]any{"claims": documents})
	}
	t := cli.Table{Head: []string{"KEY", "STATE", "AGE", "ATTEMPTS", "OWNER", "MESSAGE", "REASON"}}
	for _, e := range entries {
		t.Add(e.Key, stateText(&e), cli.AgeText(e.Age), strconv.Itoa(e.Attempts), cli.OrDash(e.Owner), cli.OrDash(e.Message), e.Reason)
	}
	return a.PrintTable(t)
}
