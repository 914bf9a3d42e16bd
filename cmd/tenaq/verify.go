package main

import (
	"errors"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/server"
)

// findingsShown is how many findings are listed; the rest is counted.
const findingsShown = 100

func newVerifyCmd(a *app) *cobra.Command {
	var f settingFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that what is on disk is whole",
		Long: `Check that what a stopped server has on disk is whole: read every row of every queue, compare the checksums
of all files, and hold everything that rows say of each other against each other. Nothing is written.

What is wrong is listed, the first 100 findings of it, then comes one line that says how much was checked.
The exit code is 0 when all is well, 6 when something was found or the store cannot be opened, 7 when the disk
cannot be read, 4 when a server has the directory open: stop it first, or verify a backup that was restored.

It takes about as long as reading the directory twice, and some hundred megabytes of memory however many
messages there are. The rows of a damaged store stay as they are: restore a backup, or copy what is intact
into a new directory with "tenaq salvage".`,
		Example: `  tenaq verify
  tenaq verify --data-dir /var/lib/tenaq
  tenaq verify --json | jq .verified.messages`,
		Args: wants(0, 0),
		RunE: func(*cobra.Command, []string) error {
			dir, err := f.dataDir()
			if err != nil {
				return err
			}
			return a.verify(dir)
		},
	}
	f.registerSome(cmd.Flags(), "data-dir")
	cmd.Flags().Lookup("data-dir").Usage = "check the data in this `directory` (default as for serve)"
	return cmd
}

// A verification is what verify prints with --json.
type verification struct {
	Dir      string           `json:"dataDir"`
	Verified server.Verified  `json:"verified"`
	Seconds  float64          `json:"seconds"`
	Findings []server.Finding `json:"findings"` // the first ones
}

func (a *app) verify(dir string) error {
	v := verification{Dir: dir, Findings: []server.Finding{}}
	began, line := time.Now(), newProgress(a.stderr)
	line.begin("verify")
	var err error
	v.Verified, err = server.Verify(dir, func(f server.Finding) {
		if len(v.Findings) == findingsShown {
			return
		}
		v.Findings = append(v.Findings, f)
	}, func(so server.Verified) {
		line.line("%s, %s, %s, %s", counted(so.Messages, "message", "messages"), counted(so.Rows, "row", "rows"), megabytes(so.Bytes), counted(so.Findings, "finding", "findings"))
	})
	line.done()
	switch {
	case errors.Is(err, fs.ErrNotExist) && exitCode(err) == exitFailed:
		return codedf(exitNotFound, "there is no store in %s: name the directory of the server with --data-dir", dir)
	case err != nil:
		return err
	}
	v.Seconds = time.Since(began).Seconds()
	if err := a.printVerification(&v); err != nil {
		return err
	}
	if n := v.Verified.Findings; n > 0 {
		return codedf(exitDamaged, "the store in %s is damaged: %s. Keep the directory, and restore a backup elsewhere or copy what is intact with: tenaq salvage --to NEW", dir, counted(n, "finding", "findings"))
	}
	return nil
}

func (a *app) printVerification(v *verification) error {
	if a.json {
		return a.printJSON(v)
	}
	for _, f := range v.Findings {
		if err := a.result(nil, "%s", oneLine(f.String())); err != nil {
			return err
		}
	}
	if more := v.Verified.Findings - int64(len(v.Findings)); more > 0 {
		if err := a.result(nil, "and %s", counted(more, "more finding", "more findings")); err != nil {
			return err
		}
	}
	so := &v.Verified
	return a.result(nil, "queues %d, messages %d, rows %d of %s, files %s, up to commit %d, in %.1f s: findings %d",
		so.Queues, so.Messages, so.Rows, megabytes(so.Bytes), megabytes(so.TableBytes), so.Commit, v.Seconds, so.Findings)
}
