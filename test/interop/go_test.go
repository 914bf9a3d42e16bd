package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"tenaq/internal/testing/proof"
)

var goClients = []client{
	{name: "aws-sdk-go-v2", command: golang("testdata/go")},
	{name: "aws-sdk-go-v1", command: golang("testdata/legacy", "-modfile=json.mod"), extra: "dead letters, move tasks", without: unread},
	{name: "aws-sdk-go-v1-query", command: golang("testdata/legacy"), extra: "dead letters, move tasks", without: unread},
	{
		name:    "gocloud.dev",
		command: golang("testdata/gocloud"),
		extra:   "batches of Send, Ack and Nack",
		without: map[string]string{
			"create":     "its API has topics and subscriptions instead of queues",
			"attributes": "its API has topics and subscriptions instead of queues",
			"paging":     "its API has topics and subscriptions instead of queues",
			"batch":      "it makes batches itself",
			"fifo":       "it promises no order",

			"environment": callersClient,
		},
	},
}

var unread = map[string]string{"environment": notRead}

// golang builds the program in a folder, with flags for go that may name another list of modules.
// Go keeps modules itself, so make emulators has nothing to do; where they are not here and cannot
// be fetched the test is skipped.
func golang(folder string, flags ...string) func(t *testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		t.Helper()
		tool := func(args ...string) ([]byte, error) {
			cmd := exec.CommandContext(t.Context(), "go", slices.Concat(args, flags, []string{"."})...)
			cmd.Dir = folder
			cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=0")
			return cmd.CombinedOutput()
		}
		if out, err := tool("list", "-deps"); err != nil {
			proof.Missing(t, "no modules for test/interop/"+folder+"; go mod download there fetches them: "+err.Error()+"\n"+string(out))
		}
		program := filepath.Join(t.TempDir(), "program")
		if out, err := tool("build", "-o", program); err != nil {
			t.Fatalf("go build in %s: %v\n%s", folder, err, out)
		}
		return exec.Command(program)
	}
}
