// Package outbox has the commands of the transactional outbox: its tables, rows, relay and replays.
// They read flags and print; package outbox at the root of the module does the work.
package outbox

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func NewCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Send what programs have written into the outbox of their database",
		Long: `Send the messages that programs write into the outbox of their database, and
manage the outbox.

A program writes a business row and a row about the message into its database,
in one transaction: the database has both or neither. A relay then sends the
message, at least once, even if programs or relays die. A program in any
language writes to the outbox with an INSERT. The columns are those of
Debezium's outbox event router, and a few more:

  INSERT INTO outbox (aggregatetype, aggregateid, type, payload)
  VALUES ('orders', '17', 'order_placed', '{"id": 17}')

If the queue refuses a row, the relay tries it again. After the last attempt the
relay sets the row aside, with the reason, until you release or discard it: see
"tenaq outbox parked". docs/outbox.md has the details.

--db or TENAQ_OUTBOX names the database to which the programs write:

  postgres://USER@HOST/DATABASE    PostgreSQL, in any form that psql accepts
  sqlite:PATH                      an SQLite file, which is set to WAL mode

The table is called outbox. --table, or ?tenaq_table=NAME at the end of the
address, names another one: NAME, or SCHEMA.NAME in PostgreSQL. All commands and
programs need the same name. Other users of a machine can read command lines:
put a password into PGPASSWORD, ~/.pgpass or TENAQ_OUTBOX.`,
		Example: `  tenaq outbox init --db postgres://app@db.example.com/app
  tenaq outbox relay --db postgres://app@db.example.com/app
  TENAQ_OUTBOX=sqlite:app.db tenaq outbox status
  tenaq outbox parked list --db sqlite:app.db`,
	}
	f := &flags{}
	cmd.PersistentFlags().StringVar(&f.address, "db", "",
		"`address` of the database (default $TENAQ_OUTBOX)")
	cmd.PersistentFlags().StringVar(&f.table, "table", "", "`name` of the table (default outbox)")
	cmd.AddCommand(newInitCmd(a, f), newRelayCmd(a, f), newStatusCmd(a, f), newParkedCmd(a, f),
		newEnqueueCmd(a, f), newReplayCmd(a, f))
	cli.AsGroup(cmd)
	return cmd
}

type flags struct {
	address, table string
	flag           string // that has the address, if it is not --db
}

// An openOutbox is an outbox that is there.
type openOutbox struct {
	box
	place place
}

// open opens the outbox. It makes nothing: the database is that of a program, and a relay in
// another one would wait for ever.
func (f *flags) open(ctx context.Context) (*openOutbox, error) {
	place, err := f.place()
	if err != nil {
		return nil, err
	}
	there, err := place.Exists(ctx)
	if err == nil && !there {
		check := "--db, TENAQ_OUTBOX and --table"
		if f.flag != "" {
			check = f.flag + " and TENAQ_OUTBOX"
		}
		err = cli.Codedf(cli.ExitNotFound,
			"there is no outbox in %s; check %s, or create it with: tenaq outbox init", place, check)
	}
	var box box
	if err == nil {
		box, err = place.Open(ctx)
	}
	if err != nil {
		place.Close()
		return nil, err
	}
	return &openOutbox{box, place}, nil
}

func (o *openOutbox) Close() { o.place.Close() }

// name is a short name of the database for operators who know theirs: the end of its address.
func (o *openOutbox) name() string {
	address := o.place.String()
	return strings.ReplaceAll(address[strings.LastIndexByte(address, '/')+1:], " ", "-")
}

func (f *flags) with(
	do func(context.Context, *openOutbox, []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		o, err := f.open(cmd.Context())
		if err != nil {
			return err
		}
		defer o.Close()
		return do(cmd.Context(), o, args)
	}
}

func newInitCmd(a *cli.App, f *flags) *cobra.Command {
	var show, create bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create the tables of an outbox",
		Long: `Create the tables and triggers of an outbox in the database of a program, or
bring older ones up to date. You can repeat the command at any time, even while
programs write and relays run. No other command creates tables.

If a table of that name was created for something else, init does not change it.
It lists what the table lacks and exits with code 4. Then use another --table.

--print prints the SQL and changes nothing. In PostgreSQL the tables belong to
the role that applies it. Other roles need:

  a program   USAGE on the schema, INSERT on the table
  a relay     USAGE on the schema; SELECT and DELETE on the table; SELECT,
              INSERT, UPDATE and DELETE on _pending and _sent; SELECT and UPDATE
              on _turns and _waiting; USAGE on _seq; SELECT on _rows and _meta`,
		Example: `  tenaq outbox init --db sqlite:app.db
  tenaq outbox init --db postgres://app@db.example.com/app --table jobs.outbox
  tenaq outbox init --db postgres:///app --print | psql -1 -v ON_ERROR_STOP=1 app`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := f.place()
			if err != nil {
				return err
			}
			defer place.Close()
			return a.InitPlace(cmd.Context(), place, show, func(ctx context.Context) error {
				return place.Make(ctx, create)
			}, "outbox", "created the outbox in %s", "the outbox in %s is up to date")
		},
	}
	cmd.Flags().BoolVar(&show, "print", false, "print the SQL and change nothing")
	cmd.Flags().BoolVar(&create, "create", false, "create a missing SQLite file")
	return cmd
}

func newStatusCmd(a *cli.App, f *flags) *cobra.Command {
	var bound time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how many rows of an outbox wait",
		Long: `Show how many rows of an outbox wait:

  pending    committed and not sent
  due        pending rows that relays could send now. The others wait for their
             time, their next attempt or an earlier row of their group, or a
             relay is sending them
  set aside  rows that no relay sends until you release them; "parked" in JSON

If rows are due and the oldest keeps getting older, no relay runs or a queue
accepts no messages: the log of the relay says which.

--fail-if-older is for probes and alarms: it exits with 4. If the outbox cannot
be read, the exit code is 1 or 3.`,
		Example: `  tenaq outbox status --db postgres://app@db.example.com/app
  tenaq outbox status --db sqlite:app.db --json | jq .parked
  tenaq outbox status --fail-if-older 5m      # a probe`,
		Args: cli.Wants(0, 0),
		RunE: f.with(func(ctx context.Context, o *openOutbox, _ []string) error {
			s, err := o.Stats(ctx)
			if err != nil {
				return explain(o.place, err)
			}
			d := status{Outbox: o.place.String(), Pending: s.Pending, Due: s.Due, Parked: s.Parked}
			due, aside := strconv.Itoa(s.Due), strconv.Itoa(s.Parked)
			if s.Due > 0 {
				seconds := s.Oldest.Seconds()
				d.Oldest = &seconds
				due += ", the oldest for " + cli.AgeText(s.Oldest)
			}
			if s.Parked > 0 {
				aside += "; see: " + parkedList
			}
			if err := a.PrintCard(d, "", [][2]string{
				{"outbox", d.Outbox}, {"pending", strconv.Itoa(s.Pending)}, {"due", due},
				{"set aside", aside},
			}...); err != nil {
				return err
			}
			if bound > 0 && s.Due > 0 && s.Oldest > bound {
				return cli.Codedf(cli.ExitRefused,
					"a row has been due for %s, which is longer than %v; check that a relay runs, and its log",
					cli.AgeText(s.Oldest), bound)
			}
			return nil
		}),
	}
	cli.SomeTime(cmd.Flags(), &bound, "fail-if-older", "",
		"exit with 4 if a row is due for this `duration`")
	return cmd
}

type status struct {
	Outbox  string   `json:"outbox"`
	Pending int      `json:"pending"`
	Due     int      `json:"due"`
	Oldest  *float64 `json:"oldestSeconds"` // null if nothing is due
	Parked  int      `json:"parked"`
}

func rowsText(n int) string { return cli.Counted(n, "row", "rows") }
