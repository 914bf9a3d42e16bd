package demo

import (
	"slices"
	"testing"

	"tenaq/internal/settings"
)

// The example declares its queues as they can be declared.
func TestPipelineExampleQueues(t *testing.T) {
	file, err := settings.ReadConfigFile("../../../examples/pipeline/tenaq.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, q := range file.Queues {
		names = append(names, q.Name)
	}
	if want := []string{"data-download-queue.fifo", "data-download-dlq.fifo"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}
