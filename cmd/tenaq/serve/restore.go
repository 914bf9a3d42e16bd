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
		Short: "Make a data directory from a backup",
		Long: `Make a data directory from a backup, for a server to run on. The directory must
be empty or missing. With - the backup comes from standard input.

The command checks the whole backup, by its checksums and as "tenaq verify"
does, before the directory becomes usable. Exit code 6 means that the backup is
truncated, damaged or not a backup; 4 that the directory is not empty. If the
restore is interrupted, no server accepts the directory: remove it and restart.

The data is as of the time of the backup, with an identity of its own, so
receipt handles of the original server are not valid. Messages in flight stay
hidden for up to a minute after the start. Work that was completed after the
backup is in the queues again, so consumers must recognize it. Do not run both
servers: move tasks, alarms and producers would continue in each.`,
		Example: `  tenaq restore tenaq-2026-11-21.tar --data-dir /var/lib/tenaq
  zstd -dc tenaq.tar.zst | tenaq restore - --data-dir /var/lib/tenaq
  tenaq restore tenaq.tar --data-dir /tmp/try
  tenaq serve --data-dir /tmp/try --listen 127.0.0.1:0`,
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
	return a.Result(restoreResult{dir, restored},
		"%s: store %s, of the backup of %s from store %s, queues %d, messages %d, up to commit %d",
		dir, restored.Store, b.Taken.Format("2006-01-02T15:04:05Z"), b.Store, v.Queues, v.Messages,
		v.Commit)
}
