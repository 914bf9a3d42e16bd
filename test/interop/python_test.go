package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var pythonClients = []client{
	{name: "boto3", command: python("boto3", "testdata/python/boto3.txt", "sqs.py")},
	{name: "boto3-first-json", command: python("boto3-first-json", "testdata/python/boto3-first-json.txt", "sqs.py")},
	{name: "boto3-query", command: python("botocore-query", "../sdk/testdata/botocore-query.txt", "sqs.py")},
	{name: "aws-cli-v1", command: python("awscli", "testdata/python/awscli.txt", "aws.py")},
	{name: "aws-cli-v2", command: packagedCLI, ofSystem: true},
}

// python prepares a program below testdata/python for the environment that the script install makes of a list. The program is
// told where the client's own commands are.
func python(name, list, program string) func(t *testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		t.Helper()
		bin := filepath.Join(installed(t, name, list), "bin")
		return exec.Command(filepath.Join(bin, "python"), "-B", script(t, "python/"+program), bin)
	}
}

// packagedCLI prepares the program of the AWS CLI for the v2 of the distribution, because that is not at PyPI.
func packagedCLI(t *testing.T) *exec.Cmd {
	t.Helper()
	const bin = "/usr/bin"
	if _, err := os.Stat(filepath.Join(bin, "aws")); err != nil {
		missing(t, "no AWS CLI v2: apt-get install awscli")
	}
	return exec.Command(filepath.Join(bin, "python3"), "-B", script(t, "python/aws.py"), bin)
}
