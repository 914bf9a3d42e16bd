package offloadtest_test

import (
	"testing"

	"tenaq/offload"
	"tenaq/offload/offloadtest"
)

func TestMemory(t *testing.T) {
	offloadtest.Run(t, func(*testing.T) func() offload.Store {
		m := offloadtest.NewMemory("memory")
		return func() offload.Store { return m }
	})
}
