package console_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tenaq/internal/testing/built"
	"tenaq/outbox"
	"tenaq/outbox/sqliteoutbox"
)

func asideID(i int) string { return fmt.Sprintf("018f3a5e-0000-7000-8000-%012d", i) }

// setAside makes the outbox shop with rows that were set aside, in the order of their numbers.
func setAside(t *testing.T, n int) (box *sqliteoutbox.Box, address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	box, err := sqliteoutbox.New(sqliteoutbox.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.Close() })
	if err := box.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		err := box.Enqueue(t.Context(), outbox.Message{ID: asideID(i), Queue: "orders", Body: "a secret body", Key: "order-" + fmt.Sprint(i)})
		if err == nil {
			_, _, err = box.Claim(t.Context(), outbox.Claim{Relay: "r", Lease: time.Hour, Rows: 1, Bytes: 1 << 20, Stream: 1})
		}
		if err == nil {
			err = box.Settle(t.Context(), "r", []outbox.Outcome{{ID: asideID(i), Fate: outbox.Parked, Reason: "The group is missing"}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return box, "sqlite:" + path
}

// relays runs a relay of an outbox until the test ends, with a key of the environment, and returns
// its log.
func (s *server) relays(t *testing.T, address string, env []string, args ...string) *bytes.Buffer {
	t.Helper()
	relay := exec.CommandContext(t.Context(), built.Program(t), append([]string{"outbox", "relay", "--db", address, "--endpoint-url", s.URL()}, args...)...)
	relay.Env = append(os.Environ(), env...)
	relay.Cancel = func() error { return relay.Process.Signal(os.Interrupt) }
	relay.WaitDelay = time.Minute
	var log bytes.Buffer
	relay.Stderr = &log
	if err := relay.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Wait() })
	return &log
}

// asReported is a report of a relay that takes orders, about rows that were set aside just now.
func asReported(s *server) {
	s.tell("Tenaq/Outbox", "Outbox", "shop", "OldestDueAge", time.Now(), 0)
	s.tell("Tenaq/Outbox", "Outbox", "shop", "ParkedRows", time.Now(), 2)
	var rows []object
	for i := range 2 {
		rows = append(rows, object{"id": asideID(i), "queue": "orders", "attempts": 10, "reason": "no", "parkedAt": time.Now()})
	}
	s.ask("/v1/outbox/shop/parked", object{"rows": rows, "orders": []string{"release", "discard"}}, nil)
}

// A relay carries out what is ordered in the browser: rows disappear from the page within seconds,
// and their messages arrive or are gone. [V1-27]
func TestOutboxOrders(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("orders", nil, nil)
	box, address := setAside(t, 5)
	s.relays(t, address, nil, "--orders", "all")
	b := s.open(t, "#/outbox/shop")
	rows := func(n int) {
		t.Helper()
		b.until(fmt.Sprintf("%d rows are left", n), fmt.Sprintf(`document.querySelectorAll("main section tbody tr").length === %d && document.querySelector("main h1")`, n))
	}
	rows(5)
	b.sees("its relay carries out what you order, within 10 s")
	b.judged("outbox-orders")
	b.click(fmt.Sprintf(`button[aria-label="Release %s"]`, asideID(0)), "")
	b.sees("Ordered: a relay of shop releases 1 row within 10 s.")
	b.sees("is released")
	rows(4)
	b.asks(fmt.Sprintf(`button[aria-label="Discard %s"]`, asideID(1)), "", "Discard 1 row of shop")
	b.sees("cannot be taken back")
	if !eval[bool](b, `document.querySelector("dialog[open] button[type=submit]").disabled`) {
		t.Error("a row can be discarded before its number is typed")
	}
	b.judged("outbox-discard")
	b.fill("To confirm", "1")
	b.submit()
	b.closes()
	b.sees("is discarded")
	rows(3)
	b.asks("main p.acts button", "Release all 3", "Release 3 rows of shop")
	b.submit()
	b.closes()
	b.until("no row is left", `/There (are|were) none/.test(document.querySelector("main").innerText)`) // above is the number of a minute ago
	for end := time.Now().Add(time.Minute); s.depth("orders") != "4 0 0"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the queue has %s, want 4 messages", s.depth("orders"))
		}
	}
	found, err := box.Find(t.Context(), []string{asideID(1)}, nil, 10)
	if err != nil || len(found) != 0 {
		t.Errorf("the row that was discarded is found: %+v, %v", found, err)
	}
}

// The page offers only what a relay takes orders to do, and says so. [V1-27]
func TestOutboxOrdersNotTaken(t *testing.T) {
	t.Parallel()
	for orders, says := range map[string]string{"release": "so it discards no rows", "none": "no relay takes orders now"} {
		s := serve(t, nil)
		_, address := setAside(t, 2)
		s.relays(t, address, nil, "--orders", orders)
		b := s.open(t, "#/outbox/shop")
		b.sees("order-1")
		b.sees(says)
		if n := eval[float64](b, `[...document.querySelectorAll("main button")].filter((e) => e.innerText.startsWith("Discard")).length`); n > 0 {
			t.Errorf("--orders %s: the page has %v buttons to discard", orders, n)
		}
		if n := eval[float64](b, `[...document.querySelectorAll("main button")].filter((e) => e.innerText.startsWith("Release")).length`); (n == 3) != (orders == "release") {
			t.Errorf("--orders %s: the page has %v buttons to release", orders, n)
		}
		if orders == "none" {
			b.sees("tenaq outbox parked release --queue orders --run")
		}
	}
	s := serve(t, nil, "--console-read-only")
	asReported(s)
	b := s.open(t, "#/outbox/shop")
	b.sees(asideID(1))
	if eval[bool](b, `[...document.querySelectorAll("main button")].some((e) => /^(Release|Discard)/.test(e.innerText))`) {
		t.Error("the console is read-only, and the page has buttons")
	}
	if text := b.text("main"); !strings.Contains(text, "Use commands to release or discard them") {
		t.Errorf("the page says %s", text)
	}
}
