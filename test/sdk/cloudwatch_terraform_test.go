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

// A configuration is applied, is then what the server says it is, and is gone after it is
// destroyed.
func TestTerraform(t *testing.T) {
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
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "terraform"))); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) int {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "terraform", append([]string{"-chdir=" + dir}, args...)...)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 30 * time.Second
		cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_CLI_CONFIG_FILE="+os.DevNull,
			"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull,
			"NO_PROXY=127.0.0.1", "TF_VAR_endpoint=http://"+n.server.Addr())
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatalf("terraform %s: %v\n%s", args[0], err, out)
		}
		status := cmd.ProcessState.ExitCode()
		if status != 0 {
			t.Logf("terraform %s:\n%s", args[0], out)
		}
		return status
	}
	must := func(args ...string) {
		t.Helper()
		if status := run(args...); status != 0 {
			t.Fatalf("terraform %s: status %d", args[0], status)
		}
	}
	must("init", "-input=false", "-no-color", "-plugin-dir="+providers)
	must("apply", "-input=false", "-no-color", "-auto-approve")
	// Status 2 means that it would change something.
	if status := run("plan", "-input=false", "-no-color", "-detailed-exitcode"); status != 0 {
		t.Errorf("terraform plan: status %d, want nothing to change", status)
	}

	// A change is one of the alarm that is there.
	must("apply", "-input=false", "-no-color", "-auto-approve", "-var=threshold=2")
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

	must("destroy", "-input=false", "-no-color", "-auto-approve")
	out, err = client.DescribeAlarms(t.Context(), &cloudwatch.DescribeAlarmsInput{})
	if err != nil || len(out.MetricAlarms) != 0 {
		t.Errorf("alarms after the configuration is destroyed: got %+v, %v, want none", out, err)
	}
	queues, err := n.ListQueues(t.Context(), &sqs.ListQueuesInput{QueueNamePrefix: aws.String("data-")})
	if err != nil || len(queues.QueueUrls) != 0 {
		t.Errorf("queues after the configuration is destroyed: got %+v, %v, want none", queues, err)
	}
}
