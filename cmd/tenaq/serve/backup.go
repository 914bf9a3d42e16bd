package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/server"
	"tenaq/internal/server/backup"
	"tenaq/internal/settings"
	"tenaq/internal/work/v1client"
)

const backupLack = "cannot make backups: this needs a tenaq server of this version"

func NewBackupCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	cmd := &cobra.Command{
		Use:   "backup FILE|-",
		Short: "Copy all data of a running server into a file",
		Long: `Copy all queues, messages and records of a running server, and its alarms, into
a file, as of one moment. The backup holds everything that was acknowledged
before the command began. The server keeps working.

The command writes FILE.partial and renames it when it is complete and on disk.
It never replaces an existing file. With - it writes to standard output. A
truncated backup is recognized as such.

With keys, use one of the server's account that is allowed tenaq:Backup; it
needs nothing else. A backup holds every message in clear text: protect it like
the queues.

"tenaq restore" restores a backup. A backup does not include files beside the
data, such as keys, certificates and the configuration, nor records in a file or
a database of their own, outboxes, and bodies kept beside a queue.`,
		Example: `  tenaq backup tenaq-$(date +%F).tar
  tenaq backup - | zstd -q > /backups/tenaq-$(date +%F).tar.zst
  tenaq backup --endpoint-url https://queue.example.com queue.tar --json`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != "-" {
				if err := refuseThere(args[0]); err != nil {
					return err
				}
			} else if cli.IsTerminal(a.Stdout) {
				return cli.Usagef("a backup cannot be written to a terminal: name a file, or redirect standard output")
			}
			return f.RunV1(backupLack, func(
				ctx context.Context, v *cli.V1Client, _ []string,
			) error {
				return writeBackup(ctx, a, v, args[0])
			})(cmd, args)
		},
	}
	f.Register(cmd)
	return cmd
}

func refuseThere(path string) error {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return cli.Codedf(cli.ExitRefused,
			"%s exists already: choose another name, or move it away", path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return cli.Codedf(cli.ExitFailed, "%v", err)
	}
}

type backupResult struct {
	File   string          `json:"file"`
	Bytes  int64           `json:"bytes"`
	Backup backup.Manifest `json:"backup"`
}

func writeBackup(ctx context.Context, a *cli.App, v *cli.V1Client, path string) error {
	stream, err := open(ctx, v)
	if err != nil {
		return err
	}
	defer stream.Close()
	line := cli.NewProgress(a.Stderr, "backup")
	defer line.Done()
	result := backupResult{File: path}
	in := readerFunc(func(p []byte) (int, error) {
		n, err := stream.Read(p)
		result.Bytes += int64(n)
		line.Line("%s", megabytes(result.Bytes))
		return n, err
	})
	if path == "-" {
		if result.Backup, err = backup.Read(io.TeeReader(in, a.Stdout), nil); err != nil {
			return cutOff(ctx, v, err)
		}
		line.Done()
		a.Note("backup of store %s up to commit %d, %s", result.Backup.Store, result.Backup.Commit,
			megabytes(result.Bytes))
		return nil
	}
	partial := path + ".partial"
	out, err := os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return cli.Codedf(cli.ExitFailed, "%v", err)
	}
	result.Backup, err = backup.Read(io.TeeReader(in, out), nil)
	if err != nil {
		err = cutOff(ctx, v, err)
	} else {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		_ = os.Remove(partial)
		return err
	}
	if err := name(partial, path); err != nil {
		return err
	}
	line.Done()
	return a.Result(result, "%s: backup of store %s up to commit %d, %s", path, result.Backup.Store,
		result.Backup.Commit, megabytes(result.Bytes))
}

// name renames a file durably, unless the name is taken by now.
func name(partial, path string) error {
	if err := os.Link(partial, path); errors.Is(err, fs.ErrExist) {
		return cli.Codedf(cli.ExitRefused, "%s exists by now: the backup is in %s", path, partial)
	} else if err != nil { // a file system without links
		if err := errors.Join(refuseThere(path), os.Rename(partial, path)); err != nil {
			return err
		}
	} else if err := os.Remove(partial); err != nil {
		return cli.Codedf(cli.ExitFailed, "%v", err)
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return cli.Codedf(cli.ExitFailed, "%v", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// open requests a backup and returns the stream.
func open(ctx context.Context, v *cli.V1Client) (io.ReadCloser, error) {
	resp, err := v.API().Do(ctx, http.MethodPost, "/backup", nil)
	refusal, refused := errors.AsType[*v1client.Error](err)
	switch {
	case refused && refusal.Status == http.StatusNotFound:
		return nil, v.Missing()
	case err != nil:
		return nil, v.Explain(ctx, "take a backup", "", err)
	case !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-tar"):
		resp.Body.Close()
		return nil, v.Missing()
	}
	return resp.Body, nil
}

// cutOff explains why a backup is incomplete.
func cutOff(ctx context.Context, v *cli.V1Client, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return cli.Codedf(cli.ExitFailed, "the backup from %s is incomplete: %v: try again",
		v.C.Endpoint, err)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

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
			return restore(cmd.Context(), a, in, dir)
		},
	}
	f.RegisterSome(cmd.Flags(), "data-dir")
	cmd.Flags().Lookup("data-dir").Usage = "restore into this `directory` (default as for serve)"
	return cmd
}

type restoreResult struct {
	Dir string `json:"dataDir"`
	server.Restored
}

func restore(ctx context.Context, a *cli.App, in io.Reader, dir string) error {
	line := cli.NewProgress(a.Stderr, "restore")
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
