package claims

import (
	"fmt"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func NewRecordsCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "records",
		Short: "Set up and clean the store of claims and other records",
		Long: `Set up and clean the store of claims and other records, which workers, producers
and redrivers share.

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
		Short: "Create the file or the tables for records",
		Long: `Create the file or the tables for records, or bring older ones up to date. You
can repeat the command at any time. Commands that write records create a missing
SQLite file and missing PostgreSQL tables by themselves.

--print prints SQL, or a CloudFormation template for DynamoDB, and changes
nothing. In PostgreSQL the tables belong to the role that applies it. Other
roles need USAGE on the schema; SELECT, INSERT, UPDATE and DELETE on the table;
SELECT and UPDATE on _meta. In DynamoDB the table is billed per request and
removes expired records itself; a role needs GetItem, PutItem and Scan.

--index adds an index of waiting claims to a new or existing DynamoDB table, so
that "tenaq claims stuck" does not read the whole table. It makes writes of
claims about twice as expensive. A role that reads it needs Query.`,
		Example: `  tenaq records init
  tenaq records init --records dynamodb:tenaq-records --index
  tenaq records init --records 'postgres://app@db.example.com/app?tenaq_table=jobs.records'
  tenaq records init --records postgres:///app --print | psql -1 -v ON_ERROR_STOP=1 app`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := f.Place(cmd.Context())
			if err != nil {
				return err
			}
			defer place.Close()
			if dynamo, ok := place.(*cli.DynamoPlace); ok {
				dynamo.Index = index
			} else if index {
				return cli.Usagef("--index is for DynamoDB; %s finds claims without one", place)
			}
			return a.InitPlace(cmd.Context(), place, show, place.Make, "records",
				"made %s for records", "the records in %s are up to date")
		},
	}
	cmd.Flags().BoolVar(&show, "print", false, "print what would be applied, and change nothing")
	cmd.Flags().BoolVar(&index, "index", false, "in DynamoDB, add the index of waiting claims")
	return cmd
}

// sweepBatch is how many records are removed in one write, for which others wait.
const sweepBatch = 1000

func newRecordsSweepCmd(a *cli.App, f *cli.RecordsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "sweep",
		Short: "Free the space of expired records",
		Long: `Free the space of expired and deleted records. They are already invisible, so
this only saves space: once a day is enough. SQLite and PostgreSQL use the space
for other records. DynamoDB removes expired records itself.`,
		Example: `  tenaq records sweep
  tenaq records sweep --records postgres://app@db.example.com/app --json`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := f.OpenExisting(cmd.Context())
			if err != nil {
				return err
			}
			defer store.Close()
			for removed := 0; ; {
				n, err := store.Sweep(cmd.Context(), sweepBatch)
				removed += n
				switch {
				case err != nil && removed > 0:
					return cli.Codedf(cli.ExitPartly,
						"%w; %s were removed before; run the command again", err,
						cli.Counted(removed, "record", "records"))
				case err != nil:
					return fmt.Errorf("%w; nothing was removed", err)
				case n < sweepBatch:
					return a.Result(map[string]any{"records": store.Place.String(),
						"removed": removed}, "removed %s from %s",
						cli.Counted(removed, "record", "records"), store.Place)
				}
			}
		},
	}
}
