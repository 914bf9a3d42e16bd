package cli

import (
	"testing"
	"time"

	"tenaq/internal/work/sqslimits"
)

func TestParseDuration(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want time.Duration
		err  string
	}{
		{in: "60s", want: time.Minute},
		{in: "0", want: 0},
		{in: "0s", want: 0},
		{in: "1h30m", want: 90 * time.Minute},
		{in: "60", err: `"60" has no unit; write 60s for seconds`},
		{in: "-1s", err: `"-1s" is negative`},
		{in: "", err: `"" is not a duration such as 90s or 5m`},
		{in: "1d", want: 24 * time.Hour},
		{in: "1d12h30m", want: 36*time.Hour + 30*time.Minute},
		{in: "0d", want: 0},
		{in: "d", err: `"d" is not a duration such as 90s or 5m`},
		{in: "-1d", err: `"-1d" is not a duration such as 90s or 5m`},
		{in: "1.5d", err: `"1.5d" is not a duration such as 90s or 5m`},
		{in: "1d24h", err: `"1d24h" is not a duration such as 90s or 5m`},
		{in: "1d2d", err: `"1d2d" is not a duration such as 90s or 5m`},
		{in: "99999999999d", err: `"99999999999d" is not a duration such as 90s or 5m`},
		{in: "sd5", err: `"sd5" is not a duration such as 90s or 5m`},
	} {
		got, err := ParseDuration(tt.in)
		if got != tt.want || errorText(err) != tt.err {
			t.Errorf("parseDuration(%q): got %v, %q, want %v, %q", tt.in, got, errorText(err), tt.want, tt.err)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int32
		err  string
	}{
		{in: "15m", want: 900},
		{in: "0", want: 0},
		{in: "15m1s", err: `"15m1s" is more than SQS allows, 15 min`},
		{in: "100000h", err: `"100000h" is more than SQS allows, 15 min`},
		{in: "1500ms", err: `"1500ms" is not a whole number of seconds`},
	} {
		got, err := ParseSeconds(tt.in, sqslimits.DelayMax)
		if got != tt.want || errorText(err) != tt.err {
			t.Errorf("parseSeconds(%q): got %v, %q, want %v, %q", tt.in, got, errorText(err), tt.want, tt.err)
		}
	}
}

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int64
		err  string
	}{
		{in: "512MiB", want: 512 << 20},
		{in: "512 MiB", want: 512 << 20},
		{in: "1GB", want: 1e9},
		{in: "1kB", want: 1000},
		{in: "4096", want: 4096},
		{in: "4096B", want: 4096},
		{in: "0", want: 0},
		{in: "7TiB", want: 7 << 40},
		{in: "9000000TiB", err: `"9000000TiB" is too large`},
		{in: "99999999999999999999", err: `"99999999999999999999" is too large`},
		{in: "512M", err: `"512M" is not a size such as 512MiB or 1GB`},
		{in: "1.5GiB", err: `"1.5GiB" is not a size such as 512MiB or 1GB`},
		{in: "MiB", err: `"MiB" is not a size such as 512MiB or 1GB`},
		{in: "-1MiB", err: `"-1MiB" is negative`},
	} {
		got, err := ParseSize(tt.in)
		if got != tt.want || errorText(err) != tt.err {
			t.Errorf("parseSize(%q): got %v, %q, want %v, %q", tt.in, got, errorText(err), tt.want, tt.err)
		}
	}
}

func TestHuman(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{HumanSize(0), "0 B"},
		{HumanSize(1023), "1023 B"},
		{HumanSize(1024), "1 KiB"},
		{HumanSize(1 << 20), "1 MiB"},
		{HumanSize(256 << 10), "256 KiB"},
		{HumanSize(12_345), "12.1 KiB"},
		{HumanSize(5 << 40), "5 TiB"},
		{HumanDuration(0), "0 s"},
		{HumanDuration(30 * time.Second), "30 s"},
		{HumanDuration(345_600 * time.Second), "4 days"},
		{HumanDuration(90_061 * time.Second), "1 day 1 h 1 min 1 s"},
		{HumanTime(time.Unix(0, 0), time.Unix(0, 0)), "1970-01-01T00:00:00Z"},
		{HumanTime(time.Unix(0, 0), time.Unix(90_061, 0)), "1970-01-01T00:00:00Z, 1 day ago"},
		{HumanTime(time.Unix(90_061, 0), time.Unix(0, 0)), "1970-01-02T01:01:01Z"}, // the server's clock is ahead
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestNearest(t *testing.T) {
	for _, tt := range []struct{ word, want string }{
		{"lisen", "listen"},
		{"LISTEN", "listen"},
		{"litsen", "listen"},
		{"xyz", ""},
		{"regoin", "region"},
		{"", ""},
	} {
		if got := Nearest(tt.word, []string{"listen", "region"}); got != tt.want {
			t.Errorf("nearest(%q): got %q, want %q", tt.word, got, tt.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCounted(t *testing.T) {
	for n, want := range map[int64]string{0: "0 messages", 1: "1 message", 2: "2 messages", -1: "-1 messages"} {
		if got := Counted(n, "message", "messages"); got != want {
			t.Errorf("counted(%d): got %q, want %q", n, got, want)
		}
	}
}
