package worker_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"tenaq/internal/testing/built"
)

func TestMain(m *testing.M) {
	if settings := os.Getenv(childSettings); settings != "" {
		if err := childMain(settings); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Worlds wait most of the time. There can be more of them at once than processors.
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(built.Tests(m))
}
