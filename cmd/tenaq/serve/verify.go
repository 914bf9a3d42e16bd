package serve

import (
	"errors"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/server"
	"tenaq/internal/settings"
)

// findingsShown is how many findings are listed; the rest is counted.
const findingsShown = 100

func NewVerifyCmd(a *cli.App) *cobra.Command {
	var f settings.SettingFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the data on disk for damage",
		Long: `Check the data of a stopped server: read every row of every queue, compare the
checksums of all files, and check that rows agree with each other. Nothing is
written.

The command lists the first 100 findings and ends with one line that counts what
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

// A verification is what verify prints with --json.
type verification struct {
	Dir      string           `json:"dataDir"`
	Verified server.Verified  `json:"verified"`
	Seconds  float64          `json:"seconds"`
	Findings []server.Finding `json:"findings"` // the first ones
}

func verify(a *cli.App, dir string) error {
	v := verification{Dir: dir, Findings: []server.Finding{}}
	began, line := time.Now(), cli.NewProgress(a.Stderr)
	line.Begin("verify")
	var err error
	v.Verified, err = server.Verify(dir, func(f server.Finding) {
		if len(v.Findings) == findingsShown {
			return
		}
		v.Findings = append(v.Findings, f)
	}, func(so server.Verified) {
		line.Line("%s, %s, %s, %s", cli.Counted(so.Messages, "message", "messages"),
			cli.Counted(so.Rows, "row", "rows"), megabytes(so.Bytes), cli.Counted(so.Findings,
				"finding", "findings"))
	})
	line.Done()
	switch {
	case errors.Is(err, fs.ErrNotExist) && cli.ExitCode(err) == cli.ExitFailed:
		return cli.Codedf(cli.ExitNotFound,
			"there is no store in %s: name the directory of the server with --data-dir", dir)
	case err != nil:
		return err
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

func printVerification(a *cli.App, v *verification) error {
	if a.JSON {
		return a.PrintJSON(v)
	}
	for _, f := range v.Findings {
		if err := a.Result(nil, "%s", cli.OneLine(f.String())); err != nil {
			return err
		}
	}
	if more := v.Verified.Findings - int64(len(v.Findings)); more > 0 {
		if err := a.Result(nil, "and %s",
			cli.Counted(more, "more finding", "more findings")); err != nil {
			return err
		}
	}
	so := &v.Verified
	return a.Result(nil, "queues %d, messages %d, rows %d of %s, files %s, up to commit %d, in %.1f s: findings %d",
		so.Queues, so.Messages, so.Rows, megabytes(so.Bytes), megabytes(so.TableBytes), so.Commit,
		v.Seconds, so.Findings)
}
