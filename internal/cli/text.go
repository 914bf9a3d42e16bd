package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/records"
)

func OrEmpty(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

func OrDash(s string) string { return cmp.Or(s, "-") }

// AgeText formats the age of an entry in its largest unit.
func AgeText(age time.Duration) string {
	if age == records.AgeUnknown {
		return "unknown"
	}
	return RoughDuration(age)
}

// UnlessInterrupted does what cannot be cancelled, such as reading from a terminal. It returns
// without waiting for the end if ctx ends first.
func UnlessInterrupted[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := do()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, errors.New("interrupted")
	}
}

func OneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) { _ = backoff.Sleep(ctx, d) }

// FirstWords cuts what is too long for a column.
func FirstWords(text string, most int) string {
	text, _, _ = strings.Cut(text, "\n")
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

func TimeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func SecondsText(s float64) string { return AgeText(time.Duration(s * float64(time.Second))) }

// TimeText formats a moment and how long ago it was; "never" for none.
func TimeText(t *time.Time, now time.Time) string {
	if t == nil {
		return "never"
	}
	return HumanTime(*t, now)
}

// AgoText formats how long ago a moment was; "-" for none.
func AgoText(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	return AgeText(now.Sub(*t)) + " ago"
}

func SplitList(v string) []string {
	var list []string
	for item := range strings.SplitSeq(v, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// Counted formats a number of things, with the singular for one.
func Counted[N int | int32 | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
