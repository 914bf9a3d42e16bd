package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
	"tenaq/outbox"
)

// A remote is an outbox in a database that the command cannot reach, known by the reports of its
// relays to a server.
type remote struct {
	cli.ClientFlags
	a      *cli.App
	outbox string
}

const relayLack = "has no reports of relays; use a tenaq server of this version, or --db"

func (r *remote) register(cmd *cobra.Command) {
	r.ClientFlags.Register(cmd)
	cmd.Flags().StringVar(&r.outbox, "relay", "",
		"leave it to the relay of this `outbox`, over the server")
}

// reported are the rows of an outbox as its relays reported them.
type reported struct {
	*remote
	v *cli.V1Client
}

func (r *reported) String() string { return "outbox " + r.outbox }

func (r *reported) parked(
	ctx context.Context, limit int, wanted func(*outbox.ParkedRow) bool,
) (found []outbox.ParkedRow, more bool, err error) {
	var list struct {
		Reported *time.Time
		Rows     []v1.AsideRow
		More     bool
	}
	err = r.v.Get(ctx, "list the rows of", r.String(), outboxPath(r.outbox)+"/parked", nil, &list)
	if err != nil {
		return nil, false, err
	}
	if list.Reported == nil {
		return nil, false, cli.Codedf(cli.ExitNotFound,
			"no relay has reported rows of %s to %s; the page Outbox of the console has the names of outboxes",
			r, r.v.C.Endpoint)
	}
	if list.More {
		r.a.Note("the relay has reported the %d earliest rows; others were set aside later",
			len(list.Rows))
	}
	for _, row := range list.Rows {
		p := outbox.ParkedRow{Row: outbox.Row{Message: outbox.Message{ID: row.ID, Queue: row.Queue,
			Key: row.Key, Type: row.Type}, Attempts: row.Attempts}, Reason: row.Reason,
			At: row.ParkedAt}
		if wanted(&p) {
			if limit > 0 && len(found) == limit {
				return found, true, nil
			}
			found = append(found, p)
		}
	}
	return found, false, nil
}

// carryOut orders it.
func (r *reported) carryOut(
	ctx context.Context, a *cli.App, c *act, found []outbox.ParkedRow,
) error {
	rows := make([]v1.AsideSeen, len(found))
	for i, row := range found {
		rows[i] = v1.AsideSeen{ID: row.ID, ParkedAt: row.At}
	}
	var placed struct{ Until time.Time }
	err := r.v.Post(ctx, c.Verb+" rows of", r.String(), outboxPath(r.outbox)+"/parked/"+c.Verb,
		map[string]any{"rows": rows}, &placed)
	if err != nil {
		return err
	}
	return a.Result(map[string]any{"rows": documents(found), "run": true, "ordered": len(found),
		"until": placed.Until}, "%s", fmt.Sprintf(
		"ordered to %s %s; a relay of %s does it within ten seconds if one runs", c.Verb,
		rowsText(len(found)), r.outbox))
}
