package main

import (
	"os/exec"
	"slices"
	"testing"

	"tenaq/internal/dynamotest"
)

// The pipeline needs nothing of the server that another SQS has not. moto stands for the others.
func TestPipelineOnAnotherSQS(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	t.Parallel()
	endpoint := *dynamotest.Client(t).Options().BaseEndpoint
	program, err := exec.LookPath("tenaq") // which TestMain has made
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "demo", "pipeline", "--seed", "7", "--endpoint-url", endpoint).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The example declares its queues as they can be declared.
func TestPipelineExampleQueues(t *testing.T) {
	file, err := readConfigFile("../../examples/pipeline/tenaq.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, q := range file.queues {
		names = append(names, q.Name)
	}
	if want := []string{"data-download-queue.fifo", "data-download-dlq.fifo"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}
