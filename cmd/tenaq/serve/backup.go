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
	"tenaq/internal/server/backup"
)

// backupLack says what to do where there are no backups.
const backupLack = "has no backups to give: that takes a tenaq server of this version"

func NewBackupCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	cmd := &cobra.Command{
		Use:   "backup FILE|-",
		Short: "Copy everything a running server has into a file",
		Long: `Copy everything a running server has into a file: all queues and messages, as they were at one moment, and the
alarms. It holds all that was answered before the command began. The server goes on meanwhile.

The file is written under the name FILE.partial and gets its own name when it is whole and on disk; a file
that is there is never replaced. With - it goes to standard output. A backup that was cut off is known to
be no backup.

With keys, the one that is used must belong to the account of the server and be allowed tenaq:Backup, and
nothing else. A backup holds every message in clear text: keep it as the queues themselves are kept.

What is in it comes back with "tenaq restore". Files of a server beside its data, such as keys, certificates
and the configuration, are not in it, nor are records of claims, outboxes, and bodies kept beside a queue.`,
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
				return cli.Usagef("a backup is nothing for a terminal: name a file, or send standard output to one")
			}
			v, err := f.ConnectV1(cmd.Context(), backupLack)
			if err != nil {
				return err
			}
			return writeBackup(a, cmd.Context(), v, args[0])
		},
	}
	f.Register(cmd)
	return cmd
}

// refuseThere refuses to replace a file.
func refuseThere(path string) error {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return cli.Codedf(cli.ExitRefused, "%s is there already: choose another name, or move it away", path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return cli.Codedf(cli.ExitFailed, "%v", err)
	}
}

// A backupResult is what backup prints with --json.
type backupResult struct {
	File   string          `json:"file"`
	Bytes  int64           `json:"bytes"`
	Backup backup.Manifest `json:"backup"`
}

func writeBackup(a *cli.App, ctx context.Context, v *cli.V1Client, path string) error {
	stream, err := Open(v, ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	line := cli.NewProgress(a.Stderr)
	line.Begin("backup")
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
			return cutOff(v, ctx, err)
		}
		line.Done()
		a.Note("backup of store %s up to commit %d, %s", result.Backup.Store, result.Backup.Commit, megabytes(result.Bytes))
		return nil
	}
	partial := path + ".partial"
	out, err := os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return cli.Codedf(cli.ExitFailed, "%v", err)
	}
	result.Backup, err = backup.Read(io.TeeReader(in, out), nil)
	if err != nil {
		err = cutOff(v, ctx, err)
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
	return a.Result(result, "%s: backup of store %s up to commit %d, %s", path, result.Backup.Store, result.Backup.Commit, megabytes(result.Bytes))
}

// name gives a file its own name, durably, unless another one has it by now.
func name(partial, path string) error {
	if err := os.Link(partial, path); errors.Is(err, fs.ErrExist) {
		return cli.Codedf(cli.ExitRefused, "%s is there by now: the backup is in %s", path, partial)
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

// A readerFunc is a reader that is a function.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Open asks the server for a backup and returns it as it comes.
func Open(v *cli.V1Client, ctx context.Context) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.C.Endpoint.URL+"/v1/backup", http.NoBody)
	if err != nil {
		return nil, cli.Usagef("%s is not an address to ask at: %v", v.C.Endpoint, err)
	}
	if err := v.Sign(ctx, req, nil); err != nil {
		return nil, err
	}
	resp, err := v.HTTP.Do(req)
	switch {
	case err != nil:
		return nil, v.C.Explain("take a backup", "", cli.WithCause(ctx, err))
	case resp.StatusCode == http.StatusOK && resp.Header.Get(cli.V1Header) != "" && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-tar"):
		return resp.Body, nil
	}
	defer resp.Body.Close()
	if resp.Header.Get(cli.V1Header) == "" || resp.StatusCode == http.StatusNotFound {
		return nil, v.Missing()
	}
	return nil, v.Refusal(resp, "take a backup", "")
}

// cutOff says why a backup did not come whole.
func cutOff(v *cli.V1Client, ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return cli.Codedf(cli.ExitFailed, "the backup from %s is not whole: %v: try again", v.C.Endpoint, err)
}

// megabytes shows a number of bytes.
func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
