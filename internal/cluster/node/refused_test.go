package node

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		r := refusals{log: slog.New(slog.NewTextHandler(&text, nil)), said: map[string]time.Time{}}
		from := func(host byte) net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, host), Port: 1} }
		said := func(what string, want int) {
			t.Helper()
			if got := strings.Count(text.String(), "refused"); got != want {
				t.Errorf("%s: %d lines, want %d", what, got, want)
			}
			text.Reset()
		}
		r.note(from(1), io.EOF)
		said("a probe", 0)
		for i := range 10 {
			r.note(from(1), fmt.Errorf("reason %d", i))
		}
		r.note(from(2), errors.New("reason"))
		r.note(nil, errors.New("too many open files"))
		said("two ends and this node", 3)
		time.Sleep(refusedEvery)
		r.note(from(1), errors.New("reason"))
		said("a minute later", 1)
		for i := range 2 * refusedMax {
			r.note(&net.TCPAddr{IP: net.IPv4(10, 1, byte(i/256), byte(i))}, errors.New("reason"))
		}
		said("many ends", refusedMax-1)
	})
}
