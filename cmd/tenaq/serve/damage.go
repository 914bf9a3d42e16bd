package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/server"
	"tenaq/internal/settings"
)

const findingsShown = 100

func NewVerifyCmd(a *cli.App) *cobra.Command {
	var f settings.SettingFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the data on disk for damage",
		Long: `Check the data of a stopped server: read every row of every queue, compare the
checksums of all files, and check that rows agree with each other. Nothing is
written.

The command lists the first 100 findings and ends with a line that says how much
it checked. The exit code is 0 if all is well, 6 if there are findings or the
store cannot be opened, 7 if the disk cannot be read, and 4 if a server has the
directory open: stop it first, or verify a restored backup.

It takes about as long as reading the directory twice, and some hundred
megabytes of memory for any number of messages. It does not repair a damaged
store: restore a backup, or copy what is intact with "tenaq salvage".`,
		Example: `  tenaq verify
  tenaq verify --data-dir /var/lib/tenaq
  tenaq verify --json | jq .verified.messages`,
		Args: cli.Wants(0, 0),
		RunE: func(*cobra.Command, []string) error {
			dir, err := f.DataDir()
			if err != nil {
				return err
			}
			return verify(a, dir)
		},
	}
	f.RegisterSome(cmd.Flags(), "data-dir")
	cmd.Flags().Lookup("data-dir").Usage = "check this `directory` (default as for serve)"
	return cmd
}

type verification struct {
	Dir      string           `json:"dataDir"`
	Verified server.Verified  `json:"verified"`
	Seconds  float64          `json:"seconds"`
	Findings []server.Finding `json:"findings"` // the first ones
}

func verify(a *cli.App, dir string) error {
	v := verification{Dir: dir, Findings: []server.Finding{}}
	began, line := time.Now(), cli.NewProgress(a.Stderr, "verify")
	var err error
	v.Verified, err = server.Verify(dir, func(f server.Finding) {
		if len(v.Findings) < findingsShown {
			v.Findings = append(v.Findings, f)
		}
	}, func(so server.Verified) {
		line.Line("%s, %s, %s, %s", cli.Counted(so.Messages, "message", "messages"),
			cli.Counted(so.Rows, "row", "rows"), megabytes(so.Bytes), cli.Counted(so.Findings,
				"finding", "findings"))
	})
	line.Done()
	if err != nil {
		return explainStore(dir, err)
	}
	v.Seconds = time.Since(began).Seconds()
	if err := printVerification(a, &v); err != nil {
		return err
	}
	if n := v.Verified.Findings; n > 0 {
		return cli.Codedf(cli.ExitDamaged,
			"the store in %s is damaged: %s. Keep the directory, and restore a backup elsewhere or copy what is intact with: tenaq salvage --to NEW", dir, cli.Counted(n, "finding", "findings"))
	}
	return nil
}

func explainStore(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) && cli.ExitCode(err) == cli.ExitFailed {
		return cli.Codedf(cli.ExitNotFound,
			"there is no store in %s: name the directory of the server with --data-dir", dir)
	}
	return err
}

func printVerification(a *cli.App, v *verification) error {
	if a.JSON {
		return a.PrintJSON(v)
	}
	var text strings.Builder
	for _, f := range v.Findings {
		fmt.Fprintln(&text, cli.OneLine(f.String()))
	}
	so := &v.Verified
	if more := so.Findings - int64(len(v.Findings)); more > 0 {
		fmt.Fprintf(&text, "and %s\n", cli.Counted(more, "more finding", "more findings"))
	}
	fmt.Fprintf(&text, "queues %d, messages %d, rows %d of %s, files %s, up to commit %d, in %.1f s: findings %d\n",
		so.Queues, so.Messages, so.Rows, megabytes(so.Bytes), megabytes(so.TableBytes), so.Commit,
		v.Seconds, so.Findings)
	if so.Entries > 0 {
		fmt.Fprintf(&text, "this is a node of a cluster: the log has %s, and the rows on disk go up to entry %d\n",
			cli.Counted(so.Entries, "entry", "entries"), so.Applied)
	}
	return a.PrintText(text.String())
}

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
kept and lost. A message without its body counts as lost. The number of lost
messages is a lower bound. A queue whose name is lost gets the name salvaged-N.

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
			return salvage(cmd.Context(), a, dir, to)
		},
	}
	f.RegisterSome(cmd.Flags(), "data-dir")
	cmd.Flags().Lookup("data-dir").Usage = "salvage this `directory` (default as for serve)"
	cli.Text(cmd.Flags(), &to, "to", "create the new store in this `directory`")
	return cmd
}

type salvageResult struct {
	Source string `json:"source"`
	Dir    string `json:"dataDir"`
	server.Salvaged
}

func salvage(ctx context.Context, a *cli.App, source, dir string) error {
	line := cli.NewProgress(a.Stderr, "salvage")
	defer line.Done()
	out, err := server.Salvage(ctx, source, dir, func(rows int64) {
		line.Line("%s", cli.Counted(rows, "row", "rows"))
	})
	if err != nil {
		return explainStore(source, err)
	}
	line.Done()
	if err := printSalvaged(a, &salvageResult{source, dir, out}); err != nil {
		return err
	}
	if out.Lost > 0 || len(out.Damage) > 0 || out.LostRows > 0 || out.LostRecords > 0 {
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
	var text strings.Builder
	for _, d := range r.Damage {
		fmt.Fprintf(&text, "%s: %s\n", d.File, cli.OneLine(d.Text))
	}
	if n := r.LostRows; n > 0 {
		fmt.Fprintf(&text, "%s lost with all messages\n", cli.Counted(n, "queue is", "queues are"))
	}
	if n := r.Cancelled; n > 0 {
		fmt.Fprintf(&text, "%s cancelled\n",
			cli.Counted(n, "move task was", "move tasks were"))
	}
	if r.Records+r.LostRecords > 0 {
		fmt.Fprintf(&text, "%s kept, at least %d lost\n",
			cli.Counted(r.Records, "record", "records"), r.LostRecords)
	}
	if n := r.Outcomes; n > 0 {
		fmt.Fprintf(&text, "%s lost from the history of queues\n",
			cli.Counted(n, "outcome is", "outcomes are"))
	}
	fmt.Fprintf(&text, "%s: store %s, salvaged from %s: %s kept, at least %d lost\n", r.Dir,
		r.Store, r.Source, cli.Counted(r.Kept, "message", "messages"), r.Lost)
	return a.PrintText(text.String())
}
