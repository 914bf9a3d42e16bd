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
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/server/backup"
	"tenaq/internal/work/v1client"
)

const backupLack = "cannot make backups: this needs a tenaq server of this version"

func NewBackupCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	job := backupJob{a: a}
	cmd := &cobra.Command{
		Use:   "backup FILE|-|s3://BUCKET/PREFIX/",
		Short: "Copy all data of a running server into a file or a bucket",
		Long: `Copy all queues, messages and records of a running server, and its alarms, into
a file or an S3-compatible bucket, as of one moment. The backup holds everything
that was acknowledged before the command began. The server keeps working.

The command writes FILE.partial and renames it when it is complete and on disk.
It never replaces an existing file. With - it writes to standard output. A
truncated backup is recognized as such.

In a bucket, a backup is named after its time and its store, and appears only
once it is complete. --keep then removes older ones of the same store. --every
takes backups until the command is stopped; if one fails, the command reports it
and tries again. The bucket uses the keys, profile and region of the AWS
environment. For a store other than Amazon S3, set AWS_ENDPOINT_URL_S3.

On a server with keys, use a key of the server's account that allows
tenaq:Backup; it needs nothing else. If AWS_ACCESS_KEY_ID is for the bucket,
give the server's key as TENAQ_ACCESS_KEY_ID and TENAQ_SECRET_ACCESS_KEY. A
backup holds every message in clear text: protect it like the queues.

"tenaq restore" restores a backup. A backup does not include files beside the
data, such as keys, certificates and the configuration. Nor does it include
records in a file or a database of their own, outboxes, or bodies kept beside a
queue.`,
		Example: `  tenaq backup tenaq-$(date +%F).tar
  tenaq backup - | zstd -q > /backups/tenaq-$(date +%F).tar.zst
  tenaq backup s3://backups/tenaq/ --keep 14
  tenaq backup s3://backups/tenaq/ --keep 14 --every 24h
  tenaq backup list s3://backups/tenaq/
  tenaq backup verify s3://backups/tenaq/`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := job.aim(cmd.Context(), args[0]); err != nil {
				return err
			}
			return f.RunV1(backupLack, func(
				ctx context.Context, v *cli.V1Client, _ []string,
			) error {
				job.v = v
				if job.every > 0 {
					return job.repeat(ctx)
				}
				return job.run(ctx)
			})(cmd, args)
		},
	}
	f.Register(cmd)
	flags := cmd.Flags()
	cli.Number(flags, &job.newest, "keep", 0, 0, 0, "remove all but the `N` newest; 0 keeps all")
	cli.SomeTime(flags, &job.every, "every", "", "repeat after this `duration`, such as 24h")
	cmd.AddCommand(newBackupListCmd(a), newBackupVerifyCmd(a))
	return cmd
}

// A backupJob takes backups of a server into one place.
type backupJob struct {
	a      *cli.App
	v      *cli.V1Client
	path   string  // of a file, or -
	bucket *bucket // nil for a file
	newest int     // how many to keep in the bucket, 0 for all
	every  time.Duration
}

// aim finds the place of the backups and refuses a wrong one before the server makes a backup.
func (j *backupJob) aim(ctx context.Context, place string) (err error) {
	j.path = place
	switch {
	case strings.HasPrefix(place, bucketScheme):
		key := ""
		if j.bucket, key, err = openBucket(ctx, place); err == nil && key != "" {
			err = cli.Usagef("%s names a backup; name a folder, such as %s", place, j.bucket)
		}
		return err
	case j.newest > 0 || j.every > 0:
		return cli.Usagef("--keep and --every are for backups in a bucket; write s3://BUCKET/PREFIX/")
	case place != "-":
		return refuseThere(place)
	case cli.IsTerminal(j.a.Stdout):
		return cli.Usagef("a backup cannot be written to a terminal: name a file, or redirect standard output")
	}
	return nil
}

// retryPause is how long a command with --every waits after a failure, unless it would take the
// next backup earlier.
const retryPause = 5 * time.Minute

// repeat takes backups until ctx ends. A backup is due at fixed distances from the first one, so it
// does not drift by the time that each takes.
func (j *backupJob) repeat(ctx context.Context) error {
	due := time.Now()
	for {
		err := j.run(ctx)
		if ctx.Err() != nil {
			return nil
		}
		for !time.Now().Before(due) {
			due = due.Add(j.every)
		}
		next := due
		if err != nil {
			if retry := time.Now().Add(retryPause); retry.Before(next) {
				next = retry
			}
			j.a.Complain(err)
			j.a.Note("next try at %s", next.Format(time.RFC3339))
		}
		if cli.Pause(ctx, time.Until(next)); ctx.Err() != nil {
			return nil
		}
	}
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
	File    string          `json:"file,omitempty"`
	URL     string          `json:"url,omitempty"`
	Bytes   int64           `json:"bytes"`
	Removed int             `json:"removed,omitempty"` // older backups
	Backup  backup.Manifest `json:"backup"`
}

// run takes one backup.
func (j *backupJob) run(ctx context.Context) error {
	stream, size, err := open(ctx, j.v)
	if err != nil {
		return err
	}
	defer stream.Close()
	line := cli.NewProgress(j.a.Stderr, "backup")
	defer line.Done()
	result := backupResult{}
	in := readerFunc(func(p []byte) (int, error) {
		n, err := stream.Read(p)
		result.Bytes += int64(n)
		line.Line("%s", megabytes(result.Bytes))
		return n, err
	})
	switch {
	case j.bucket != nil:
		err = j.store(ctx, in, size, &result)
	case j.path == "-":
		if result.Backup, err = backup.Read(io.TeeReader(in, j.a.Stdout), nil); err != nil {
			return cutOff(ctx, j.v, err)
		}
		line.Done()
		j.a.Note("backup of %s", &result)
		return nil
	default:
		err = j.write(ctx, in, &result)
	}
	if result.Bytes == 0 || result.File == "" && result.URL == "" {
		return err
	}
	line.Done()
	return errors.Join(j.a.Result(result, "%s: backup of %s", result.File+result.URL, &result), err)
}

func (r *backupResult) String() string {
	text := fmt.Sprintf("store %s up to commit %d, %s", r.Backup.Store, r.Backup.Commit,
		megabytes(r.Bytes))
	switch r.Removed {
	case 0:
		return text
	case 1:
		return text + "; removed 1 older backup"
	}
	return fmt.Sprintf("%s; removed %d older backups", text, r.Removed)
}

// write writes a backup into a file.
func (j *backupJob) write(ctx context.Context, in io.Reader, result *backupResult) error {
	partial := j.path + ".partial"
	out, err := os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return cli.Codedf(cli.ExitFailed, "%v", err)
	}
	result.Backup, err = backup.Read(io.TeeReader(in, out), nil)
	if err != nil {
		err = cutOff(ctx, j.v, err)
	} else {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		_ = os.Remove(partial)
		return err
	}
	if err := name(partial, j.path); err != nil {
		return err
	}
	result.File = j.path
	return nil
}

// store stores a backup in the bucket. Only then it removes what is old. [DUR-38 to DUR-40]
func (j *backupJob) store(
	ctx context.Context, in io.Reader, size int64, result *backupResult,
) (err error) {
	out := &storing{b: j.bucket, ctx: ctx}
	result.Backup, err = backup.Read(io.TeeReader(in, out),
		func(m backup.Manifest, _ string, _ int64, _ io.Reader) error { return out.begin(m, size) })
	if failed := out.end(err); failed != nil {
		return failed
	} else if err != nil {
		return cutOff(ctx, j.v, err)
	}
	name := nameOf(result.Backup)
	result.URL = j.bucket.String() + name
	s, _ := j.bucket.readName(j.bucket.prefix + name)
	if err := j.bucket.tidy(ctx, s.Store); err != nil {
		j.a.Note("warning: %v", err)
	}
	if j.newest > 0 {
		if result.Removed, err = j.bucket.keep(ctx, s.Store, j.newest); err != nil {
			return cli.Codedf(cli.ExitPartly, "the backup is stored, but older ones are left: %w", err)
		}
	}
	return nil
}

// name renames a file durably, unless the name is taken by now.
func name(partial, path string) error {
	if err := os.Link(partial, path); errors.Is(err, fs.ErrExist) {
		return cli.Codedf(cli.ExitRefused, "%s was created meanwhile: the backup is in %s", path, partial)
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

// open requests a backup and returns the stream, and its size if that is known.
func open(ctx context.Context, v *cli.V1Client) (in io.ReadCloser, size int64, err error) {
	resp, err := v.API().Do(ctx, http.MethodPost, "/backup", nil)
	refusal, refused := errors.AsType[*v1client.Error](err)
	switch {
	case refused && refusal.Status == http.StatusNotFound:
		return nil, 0, v.Missing()
	case err != nil:
		return nil, 0, v.Explain(ctx, "take a backup", "", err)
	case !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-tar"):
		resp.Body.Close()
		return nil, 0, v.Missing()
	}
	return resp.Body, max(0, resp.ContentLength), nil
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

func newBackupListCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "list s3://BUCKET/PREFIX/",
		Short: "List the backups in a bucket, newest first",
		Long: `List the backups in a bucket, newest first, with their time, size and store.
Other objects are left out.`,
		Example: `  tenaq backup list s3://backups/tenaq/
  tenaq backup list s3://backups/tenaq/ --json`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !strings.HasPrefix(args[0], bucketScheme) {
				return cli.Usagef("%q is not a bucket; write s3://BUCKET/PREFIX/", args[0])
			}
			b, _, err := openBucket(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			found, err := b.list(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(map[string]any{"backups": found})
			}
			return a.PrintTable(cli.TableOf(found, []cli.Column[stored]{
				cli.Always("TAKEN", func(s *stored) string { return s.Taken.Format(time.RFC3339) }),
				cli.Always("SIZE", func(s *stored) string { return megabytes(s.Bytes) }),
				cli.Always("STORE", func(s *stored) string { return s.Store }),
				cli.Always("URL", func(s *stored) string { return s.URL }),
			}))
		},
	}
}
