//go:build unix

package main

import (
	"tenaq/cmd/tenaq/bench"
	"tenaq/cmd/tenaq/demo"
	"tenaq/cmd/tenaq/pipe"
	"tenaq/cmd/tenaq/serve"
	"tenaq/internal/cli"
)

func newUnixCommands(a *cli.App) unixCommands {
	return unixCommands{
		serve: serve.NewCmd(a), verify: serve.NewVerifyCmd(a), restore: serve.NewRestoreCmd(a),
		salvage: serve.NewSalvageCmd(a), bench: bench.NewCmd(a), pipe: pipe.NewCmd(a),
		demo: demo.NewCmd(a),
	}
}
