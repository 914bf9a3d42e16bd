package bench

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"tenaq/internal/bench"
	"tenaq/internal/cli"
)

// newBaselineCmd makes the hidden command with which bench starts the server that does nothing.
func newBaselineCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:    "baseline",
		Hidden: true,
		Short:  "Run a server that does nothing",
		Long: `Run a plain net/http server that does nothing: read its answers from standard
input, print the address, and serve until stopped.
"tenaq bench --baseline" starts it; it has no other use.`,
		Example: `  tenaq bench baseline < answers.json`,
		Args:    cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answers map[string][]byte
			text, err := io.ReadAll(a.Stdin)
			if err == nil {
				err = json.Unmarshal(text, &answers)
			}
			if err != nil {
				return cli.Usagef("standard input: %v", err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			if err := a.Result(l.Addr().String(), "%s", l.Addr()); err != nil {
				return err
			}
			// As serve does: with Go's defaults it would be slower, and flatter tenaq.
			defer runtime.KeepAlive(cli.PaceGC(os.Getenv))
			cli.AddThreads(os.Getenv)
			return bench.ServeNothing(cmd.Context(), l, answers)
		},
	}
}
