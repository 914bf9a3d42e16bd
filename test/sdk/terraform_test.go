package sdk

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/group"
)

// plugins returns a directory with the AWS provider of Terraform: the one that has
// registry.terraform.io.
func plugins() (string, error) {
	if dir := os.Getenv("TENAQ_TERRAFORM_PLUGINS"); dir != "" {
		return dir, nil
	}
	dirs := []string{"/usr/share/terraform", "/usr/local/share/terraform"}
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".terraform.d"))
	}
	more, _ := filepath.Glob("/opt/*")
	for _, root := range append(dirs, more...) {
		for _, pattern := range []string{"", "*", "*/*"} {
			found, _ := filepath.Glob(filepath.Join(root, pattern, "registry.terraform.io", "hashicorp", "aws"))
			if len(found) > 0 {
				return filepath.Join(found[0], "..", "..", ".."), nil
			}
		}
	}
	return "", errors.New("no AWS provider of Terraform here: name the directory that has registry.terraform.io with TENAQ_TERRAFORM_PLUGINS")
}

// A terraform runs Terraform in a directory of the test's.
type terraform struct {
	t        *testing.T
	dir      string
	endpoint string
}

// startTerraform starts a server, and prepares the configuration of a folder of testdata/terraform
// for it. Without Terraform and its AWS provider, which no package of Debian has, the test is
// skipped, unless TENAQ_REQUIRE_TERRAFORM is 1.
func startTerraform(t *testing.T, folder string) (*node, *terraform) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes a minute: Terraform waits until it believes that an attribute has settled")
	}
	_, err := exec.LookPath("terraform")
	var providers string
	if err == nil {
		providers, err = plugins()
	}
	if err != nil {
		if os.Getenv("TENAQ_REQUIRE_TERRAFORM") == "1" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED: %v", err)
	}
	t.Parallel()
	n := start(t, nil)
	run := &terraform{t, t.TempDir(), "http://" + n.server.Addr()}
	if err := os.CopyFS(run.dir, os.DirFS(filepath.Join("testdata", "terraform", folder))); err != nil {
		t.Fatal(err)
	}
	run.must("init", "-plugin-dir="+providers)
	return n, run
}

// output runs a command of Terraform and returns its exit status and what it prints.
func (r *terraform) output(args ...string) (int, string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
	defer cancel()
	args = append([]string{"-chdir=" + r.dir, args[0], "-input=false", "-no-color"}, args[1:]...)
	cmd := exec.CommandContext(ctx, "terraform", args...)
	group.Lead(cmd) // with the processes of its provider
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_CLI_CONFIG_FILE="+os.DevNull,
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull,
		"NO_PROXY=127.0.0.1", "TF_VAR_endpoint="+r.endpoint)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	r.t.Logf("terraform %s took %v", args[1], time.Since(began).Round(time.Second))
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatalf("terraform %s: %v\n%s", args[1], err, out)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (r *terraform) status(args ...string) int {
	r.t.Helper()
	status, out := r.output(args...)
	if status != 0 {
		r.t.Logf("terraform %s:\n%s", args[0], out)
	}
	return status
}

func (r *terraform) must(args ...string) {
	r.t.Helper()
	if status := r.status(args...); status != 0 {
		r.t.Fatalf("terraform %s: status %d", args[0], status)
	}
}

// A configuration is applied, then matches the server, and is gone after it is destroyed.
func TestTerraform(t *testing.T) {
	n, run := startTerraform(t, "alarms")
	run.must("apply", "-auto-approve")
	// Status 2 means that it would change something.
	if status := run.status("plan", "-detailed-exitcode"); status != 0 {
		t.Errorf("terraform plan: status %d, want nothing to change", status)
	}

	// A change is one of the alarm that is there.
	run.must("apply", "-auto-approve", "-var=threshold=2")
	client := n.cloudWatch(speak["CBOR"])
	out, err := client.DescribeAlarms(t.Context(), &cloudwatch.DescribeAlarmsInput{})
	if err != nil || len(out.MetricAlarms) != 2 {
		t.Fatalf("got %d alarms, %v, want the two of the configuration", len(out.MetricAlarms), err)
	}
	if single, math := out.MetricAlarms[0], out.MetricAlarms[1]; *single.AlarmName != "data-download-dlq-not-empty" || *single.Threshold != 2 || len(math.Metrics) != 3 {
		t.Errorf("got %s with threshold %v, and %s with %d queries", *single.AlarmName, *single.Threshold, *math.AlarmName, len(math.Metrics))
	}
	dlq := n.arn("data-download-dlq.fifo")
	if got := attributes(t, n, "data-download-queue.fifo", types.QueueAttributeNameRedrivePolicy)["RedrivePolicy"]; got != redrive(dlq, 3) {
		t.Errorf("redrive policy: got %s, want %s", got, redrive(dlq, 3))
	}

	orders := attributes(t, n, "data-orders", "All")
	for name, want := range map[string]string{
		"DelaySeconds": "5", "MaximumMessageSize": "2048", "MessageRetentionPeriod": "86400", "ReceiveMessageWaitTimeSeconds": "10",
		"VisibilityTimeout": "60", "SqsManagedSseEnabled": "true", "RedrivePolicy": redrive(n.arn("data-orders-dead"), 4),
	} {
		if orders[name] != want {
			t.Errorf("%s: got %s, want %s", name, orders[name], want)
		}
	}
	if orders["Policy"] == "" {
		t.Error("the queue has no policy")
	}

	run.must("destroy", "-auto-approve")
	out, err = client.DescribeAlarms(t.Context(), &cloudwatch.DescribeAlarmsInput{})
	if err != nil || len(out.MetricAlarms) != 0 {
		t.Errorf("alarms after the configuration is destroyed: got %+v, %v, want none", out, err)
	}
	queues, err := n.ListQueues(t.Context(), &sqs.ListQueuesInput{QueueNamePrefix: aws.String("data-")})
	if err != nil || len(queues.QueueUrls) != 0 {
		t.Errorf("queues after the configuration is destroyed: got %+v, %v, want none", queues, err)
	}
}
