package interop

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tenaq/internal/testing/proof"

	"github.com/rogpeppe/go-internal/txtar"
)

var pythonClients = []client{
	{name: "boto3", command: python("boto3", "testdata/python/boto3.txt", "sqs.py")},
	{name: "boto3-first-json", command: python("boto3-first-json", "testdata/python/boto3-first-json.txt", "sqs.py")},
	{
		name:    "boto3-query",
		command: python("botocore-query", "../sdk/testdata/botocore-query.txt", "sqs.py"),
		without: map[string]string{"environment": "it reads the address from version 1.28 on"},
	},
	{
		name:    "aws-cli-v1",
		command: python("awscli", "testdata/python/awscli.txt", "aws.py"),
		without: map[string]string{"environment": "it goes to Amazon without `--endpoint-url`, which the output of `tenaq env` adds"},
	},
	{
		name:     "aws-cli-v2",
		command:  packagedCLI,
		without:  map[string]string{"environment": "it reads the address from version 2.13 on"},
		ofSystem: true,
	},
	{
		name:    "celery",
		command: python("celery", "testdata/python/celery.txt", "celery_matrix.py"),
		extra:   "a worker process executes tasks, whose results are seen",
		without: map[string]string{"attributes": noCall, "batch": noCall, "paging": noCall, "environment": "its broker URL names the server"},
	},
}

const noCall = "it has no call for them"

// python prepares a program below testdata/python for the environment that the script install makes
// of a list. The program gets the place of the client's own commands.
func python(name, list, program string) func(t *testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		t.Helper()
		bin := filepath.Join(installed(t, name, list), "bin")
		return exec.Command(filepath.Join(bin, "python"), "-B", script(t, "python/"+program), bin)
	}
}

// packagedCLI prepares the program of the AWS CLI for the v2 of the distribution, because that is
// not at PyPI.
func packagedCLI(t *testing.T) *exec.Cmd {
	t.Helper()
	const bin = "/usr/bin"
	if _, err := os.Stat(filepath.Join(bin, "aws")); err != nil {
		proof.Missing(t, "no AWS CLI v2: apt-get install awscli")
	}
	return exec.Command(filepath.Join(bin, "python3"), "-B", script(t, "python/aws.py"), bin)
}

// The AWS CLI v1 goes to Amazon with the variables alone, and to the server in a shell that has
// read what "tenaq env" prints.
func TestEnvironmentOfCLI(t *testing.T) {
	bin := filepath.Join(installed(t, "awscli", "testdata/python/awscli.txt"), "bin")
	printed, err := os.ReadFile("../../cmd/tenaq/testdata/env.txtar") // which a test of the command compares
	if err != nil {
		t.Fatal(err)
	}
	addr := start(t)
	var lines []byte
	for _, f := range txtar.Parse(printed).Files {
		if f.Name == "want-sh" {
			lines = bytes.ReplaceAll(f.Data, []byte("127.0.0.1:9324"), []byte(addr))
		}
	}
	shell := func(script string) *exec.Cmd {
		cmd := exec.Command("sh", "-euc", script, "sh", string(lines), keyID, keySecret)
		cmd.Env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}
		return cmd
	}
	const list = `; export AWS_ACCESS_KEY_ID="$2" AWS_SECRET_ACCESS_KEY="$3"; `
	got := run(t, shell(`eval "$1"`+list+`aws sqs create-queue --queue-name cli; aws --output text sqs get-queue-url --queue-name cli`), environment("cli", addr))
	if n := bytes.Count(got, []byte("http://"+addr+"/000000000000/cli")); n != 2 {
		t.Errorf("with what tenaq env prints: got %q, want the URL of the queue twice", got)
	}

	// A proxy sees where else it goes, and lets nothing through.
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	asked := make(chan string, 1)
	go func() {
		conn, err := proxy.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		line, _ := bufio.NewReader(conn).ReadString('\n')
		asked <- line
		proxy.Close()
	}()
	cmd := shell(`aws sqs list-queues >&2 || echo refused`)
	cmd.Env = append(cmd.Env, "AWS_MAX_ATTEMPTS=1", "HTTPS_PROXY=http://"+proxy.Addr().String())
	if got, want := string(run(t, cmd, environment("cli", addr))), "refused\n"; got != want {
		t.Errorf("with the variables alone: got %q, want %q", got, want)
	}
	select {
	case line := <-asked:
		if want := "CONNECT queue.amazonaws.com:443 "; !strings.HasPrefix(line, want) {
			t.Errorf("with the variables alone: got %q, want %q", line, want)
		}
	default:
		t.Error("with the variables alone: the proxy was not asked, so tenaq env need not add --endpoint-url for this version")
	}
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
