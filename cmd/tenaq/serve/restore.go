package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/server"
	"tenaq/internal/settings"
)

func NewRestoreCmd(a *cli.App) *cobra.Command {
	var f settings.SettingFlags
	cmd := &cobra.Command{
		Use:   "restore FILE|-|s3://BUCKET/PREFIX/[NAME]",
		Short: "Make a data directory from a backup",
		Long: `Make a data directory from a backup, for a server to run on. The directory must
be empty or missing. With - the backup comes from standard input. Of the backups
in a bucket, the command takes the newest unless the address names one.

The command checks the whole backup, by its checksums and as "tenaq verify"
does, before the directory becomes usable. Exit code 6 means that the backup is
truncated, damaged or not a backup; 4 that the directory is not empty. If the
restore is interrupted, no server accepts the directory: remove it and start
over.

The data is as of the time of the backup. The store has an identity of its own,
so receipt handles of the original server are not valid. Messages in flight stay
hidden for up to a minute after the start. Work that was completed after the
backup is in the queues again, so consumers must recognize it. Do not run both
servers: move tasks, alarms and producers would run in each.`,
		Example: `  tenaq restore tenaq-2026-11-21.tar --data-dir /var/lib/tenaq
  zstd -dc tenaq.tar.zst | tenaq restore - --data-dir /var/lib/tenaq
  tenaq restore s3://backups/tenaq/ --data-dir /var/lib/tenaq
  tenaq restore tenaq.tar --data-dir /tmp/try
  tenaq serve --data-dir /tmp/try --listen 127.0.0.1:0`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := f.DataDir()
			if err != nil {
				return err
			}
			return restore(cmd.Context(), a, args[0], dir, false)
		},
	}
	f.RegisterSome(cmd.Flags(), "data-dir")
	cmd.Flags().Lookup("data-dir").Usage = "restore into this `directory` (default as for serve)"
	return cmd
}

// source opens a backup: a file, standard input, or one in a bucket.
func source(
	ctx context.Context, a *cli.App, place string,
) (in io.ReadCloser, name string, err error) {
	switch {
	case place == "-":
		return io.NopCloser(a.Stdin), "standard input", nil
	case strings.HasPrefix(place, bucketScheme):
		b, key, err := openBucket(ctx, place)
		if err != nil {
			return nil, "", err
		}
		r, url, err := b.open(ctx, key)
		return io.NopCloser(r), url, err
	}
	f, err := os.Open(place)
	if err != nil {
		return nil, "", cli.Codedf(cli.ExitNotFound, "%v", err)
	}
	return f, place, nil
}

type restoreResult struct {
	From string `json:"from"`
	Dir  string `json:"dataDir,omitempty"`
	server.Restored
}

// restore makes a data directory of a backup, which is removed again if the backup is only tried.
func restore(ctx context.Context, a *cli.App, place, dir string, try bool) error {
	in, name, err := source(ctx, a, place)
	if err != nil {
		return err
	}
	defer in.Close()
	what := "restore"
	if try {
		what = "verify"
	}
	line := cli.NewProgress(a.Stderr, what)
	defer line.Done()
	restored, err := server.Restore(ctx, in, dir, func(n int64) { line.Line("%s", megabytes(n)) })
	if err != nil {
		return err
	}
	line.Done()
	b, v := &restored.Backup, &restored.Verified
	text := fmt.Sprintf("backup of %s from store %s, queues %d, messages %d, up to commit %d",
		b.Taken.Format("2006-01-02T15:04:05Z"), b.Store, v.Queues, v.Messages, v.Commit)
	if try {
		restored.Store = ""
		return a.Result(restoreResult{name, "", restored}, "%s: whole and consistent, %s", name,
			text)
	}
	return a.Result(restoreResult{name, dir, restored}, "%s: store %s, of the %s", dir,
		restored.Store, text)
}

func newBackupVerifyCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE|-|s3://BUCKET/PREFIX/[NAME]",
		Short: "Restore a backup on trial, and remove the result",
		Long: `Restore a backup into a temporary directory, check it as "tenaq restore" does,
and remove the directory. This needs as much space in TMPDIR as the backup. Of
the backups in a bucket, the command takes the newest unless the address names
one. Exit code 6 means that the backup is truncated, damaged or not a backup.`,
		Example: `  tenaq backup verify tenaq-2026-11-21.tar
  tenaq backup verify s3://backups/tenaq/`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := os.MkdirTemp("", "tenaq-verify-")
			if err != nil {
				return cli.Codedf(cli.ExitFailed, "%v; set TMPDIR to a directory with space", err)
			}
			return errors.Join(restore(cmd.Context(), a, args[0], dir, true), os.RemoveAll(dir))
		},
	}
}
