package serve

import (
	"context"
	"errors"
	"io/fs"
	"strconv"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/server"
	"tenaq/internal/settings"
)

func NewSalvageCmd(a *cli.App) *cobra.Command {
	var f settings.SettingFlags
	var to string
	cmd := &cobra.Command{
		Use:   "salvage --to DIRECTORY",
		Short: "Copy what is intact of a damaged store into a new one",
		Long: `Copy what is intact of a damaged store into a new data directory. Use it if the
server refuses a store as damaged and there is no recent backup. The damaged
directory is only read. The new directory must be empty or missing.

The command reads every block of every file separately, and skips blocks that
do not match their checksums. It computes indexes and counters from the
messages. The result passes "tenaq verify", and a server starts on it.

The output lists the damaged files and, for each queue, how many messages were
kept and lost. A message without its body counts as lost. The number lost is a
lower bound. A queue whose name is lost gets the name salvaged-N.

If something is lost, the new store may differ from the old one:
  - Messages that were deleted or moved shortly before may be back. Consumers
    must recognize completed work.
  - Messages may have lost their receive count, delay or visibility timeout.
  - Deduplication ids may be lost, so a repeated send is accepted.
  - Groups of FIFO queues may lack messages.
Earlier receipt handles are not valid. Running move tasks are cancelled.

The exit code is 0 if nothing was lost, 5 if something was, and 4 if a server
has the source open or the new directory is not empty.`,
		Example: `  tenaq salvage --data-dir /var/lib/tenaq --to /var/lib/tenaq-new
  tenaq salvage --to /mnt/new --json | jq .queues
  tenaq salvage --to new && tenaq serve --data-dir new`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return cli.Usagef("name the new data directory with --to DIRECTORY")
			}
			dir, err := f.DataDir()
			if err != nil {
				return err
			}
			return salvage(a, cmd.Context(), dir, to)
		},
	}
	f.RegisterSome(cmd.Flags(), "data-dir")
	cmd.Flags().Lookup("data-dir").Usage = "salvage this `directory` (default as for serve)"
	cmd.Flags().StringVar(&to, "to", "", "create the new store in this `directory`")
	return cmd
}

// A salvageResult is what salvage prints with --json.
type salvageResult struct {
	Source string `json:"source"`
	Dir    string `json:"dataDir"`
	server.Salvaged
}

func salvage(a *cli.App, ctx context.Context, source, dir string) error {
	line := cli.NewProgress(a.Stderr)
	line.Begin("salvage")
	defer line.Done()
	out, err := server.Salvage(ctx, source, dir, func(rows int64) {
		line.Line("%s", cli.Counted(rows, "row", "rows"))
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) && cli.ExitCode(err) == cli.ExitFailed:
		return cli.Codedf(cli.ExitNotFound,
			"there is no store in %s: name the directory of the server with --data-dir", source)
	case err != nil:
		return err
	}
	line.Done()
	if err := printSalvaged(a, &salvageResult{source, dir, out}); err != nil {
		return err
	}
	if out.Lost > 0 || len(out.Damage) > 0 || out.LostRows > 0 {
		return cli.Codedf(cli.ExitPartly,
			"the store in %s is damaged: at least %s lost, and messages that were deleted shortly before may be back in %s",
			source, cli.Counted(out.Lost, "message was", "messages were"), dir)
	}
	return nil
}

func printSalvaged(a *cli.App, r *salvageResult) error {
	if a.JSON {
		return a.PrintJSON(r)
	}
	if len(r.Queues) > 0 {
		t := cli.Table{Head: []string{"QUEUE", "KEPT", "LOST", "WITHOUT BODY", "DELIVERY LOST",
			"NAME"}}
		for _, q := range r.Queues {
			name := "kept"
			if q.Recovered {
				name = "lost"
			}
			t.Add(q.Name, strconv.FormatInt(q.Kept, 10), strconv.FormatInt(q.Lost, 10),
				strconv.FormatInt(q.NoBody, 10), strconv.FormatInt(q.Forgotten, 10), name)
		}
		if err := a.PrintTable(t); err != nil {
			return err
		}
	}
	for _, d := range r.Damage {
		if err := a.Result(nil, "%s: %s", d.File, cli.OneLine(d.Text)); err != nil {
			return err
		}
	}
	if n := r.LostRows; n > 0 {
		if err := a.Result(nil, "%s lost with all messages",
			cli.Counted(n, "queue is", "queues are")); err != nil {
			return err
		}
	}
	if n := r.Cancelled; n > 0 {
		if err := a.Result(nil, "%s cancelled",
			cli.Counted(n, "move task was", "move tasks were")); err != nil {
			return err
		}
	}
	return a.Result(nil, "%s: store %s, salvaged from %s: %s kept, at least %d lost",
		r.Dir, r.Store, r.Source, cli.Counted(r.Kept, "message", "messages"), r.Lost)
}
