package cli

import (
	"testing"
)

// If the user sets the number of threads, or limits the process to a part of the machine, that
// setting is kept.
func TestThreads(t *testing.T) {
	for _, test := range []struct {
		name                string
		env                 string
		processors, settled int
		want                int
	}{
		{"a machine of its own", "", 2, 2, 4},
		{"one processor", "", 1, 1, 3},
		{"a large machine", "", 64, 64, 66},
		{"a quota", "", 64, 4, 4},
		{"a number that is set", "2", 2, 2, 2},
		{"more than there are", "8", 2, 8, 8},
	} {
		getenv := func(name string) string {
			if name == "GOMAXPROCS" {
				return test.env
			}
			return ""
		}
		if got := threads(getenv, test.processors, test.settled); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// If the user sets how the heap is collected, that setting is kept.
func TestPaceGC(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		ballast := PaceGC(func(asked string) string {
			if asked == name {
				return "100"
			}
			return ""
		})
		if ballast != nil {
			t.Errorf("%s is set: a ballast of %d bytes, want none", name, len(ballast))
		}
	}
}
