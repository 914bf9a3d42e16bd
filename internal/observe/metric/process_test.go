package metric

import "testing"

// CPU time rises while the process works, and never falls.
func TestCPUSeconds(t *testing.T) {
	began := CPUSeconds()
	if began <= 0 {
		t.Fatalf("the process has used %v s", began)
	}
	sum := 0
	for last := began; last == began; {
		for i := range 1_000_000 {
			sum += i * i
		}
		now := CPUSeconds()
		if now < last {
			t.Fatalf("it went back from %v to %v", last, now)
		}
		last = now
	}
	_ = sum
}
