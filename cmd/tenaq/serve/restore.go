package serve

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/server"
	"tenaq/internal/settings"
)

func NewRestoreCmd(a *cli.App) *cobra.Command {
	var f settings.SettingFlags
	cmd := &cobra.Command{
		Use:   "restore FILE|-",
		Short: "Make a data directory of a backup",
		Long: `Make a data directory of a backup, which a server then runs on. The directory must be empty, or not be there.
With - the backup comes from standard input.

All of the backup is checked, by its checksums and as "tenaq verify" does, before the directory counts as
whole. Exit code 6 says that the backup was cut off, is damaged, or is none; 4 that the directory is not
empty. An interrupted restore leaves a directory that no server takes: remove it and restore again.

What is restored is as it was when the backup was taken, with an identity of its own: receipt handles of the
server it is of are not valid there. What was in flight stays hidden for up to a minute after the start and is
then delivered again; work that was done and deleted after the backup is there again, so consumers must know
it. Do not run both: move tasks, alarms and producers would go on in each.`,
		Example: `  tenaq restore tenaq-2026-11-21.tar --data-dir /var/lib/tenaq
  zstd -dc tenaq.tar.zst | tenaq restore - --data-dir /var/lib/tenaq
  tenaq restore tenaq.tar --data-dir /tmp/try && tenaq serve --data-dir /tmp/try --listen 127.0.0.1:0`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := f.DataDir()
			if err != nil {
				return err
			}
			in := a.Stdin
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return cli.Codedf(cli.ExitNotFound, "%v", err)
				}
				defer f.Close()
				in = f
			}
			return restore(a, cmd.Context(), in, dir)
		},
	}
	f.RegisterSome(cmd.Flags(), "data-dir")
	cmd.Flags().Lookup("data-dir").Usage = "restore into this `directory` (default as for serve)"
	return cmd
}

// A restoreResult is what restore prints with --json.
type restoreResult struct {
	Dir string `json:"dataDir"`
	server.Restored
}

func restore(a *cli.App, ctx context.Context, in io.Reader, dir string) error {
	line := cli.NewProgress(a.Stderr)
	line.Begin("restore")
	defer line.Done()
	restored, err := server.Restore(ctx, in, dir, func(n int64) { line.Line("%s", megabytes(n)) })
	if err != nil {
		return err
	}
	line.Done()
	b, v := &restored.Backup, &restored.Verified
	return a.Result(restoreResult{dir, restored}, "%s: store %s, of the backup of %s from store %s, queues %d, messages %d, up to commit %d",
		dir, restored.Store, b.Taken.Format("2006-01-02T15:04:05Z"), b.Store, v.Queues, v.Messages, v.Commit)
}
