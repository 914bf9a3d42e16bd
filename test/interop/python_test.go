package interop

import (
	"os/exec"
	"path/filepath"
	"testing"
)

var pythonClients = []client{
	{name: "boto3", command: python("boto3", "testdata/python/boto3.txt", "sqs.py")},
	{name: "boto3-first-json", command: python("boto3-first-json", "testdata/python/boto3-first-json.txt", "sqs.py")},
	{name: "boto3-query", command: python("botocore-query", "../sdk/testdata/botocore-query.txt", "sqs.py")},
}

// python prepares a program below testdata/python for the environment that the script install makes of a list.
func python(name, list, program string) func(t *testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		t.Helper()
		interpreter := filepath.Join(installed(t, name, list), "bin", "python")
		return exec.Command(interpreter, "-B", script(t, "python/"+program))
	}
}
