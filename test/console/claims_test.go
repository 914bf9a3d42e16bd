package console_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"tenaq/claims"
	"tenaq/internal/testing/pgtest"
	"tenaq/records"
	"tenaq/records/pgrecords"
	"tenaq/records/sqliterecords"
)

// claim does something with a claim, and returns its fence.
func (s *server) claim(key, what string, in object) (fence uint64) {
	s.t.Helper()
	var c struct{ Fence uint64 }
	s.ask("/v1/claims/"+url.PathEscape(key)+"/"+what, in, &c)
	return c.Fence
}

// addClaims adds claims in several states, and a message whose work one of them is.
func (s *server) addClaims() {
	s.t.Helper()
	s.create("orders", nil, object{"tenaq:history": "7d"})
	s.send("orders", `{"order":42}`, object{"MessageAttributes": object{"tenaq": object{"DataType": "String", "StringValue": "v=1&key=order-42"}}})
	m := s.receive("orders", nil)[0]
	s.claim("order-42", "acquire", object{"owner": "worker-7", "messageId": m.MessageId, "memo": `{"order":42}`, "leaseMs": 3600_000})
	s.claim("order-43", "complete", object{"fence": s.claim("order-43", "acquire", object{"owner": "worker-7"}), "result": `{"charge":"ch_1"}`})
	s.claim("order-44", "fail", object{"fence": s.claim("order-44", "acquire", object{"owner": "worker-8"}), "reason": "timeout after 3000 ms"})
	s.claim("order-45", "acquire", object{"owner": "worker-8", "leaseMs": 1000})
	s.put("claim/order-46", object{"v": 1, "state": "parked", "owner": "worker-9", "attempts": 2, "reason": "a holder was lost, and it is unknown how far it came"})
	for i := range 120 {
		key := fmt.Sprintf("mail-%03d", i)
		s.claim(key, "complete", object{"fence": s.claim(key, "acquire", object{"owner": "mailer"})})
	}
}

// Claims are searched, shown with the life of their work, settled and released. [REC-16, REC-17]
func TestClaims(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := s.blank(t)
	b.waits(10*time.Second, time.Hour) // with Undo, which the test presses later
	b.visit(s.URL() + "/console/#/claims")
	b.sees("There is no claim in the records of this server")
	b.judged("no-claims")
	s.addClaims()
	b.goTo("#/claims?prefix=order-")
	b.sees("parked: awaits a decision")
	b.until("a lease has expired", `document.querySelector("main").innerText.includes("held, lease expired")`)
	b.judged("claims")
	b.picture("console-claims")
	b.press("c")
	b.sees("tenaq claims list order- --records server")
	b.press("\x1b")
	rows := `document.querySelectorAll("main tbody tr").length`
	b.fill("Key begins with", "mail-")
	b.until("there are 50", rows+" === 50")
	b.click("button", "More claims")
	b.until("there are 100", rows+" === 100")
	b.click("button", "More claims")
	b.until("there are 120", rows+` === 120 && !document.body.innerText.includes("More claims")`)
	b.fill("Key begins with", "")
	b.fill("State", "stuck")
	b.until("three are stuck", rows+" === 3")
	b.click("a[data-row]", "order-46")
	b.sees("it is unknown how far it came")

	b.asks("button", "Settle", "Settle order-46")
	b.fill("Reason", "it's with the bank")
	b.fill("Result", "ch_2")
	b.shows(`tenaq claims settle order-46 --reason 'it'\''s with the bank' --result ch_2 --records server`)
	b.judged("settle")
	b.submit()
	b.sees("Recorded that order-46 is done.")
	b.until("it is done", `document.querySelector("main .badge").innerText.includes("completed")`)
	s.logged("ManageClaims", "claim/order-46")
	b.click(".toast button", "Undo")
	b.sees("Undone.")
	b.until("it awaits a decision again", `document.querySelector("main .badge").innerText.includes("parked") && document.querySelector("main").innerText.includes("it is unknown how far it came")`)
	b.asks("button", "Settle", "Settle order-46")
	b.fill("Reason", "it's with the bank")
	b.submit()
	b.sees("Recorded that order-46 is done.")
	s.ask("/v1/claims/order-46/reopen", object{"reason": "another person", "force": true}, nil)
	b.click(".toast button", "Undo")
	b.sees("has changed in the meantime")
	b.click(".toast button", "×")
	b.goTo("#/claims/order-42")
	b.sees("worker-7")
	b.until("its life is there", `document.querySelector(".life")?.innerText.includes("received")`)
	b.judged("claim")
	b.asks("button", "Release", "Release order-42")
	b.fill("Reason", "its host is switched off")
	disabled := `document.querySelector("dialog[open] button[type=submit]").disabled`
	if !eval[bool](b, disabled) {
		t.Error("a claim whose lease runs is released without a second thought")
	}
	b.sees("This cannot be taken back.") // because its holder loses the claim
	b.judged("release")
	b.click("dialog[open] .check input", "")
	b.shows("--force")
	b.submit()
	b.sees("order-42 can be claimed again.")
	if strings.Contains(b.text(".toast"), "Undo") {
		t.Error("a holder that has lost its claim could get it back")
	}
	var c struct{ State, Reason string }
	s.ask("/v1/claims/order-42", nil, &c)
	if c.State != "released" || c.Reason != "its host is switched off" {
		t.Errorf("got %+v", c)
	}
	b.click("main a", "Show where the work is now")
	b.sees("Life of order-42")
	b.press("g", "c")
	b.sees("mail-000")
}

// addClaimsTo adds claims to a store, as workers do.
func addClaimsTo(t *testing.T, store records.Store) *claims.Ledger {
	t.Helper()
	t.Cleanup(func() { store.Close() })
	l, err := claims.New(claims.Config{Store: store, Owner: "worker-7"})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"order-43", "order-44"} {
		c, err := l.Acquire(t.Context(), key)
		if err == nil && key == "order-43" {
			err = c.Complete(t.Context(), []byte("ch_1"))
		} else if err == nil {
			err = c.Fail(t.Context(), "timeout after 3000 ms")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	parked := `{"v":1,"state":"parked","owner":"worker-9","attempts":2,"reason":"a holder was lost, and it is unknown how far it came"}`
	if _, err := store.Put(t.Context(), records.Write{Key: "claim/order-46", Value: []byte(parked)}); err != nil {
		t.Fatal(err)
	}
	return l
}

func sqliteStore(path string) records.Store {
	return must(sqliterecords.New(sqliterecords.Config{Path: path}))
}

// Claims in other stores are shown, settled and released there. A store that is away makes one
// panel fail, with what to do, and no password is shown. [REC-18, CONSOLE-15]
func TestOtherStores(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := t.TempDir() + "/shop.db"
		otherStores(t, sqliteStore(path), "sqlite:"+path, "sqlite:"+path, "sqlite:"+path)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		address := pgtest.URL(t)
		store := must(pgrecords.New(pgrecords.Config{URL: address}))
		if err := store.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		u := must(url.Parse(address))
		u.RawQuery = u.Query().Encode()
		otherStores(t, store, strings.Replace(address, "postgres@", "postgres:very-hidden@", 1), u.String(), "'"+u.String()+"'")
	})
}

// otherStores uses a store at an address, which is shown without its password, and as a word of a
// command.
func otherStores(t *testing.T, store records.Store, address, shown, word string) {
	t.Helper()
	l := addClaimsTo(t, store)
	dir := t.TempDir()
	config := dir + "/tenaq.yaml"
	if err := os.WriteFile(config, fmt.Appendf(nil, `claims:
  - {name: shop, records: %q}
  - {name: away, records: "postgres://app:very-hidden@127.0.0.1:1/shop"}
  - {name: costly, records: "dynamodb:jobs"}
`, address), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, []string{"AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:1", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "AWS_REGION=us-east-1"}, "--config", config)
	s.claim("order-42", "acquire", object{"owner": "worker-7"})
	b := s.blank(t)
	b.waits(10*time.Second, time.Hour) // with Undo, which the test presses later
	b.visit(s.URL() + "/console/#/claims")
	b.sees("order-42")
	b.fill("Store", "shop")
	b.sees("parked: awaits a decision")
	b.sees("These claims are in " + shown)
	if strings.Contains(b.text("main"), "order-42") {
		t.Error("claims of the server are among those of another store")
	}
	b.judged("claims-elsewhere")
	secret := func() {
		t.Helper()
		if strings.Contains(eval[string](b, "document.documentElement.outerHTML"), "very-hidden") {
			t.Error("the page shows the password of a store")
		}
	}
	secret()
	b.press("c")
	b.sees("tenaq claims list --records " + word)
	b.press("\x1b")
	b.fill("State", "stuck")
	b.until("two are stuck", `document.querySelectorAll("main tbody tr").length === 2`)
	b.click("a[data-row]", "order-46")
	b.sees("it is unknown how far it came")
	b.asks("button", "Settle", "Settle order-46")
	b.fill("Reason", "the bank has it")
	b.fill("Result", "ch_2")
	b.shows("tenaq claims settle order-46 --reason 'the bank has it' --result ch_2 --records " + word)
	secret()
	b.submit()
	b.sees("Recorded that order-46 is done.")
	b.judged("claim-elsewhere")
	if e, err := l.Entry(t.Context(), "order-46"); err != nil || e.State != claims.Completed || string(e.Result) != "ch_2" || e.Reason != "the bank has it" {
		t.Errorf("a worker sees %+v, %v", e, err)
	}
	s.logged("ManageClaims", "claim/order-46")
	b.goTo("#/claims/order-44?store=shop")
	b.asks("button", "Release", "Release order-44")
	b.fill("Reason", "again")
	b.submit()
	b.sees("order-44 can be claimed again.")
	b.click(".toast button", "Undo")
	b.sees("Undone.")
	if e, err := l.Entry(t.Context(), "order-44"); err != nil || e.State != claims.Failed || e.Reason != "timeout after 3000 ms" || e.Owner != "worker-7" {
		t.Errorf("after Undo a worker sees %+v, %v", e, err)
	}
	b.asks("button", "Release", "Release order-44")
	b.fill("Reason", "again")
	b.submit()
	b.sees("order-44 can be claimed again.")
	if c, err := l.Acquire(t.Context(), "order-44"); err != nil || c.Attempts() != 1 {
		t.Errorf("a worker claims it: %+v, %v", c, err)
	}

	b.click("main h1 a", "Claims")
	b.until("the list of the store is there", `document.querySelector("main tbody tr")`)
	b.fill("Store", "away")
	b.sees("The store away, which is postgres://app@127.0.0.1:1/shop, cannot be used now")
	b.sees("Check that it runs, that this server reaches it")
	secret()
	b.judged("store-away")
	b.goTo("#/claims/order-1?store=away")
	b.sees("cannot be used now")
	b.goTo("#/claims?store=costly")
	b.sees("Each list reads the whole table")
	b.judged("store-costly")
	b.click("main button", "Read the table")
	b.sees("The store costly, which is dynamodb:jobs, cannot be used now")
	b.fill("Store", "")
	b.sees("order-42") // the claims of the server, meanwhile
	b.press("g", "o")
	b.sees("queues")
}

// addManyClaims adds claims of work that is done, and behind them one that awaits a decision.
func (s *server) addManyClaims(n int) {
	s.t.Helper()
	done, err := json.Marshal(object{"v": 1, "state": "completed", "owner": "worker-7", "attempts": 1})
	if err != nil {
		s.t.Fatal(err)
	}
	const most = 32 // writes of a request
	var adding sync.WaitGroup
	for worker := range 16 {
		adding.Go(func() {
			for i := worker; most*i < n-1; i += 16 {
				var writes []object
				for j := most * i; j < min(most*i+most, n-1); j++ {
					writes = append(writes, object{"key": fmt.Sprintf("claim/order-%06d", j), "value": done})
				}
				s.ask("/v1/records", object{"writes": writes}, nil)
			}
		})
	}
	adding.Wait()
	s.put(fmt.Sprintf("claim/order-%06d", n-1), object{"v": 1, "state": "parked", "owner": "worker-9", "attempts": 2, "reason": "a holder was lost"})
}

// Of very many claims a page has few, one is found by the beginning of its key at once, and one in
// a state by a search that says how far it is. [CONSOLE-18]
func TestManyClaims(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	n := manyQueues()
	s.addManyClaims(n)
	b := s.open(t, "#/claims")
	rows := `document.querySelectorAll("main tbody tr").length`
	b.until("there are 50", rows+" === 50")
	if nodes := eval[int](b, `document.querySelectorAll("*").length`); nodes > 1500 {
		t.Errorf("the page has %d nodes", nodes)
	}
	key := fmt.Sprintf("order-%06d", n/2)
	b.fill("Key begins with", key)
	b.until("one is there", rows+` === 1 && document.querySelector("main tbody tr").innerText.includes(`+quoted(key)+`)`)
	b.fill("Key begins with", "")
	b.until("there are 50 again", rows+" === 50")
	b.fill("State", "parked")
	if n > 4096 { // more than one request looks at
		b.sees("No claim matches among the first 4,096 claims.")
		b.click("main .more button", "Search further")
	}
	b.until("it is found", rows+` === 1 && document.querySelector("main tbody tr").innerText.includes("a holder was lost") && !document.querySelector("main .more")`)
}

// Keys, owners and reasons of claims stay text. [CONSOLE-6]
func TestHostileClaims(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	shown := 0
	for i, line := range corpus(t) {
		key := fmt.Sprintf("%03d", i)
		if short := key + line; len(short) < 300 && !strings.ContainsAny(short, "\x00\r\n") && utf8.ValidString(short) {
			key = short
		}
		s.put("claim/"+key, object{"v": 1, "state": "parked", "owner": line[:min(len(line), 900)], "reason": line[:min(len(line), 900)], "message": line[:min(len(line), 100)], "memo": []byte(line)})
		shown++
	}
	b := s.open(t, "#/claims")
	rows := `document.querySelectorAll("main tbody tr").length`
	b.until("there are 50", rows+" === 50")
	b.click("button", "More claims")
	b.until("all are there", fmt.Sprintf("%s === %d", rows, min(shown, 100)))
	b.harmless("claims")
	for _, address := range eval[[]string](b, `[...document.querySelectorAll("main a[data-row]")].map((e) => e.getAttribute("href")).filter((_, i) => i % 5 === 0)`) {
		b.goTo(address)
		b.until("the claim is there", `document.querySelector("main .badge")?.innerText.includes("parked") && document.querySelector("main .bar") && document.querySelector("main p a")`)
		b.harmless(address)
	}
}
