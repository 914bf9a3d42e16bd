// Command compose reads a compose file, checks it against the specification of Compose, and prints
// it with all variables and references resolved.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:], cli.WithOsEnv, cli.WithName("tenaq"))
	if err == nil {
		var text []byte
		if text, err = load(options); err == nil {
			_, err = os.Stdout.Write(text)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func load(options *cli.ProjectOptions) ([]byte, error) {
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, err
	}
	return project.MarshalYAML()
}
