package row

import (
	"math/rand/v2"
	"testing"
)

// An expiry row stands at the expiry of its record or a little later, never earlier. That of a
// record of an earlier version, or with a short life, stands exactly there.
func TestExpiryAt(t *testing.T) {
	const minute, day = int64(60_000), int64(24 * 3600_000)
	for _, tt := range []struct {
		written, expires, want int64
		exact                  bool
	}{
		{5, 0, 0, false},
		{5, 5 + 69*minute, 5 + 69*minute, false},
		{5, 5 + 15*day, 5 + 15*day, true},
		{0, 1<<32 - 1, 1 << 32, false},
		{0, 1 << 32, 1 << 32, false},
		{0, 1<<32 + 1, 1<<32 + 1<<20, false},
		{0, MaxTime, MaxTime, false},
		{0, MaxTime - 1, MaxTime - 1, false},
	} {
		r := Record{Written: tt.written, Expires: tt.expires, Exact: tt.exact}
		if got := r.ExpiryAt(); got != tt.want {
			t.Errorf("%+v: got %d, want %d", r, got, tt.want)
		}
	}
	for range 10_000 {
		r := Record{Written: rand.Int64N(1 << 50)}
		life := rand.Int64N(1 << (10 + rand.N(40)))
		r.Expires = r.Written + life
		if late := r.ExpiryAt() - r.Expires; late < 0 || late > 0 && (late >= life/stepsInLife || life < 70*minute-minute) {
			t.Errorf("%+v: the row stands at %d, %d ms later", r, r.ExpiryAt(), late)
		}
	}
}

// A claim that ends soon keeps its expiry row.
func TestExpiryStays(t *testing.T) {
	stays := 0
	for i := range int64(1000) {
		begun := Record{Written: i * 1_000_003, Expires: i*1_000_003 + 15*24*3600_000}
		ended := Record{Written: begun.Written + 2000, Expires: begun.Expires + 2000}
		if begun.ExpiryAt() == ended.ExpiryAt() {
			stays++
		}
	}
	if stays < 980 {
		t.Errorf("%d of 1,000 expiry rows stay, want 980", stays)
	}
}
