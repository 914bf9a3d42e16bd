package interop

import (
	"os/exec"
	"path/filepath"
	"testing"
)

var javascriptClients = []client{
	{name: "aws-sdk-js-v3", command: javascript("sqs-consumer", "../bench/consumers", "matrix.js", "v3")},
	{
		name:    "aws-sdk-js-v2",
		command: javascript("aws-sdk-js-v2", "testdata/javascript", "matrix.js", "v2"),
		without: map[string]string{"environment": notRead},
	},
	{
		name:    "sqs-consumer",
		command: javascript("sqs-consumer", "../bench/consumers", "sqs_consumer.js"),
		extra:   "handlers of batches, failing handlers, heartbeats",
		without: map[string]string{
			"create":     "it only consumes",
			"attributes": "it only consumes",
			"fifo":       "it only consumes",
			"batch":      "it only consumes",
			"paging":     "it only consumes",

			"environment": callersClient,
		},
	},
}

const (
	notRead       = "no version reads the address"
	callersClient = "its caller makes the client of the SDK"
)

// javascript prepares a program below testdata/javascript for the packages that the script install
// makes of the lock file in a folder.
func javascript(name, folder, program string, args ...string) func(t *testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		t.Helper()
		modules := filepath.Join(installed(t, name, folder+"/package-lock.json"), "node_modules")
		cmd := exec.Command("node", append([]string{script(t, "javascript/"+program)}, args...)...)
		cmd.Env = []string{"NODE_PATH=" + modules}
		return cmd
	}
}
