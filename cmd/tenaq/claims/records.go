package claims

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func NewRecordsCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "records",
		Short: "Prepare and tidy the place where claims and other records are kept",
		Long: `Prepare and tidy the place where claims and other records are kept: what workers and producers have to
know of each other.

` + cli.RecordsHelp,
		Example: `  tenaq records init --records postgres://app@db.example.com/app
  tenaq records sweep --records postgres://app@db.example.com/app
  TENAQ_RECORDS=dynamodb:tenaq-records tenaq records init --print`,
	}
	f := &cli.RecordsFlags{}
	f.Register(cmd)
	cmd.AddCommand(newRecordsInitCmd(a, f), newRecordsSweepCmd(a, f))
	cli.AsGroup(cmd)
	return cmd
}

func newRecordsInitCmd(a *cli.App, f *cli.RecordsFlags) *cobra.Command {
	var show, index bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the file or the tables for records",
		Long: `Make the file or the tables for records, where they are missing, and bring those of an older version up to
date. What is there already stays as it is, so this may be done as often as you like.

With --print it prints what it would apply and touches nothing: SQL for SQLite and PostgreSQL, a template
of CloudFormation for DynamoDB. That is for databases that are changed by others. In PostgreSQL the tables
belong to whoever applies it. Another role needs USAGE on their schema, SELECT, INSERT, UPDATE and DELETE
on the table, and SELECT and UPDATE on the one that ends in _meta. In DynamoDB the table
is billed per request and removes what has expired by itself; a role needs GetItem, PutItem and Scan on it.

With --index a DynamoDB table gets an index of claims that wait: "tenaq claims stuck" then finds them without
reading the whole table. A table that exists can get it at any time. Claims that an earlier version of tenaq
wrote are in it from their next write on. The index makes writes of claims about twice as expensive; a role
that reads it needs Query on it.

Commands that work make a missing SQLite file and missing tables of PostgreSQL by themselves.

` + cli.RecordsHelp,
		Example: `  tenaq records init
  tenaq records init --records dynamodb:tenaq-records --index
  tenaq records init --records 'postgres://app@db.example.com/app?tenaq_table=jobs.records'
  tenaq records init --records postgres:///app --print | psql -1 -v ON_ERROR_STOP=1 app`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := f.Place()
			if err != nil {
				return err
			}
			defer place.Close()
			if dynamo, ok := place.(*cli.DynamoPlace); ok {
				dynamo.Index = index
			} else if index {
				return cli.Usagef("--index is for DynamoDB; %s finds claims without one", place)
			}
			if show {
				return printSchema(a, place)
			}
			return initRecords(a, cmd.Context(), place)
		},
	}
	cmd.Flags().BoolVar(&show, "print", false, "print what would be applied, and apply nothing")
	cmd.Flags().BoolVar(&index, "index", false, "in DynamoDB, add the index by which stuck claims are found")
	return cmd
}

func printSchema(a *cli.App, place cli.RecordsPlace) error {
	if a.JSON {
		return a.PrintJSON(map[string]string{"records": place.String(), "schema": place.Schema()})
	}
	_, err := io.WriteString(a.Stdout, place.Schema())
	return err
}

func initRecords(a *cli.App, ctx context.Context, place cli.RecordsPlace) error {
	there, err := place.Exists(ctx)
	if err == nil {
		err = place.Make(ctx)
	}
	if err != nil {
		return err
	}
	text := "made %s for records"
	if there {
		text = "%s is ready for records, as it was or brought up to date"
	}
	return a.Result(map[string]any{"records": place.String(), "made": !there}, text, place)
}

// sweepBatch is how many records are removed in one write, for which others wait.
const sweepBatch = 1000

func newRecordsSweepCmd(a *cli.App, f *cli.RecordsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "sweep",
		Short: "Give back the room of records that have expired",
		Long: `Give back the room of records that have expired, and of deleted ones.

Nobody sees an expired record, so when this is done matters for nothing but room: once a day is fine. SQLite
and PostgreSQL use the room again for other records. DynamoDB removes what has expired by itself.

` + cli.RecordsHelp,
		Example: `  tenaq records sweep
  tenaq records sweep --records postgres://app@db.example.com/app --json`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := f.OpenExisting(cmd.Context())
			if err != nil {
				return err
			}
			defer store.Close()
			removed := 0
			for {
				n, err := store.Sweep(cmd.Context(), sweepBatch)
				removed += n
				switch {
				case err != nil && removed > 0:
					return cli.Codedf(cli.ExitPartly, "%w; %d were removed before, and the rest is for another time", err, removed)
				case err != nil:
					return fmt.Errorf("%w; nothing was removed", err)
				case n < sweepBatch:
					return a.Result(map[string]any{"records": store.Place.String(), "removed": removed}, "removed %s from %s", cli.Counted(removed, "record", "records"), store.Place)
				}
			}
		},
	}
}
