package outbox

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/cli"
	"tenaq/outbox"
	"tenaq/outbox/outboxtest"
)

// Once a minute there is a line, if there is anything to say.
func TestOutboxSummaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := NewLog(slog.New(slog.NewTextHandler(&text, nil)))
		ticks := make(chan time.Time)
		go l.summaries(t.Context(), ticks)
		want := func(count int, last string) {
			t.Helper()
			ticks <- time.Time{}
			synctest.Wait()
			if got := text.String(); strings.Count(got, "msg=relayed") != count || !strings.HasSuffix(got, last) {
				t.Errorf("got %q, want %d summaries and %q at the end", got, count, last)
			}
		}
		e := l.events()
		want(0, "")
		e.Sent(outbox.Row{}, "m1")
		e.Sent(outbox.Row{}, "m2")
		e.Failed(outbox.Row{}, "no", time.Second)
		e.Parked(outbox.Row{}, "no")
		want(1, "sent=2 refused=1 parked=1 lost=0\n")
		want(1, "sent=2 refused=1 parked=1 lost=0\n")
		e.Lost(outbox.Row{})
		want(2, "sent=0 refused=0 parked=0 lost=1\n")
		l.stopped()
		if want := "msg=stopped sent=2 refused=1 parked=1 lost=1\n"; !strings.HasSuffix(text.String(), want) {
			t.Errorf("got %q, want %q at the end", text.String(), want)
		}
	})
}

// Who runs a relay from cron hears of a database that does not answer, and does not wait for it.
func TestOutboxEndWithoutDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := outboxtest.NewMemory()
		box.SetFault(func(call string) error {
			if call == "Claim" {
				return outboxtest.ErrInjected
			}
			return nil
		})
		running, stop := context.WithCancel(t.Context())
		defer stop()
		end := NewEnd(box, false, stop)
		relay, err := outbox.NewRelay(outbox.Config{
			Box: end, Client: relayClient{}, Logger: slog.New(slog.DiscardHandler), Events: end.events(NewLog(slog.New(slog.DiscardHandler)).events()),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := relay.Run(running); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		place, err := NewSQLite("app.db")
		if err != nil {
			t.Fatal(err)
		}
		err = end.verdict(t.Context(), &cli.App{Stdout: &out, JSON: true}, place)
		if cli.ExitCode(err) != cli.ExitFailed || !strings.Contains(err.Error(), "the outbox cannot be asked what is left") || !strings.Contains(out.String(), `"left": null`) {
			t.Errorf("got %v with exit code %d, and %s; want %d, with nobody knowing what is left", err, cli.ExitCode(err), &out, cli.ExitFailed)
		}
	})
}
