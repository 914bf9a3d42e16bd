package interop

import (
	"os/exec"
	"path/filepath"
	"testing"
)

var pythonClients = []client{
	{name: "boto3", command: python("boto3", "sqs.py")},
}

// python prepares a program below testdata/python for the Python that has the list of the same name as its environment.
func python(name, program string) func(t *testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		t.Helper()
		dir := installed(t, name, "testdata/python/"+name+".txt")
		return exec.Command(filepath.Join(dir, "bin", "python"), "-B", script(t, "python/"+program))
	}
}
