package outbox

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func newOutboxInitCmd(a *cli.App, f *flags) *cobra.Command {
	var show, create bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the tables of an outbox",
		Long: `Make the tables and triggers of an outbox in the database of a program, where they are missing, and bring
those of an older version up to date. What is there already stays as it is, so this may be done as often as
you like, also while programs write and relays run. No other command makes tables.

A table of that name that was made for something else is not changed: init says what it lacks to be an
outbox, with exit code 4. --table NAME makes the outbox under another name.

With --print it prints the SQL and touches nothing, for databases that are changed by others. In PostgreSQL
the tables belong to whoever applies it. A program that writes needs USAGE on their schema and INSERT on the
table, nothing else. A relay needs USAGE on the schema, SELECT and DELETE on the table, SELECT, INSERT, UPDATE
and DELETE on those that end in _pending and _sent, SELECT and UPDATE on _turns and _waiting, USAGE on _seq,
and SELECT on _rows and _meta.

` + outboxHelp,
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
			if show {
				return printOutboxSchema(a, place)
			}
			return initOutbox(a, cmd.Context(), place, create)
		},
	}
	cmd.Flags().BoolVar(&show, "print", false, "print what would be applied, and apply nothing")
	cmd.Flags().BoolVar(&create, "create", false, "make the file of SQLite, too, if it is missing")
	return cmd
}

func printOutboxSchema(a *cli.App, place place) error {
	if a.JSON {
		return a.PrintJSON(map[string]string{"outbox": place.String(), "schema": place.Schema()})
	}
	_, err := io.WriteString(a.Stdout, place.Schema())
	return err
}

func initOutbox(a *cli.App, ctx context.Context, place place, create bool) error {
	there, err := place.Exists(ctx)
	if err == nil {
		err = place.Make(ctx, create)
	}
	if err != nil {
		return err
	}
	text := "made an outbox in %s"
	if there {
		text = "the outbox in %s is ready, as it was or brought up to date"
	}
	return a.Result(map[string]any{"outbox": place.String(), "made": !there}, text, place)
}
