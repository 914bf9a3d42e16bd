package backoff

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestCeiling(t *testing.T) {
	for _, c := range []struct {
		attempt    int
		base, most time.Duration
		want       time.Duration
	}{
		{0, time.Second, time.Minute, time.Second},
		{1, time.Second, time.Minute, time.Second},
		{2, time.Second, time.Minute, 2 * time.Second},
		{6, time.Second, time.Minute, 32 * time.Second},
		{7, time.Second, time.Minute, time.Minute},
		{1 << 40, time.Second, time.Minute, time.Minute},
		{3, time.Hour, time.Minute, time.Minute},
		{90, 1, math.MaxInt64, math.MaxInt64}, // no overflow
		{5, 0, time.Minute, 0},
	} {
		if got := Ceiling(c.attempt, c.base, c.most); got != c.want {
			t.Errorf("attempt %d of %v up to %v: got %v, want %v", c.attempt, c.base, c.most, got, c.want)
		}
	}
}

func TestFull(t *testing.T) {
	for _, chance := range []float64{0, 0.5, math.Nextafter(1, 0)} {
		got := Full(3, time.Second, time.Minute, chance)
		if want := time.Duration(chance * 4e9); got != want {
			t.Errorf("chance %v: got %v, want %v", chance, got, want)
		}
	}
}

func TestJitter(t *testing.T) {
	for _, d := range []time.Duration{0, 1, time.Second} {
		for range 100 {
			if got := Jitter(d); got < d/2 || got > d {
				t.Fatalf("Jitter(%v) = %v, want at least half of it and at most all", d, got)
			}
		}
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if err := Sleep(ctx, 7*time.Second); err != nil || time.Since(began) != 7*time.Second {
			t.Errorf("it returned %v after %v, want nil after 7s", err, time.Since(began))
		}
		if err := Sleep(ctx, 7*time.Second); err != context.DeadlineExceeded || time.Since(began) != 10*time.Second {
			t.Errorf("it returned %v after %v, want %v after 10s", err, time.Since(began), context.DeadlineExceeded)
		}
		if err := Sleep(ctx, 0); err != context.DeadlineExceeded {
			t.Errorf("it returned %v, want %v", err, context.DeadlineExceeded)
		}
	})
}
