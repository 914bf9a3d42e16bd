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
	{
		name:    "celery",
		command: python("celery", "testdata/python/celery.txt", "celery_matrix.py"),
		extra:   "a worker process executes tasks, whose results are seen",
		without: map[string]string{"attributes": noCall, "batch": noCall, "paging": noCall},
	},
}

const noCall = "it has no call for them"

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

// A key of three parts works in boto3 as in one that has them from STS. [AUTH-10, AUTH-38]
func TestSession(t *testing.T) {
	cmd := python("boto3", "testdata/python/boto3.txt", "session.py")(t)
	env := append(environment("session", start(t)),
		"AWS_ACCESS_KEY_ID="+senderID, "AWS_SECRET_ACCESS_KEY="+senderSecret, "AWS_SESSION_TOKEN="+senderToken)
	if got, want := string(run(t, cmd, env)), "done\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
