package sqs

import (
	"crypto/md5"
	"strings"
	"testing"
)

// [MD5-1]
func TestSumOf(t *testing.T) {
	for _, n := range []int{0, 1, 64, 4095, 4096, 4097, 8192, 1 << 20} {
		body := strings.Repeat("0123456789", n/10+1)[:n]
		if got, want := sumOf(body), md5.Sum([]byte(body)); got != want {
			t.Errorf("a body of %d bytes: got %x, want %x", n, got, want)
		}
	}
}
