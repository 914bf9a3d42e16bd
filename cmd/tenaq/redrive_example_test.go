package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestRedriveExample tells the story of examples/redrive, with its own files.
func TestRedriveExample(t *testing.T) {
	cmds := map[string]scriptCmd{"serve": startServer, "halt": halt}
	for name, cmd := range scriptCmds {
		cmds[name] = cmd
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/redrive",
		Cmds:                cmds,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[running{}] = &running{}
			for _, name := range []string{"tenaq.yaml", "charge.sh"} {
				text, err := os.ReadFile(filepath.Join("..", "..", "examples", "redrive", name))
				if err == nil {
					err = os.WriteFile(filepath.Join(env.WorkDir, name), text, 0o700)
				}
				if err != nil {
					return err
				}
			}
			return setup(env)
		},
	})
}
