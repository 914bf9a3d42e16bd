package sdk

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tenaq/internal/testing/proof"
)

// python returns the Python that make emulators installs, which has boto3.
func python(t *testing.T) string {
	t.Helper()
	name := filepath.Join(proof.Installed("moto"), "bin", "python")
	if _, err := os.Stat(name); err != nil {
		proof.Missing(t, "no boto3 here: apt-get install python3-venv, and make emulators")
	}
	return name
}

// boto3 manages alarms and reads metrics, in the protocol of its version and in earlier ones.
func TestBoto3(t *testing.T) {
	name := python(t)
	script, err := os.ReadFile(filepath.Join("testdata", "cloudwatch.py"))
	if err != nil {
		t.Fatal(err)
	}
	for _, protocol := range []string{"smithy-rpc-v2-cbor", "json", "query"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			n := start(t, nil)
			cmd := exec.CommandContext(t.Context(), name, "-I", "-", "http://"+n.server.Addr(), protocol)
			cmd.Stdin = bytes.NewReader(script)
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), "done\n") {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}
