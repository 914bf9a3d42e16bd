package v1

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// addClaims adds claims in every state, and returns their fences.
func (w *world) addClaims(t *testing.T) (fences map[string]uint64) {
	t.Helper()
	fences = make(map[string]uint64)
	for _, key := range []string{"a-done", "b-held", "c-failed", "d-lost", "e-released"} {
		lease := 3600_000
		if key == "d-lost" {
			lease = 1000
		}
		got := w.claim(t, "POST", key+"/acquire", fmt.Sprintf(`{"owner":"w1","messageId":"m-%s","memo":"%s","leaseMs":%d}`, key, strings.Repeat("m", 100), lease), 200, "")
		fences[key] = got.Fence
	}
	w.claim(t, "POST", "a-done/complete", fmt.Sprintf(`{"fence":%d,"result":"secret"}`, fences["a-done"]), 200, "")
	w.claim(t, "POST", "c-failed/fail", fmt.Sprintf(`{"fence":%d,"reason":"no stock"}`, fences["c-failed"]), 200, "")
	w.claim(t, "POST", "e-released/release", fmt.Sprintf(`{"fence":%d}`, fences["e-released"]), 200, "")
	w.json(t, "POST", "/records", fmt.Sprintf(`{"writes":[{"key":"claim/f-odd","value":%q},{"key":"claim/g-parked","value":%q},{"key":"claims","value":"eA=="},{"key":"send/orders/x","value":%q}]}`,
		base64.StdEncoding.EncodeToString([]byte("no claim")), base64.StdEncoding.EncodeToString([]byte(`{"v":1,"state":"parked","reason":"a holder was lost"}`)),
		base64.StdEncoding.EncodeToString([]byte(`{"v":1,"state":"held"}`))), 200, &writeList{})
	time.Sleep(2 * time.Second)
	return fences
}

func keysOf(list claimList) (keys []string) {
	for _, c := range list.Claims {
		keys = append(keys, c.Key)
	}
	return keys
}

// Claims are listed by key, prefix and state, page by page, without what only their holders need.
// [REC-16]
func TestClaimList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addClaims(t)
		for query, want := range map[string]string{
			"":                    "a-done b-held c-failed d-lost e-released f-odd g-parked",
			"prefix=c":            "c-failed",
			"state=held":          "b-held d-lost",
			"state=stuck":         "c-failed d-lost e-released g-parked",
			"state=unreadable":    "f-odd",
			"state=exhausted":     "",
			"after=e-released":    "f-odd g-parked",
			"ledger=send/orders/": "x",
			"ledger=nothing/":     "",
		} {
			var list claimList
			w.json(t, "GET", "/claims?"+query, "", 200, &list)
			if got := strings.Join(keysOf(list), " "); got != want || list.Next != "" {
				t.Errorf("%s: got %s, next %q, want %s", query, got, list.Next, want)
			}
			for _, limit := range []string{"1", "2", "3"} {
				if strings.HasPrefix(query, "after") {
					continue
				}
				var all []string
				for after := ""; ; {
					var page claimList
					w.json(t, "GET", "/claims?"+query+"&limit="+limit+map[bool]string{true: "&after=" + url.QueryEscape(after)}[after != ""], "", 200, &page)
					if all = append(all, keysOf(page)...); page.Next == "" {
						break
					}
					if page.Next <= after {
						t.Fatalf("%s: the page after %q goes on after %q", query, after, page.Next)
					}
					after = page.Next
				}
				if got := strings.Join(all, " "); got != want {
					t.Errorf("%s: by %s: got %s, want %s", query, limit, got, want)
				}
			}
		}
		_, text := w.ask("GET", "/v1/claims", "", "")
		for _, hidden := range []string{"fence", "secret", "memo"} {
			if strings.Contains(text, hidden) {
				t.Errorf("the list shows a %s: %s", hidden, text)
			}
		}
		for _, bad := range []string{"state=lost", "limit=101", "limit=0", "key=a", "ledger=" + strings.Repeat("x", 2000)} {
			if status, text := w.ask("GET", "/v1/claims?"+bad, "", ""); status != http.StatusBadRequest {
				t.Errorf("%s: got %d %s", bad, status, text)
			}
		}
	})
}

// A page reads a bounded part of the records, and says where the next one continues. [REC-16]
func TestClaimPageIsBounded(t *testing.T) {
	w := newWorld(t)
	for i := range 30 {
		key := fmt.Sprintf("k-%02d", i)
		got := w.claim(t, "POST", key+"/acquire", `{}`, 200, "")
		w.claim(t, "POST", key+"/complete", fmt.Sprintf(`{"fence":%d,"result":%q}`, got.Fence, strings.Repeat("r", 127<<10)), 200, "")
	}
	var many []string
	for i := range (claimSteps + 1) * claimLooks / writesMax {
		var writes []string
		for n := range writesMax {
			writes = append(writes, fmt.Sprintf(`{"key":"many/%06d","value":"eA=="}`, i*writesMax+n))
		}
		many = append(many, fmt.Sprintf(`{"writes":[%s]}`, strings.Join(writes, ",")))
	}
	for _, body := range many {
		w.json(t, "POST", "/records", body, 200, &writeList{})
	}
	for ledger, most := range map[string]int{"claim/": 30, "many/": claimSteps * claimLooks} {
		looked, pages, after := 0, 0, ""
		for {
			var list claimList
			w.json(t, "GET", "/claims?state=held&ledger="+ledger+"&after="+after, "", 200, &list)
			if looked, pages = looked+list.Looked, pages+1; list.Looked > most || len(list.Claims) > 0 {
				t.Fatalf("%s: a page looked at %d claims, at most %d, and has %d", ledger, list.Looked, most, len(list.Claims))
			}
			if after = list.Next; after == "" {
				break
			}
		}
		if want := map[string]int{"claim/": 30, "many/": (claimSteps + 1) * claimLooks}[ledger]; looked != want || ledger == "many/" && pages != 2 {
			t.Errorf("%s: %d pages looked at %d claims, want %d", ledger, pages, looked, want)
		}
	}
}

// A person settles and reopens claims. A decision that takes a claim from a live holder, or undoes
// completed work, needs force. A holder that lost its claim learns so. [REC-17]
func TestDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fences := w.addClaims(t)
		const why = `"reason":"the bank has it"`
		w.claim(t, "POST", "c-failed/settle", `{}`, 400, "InvalidParameterValue")
		w.claim(t, "POST", "none/settle", `{`+why+`}`, 404, "NotFound")
		w.claim(t, "POST", "f-odd/reopen", `{`+why+`}`, 409, "Unreadable")
		if got := w.claim(t, "POST", "c-failed/settle", `{`+why+`,"result":"ch_1"}`, 200, ""); got.State != "completed" || got.Reason != "the bank has it" || got.Fence != 0 {
			t.Errorf("got %+v", got)
		}
		if got := w.claim(t, "GET", "c-failed", "", 200, ""); got.Result == nil || *got.Result != "ch_1" || got.Owner != "arn:aws:iam::000000000000:root" {
			t.Errorf("got %+v", got)
		}
		w.claim(t, "POST", "c-failed/reopen", `{`+why+`}`, 409, "Done")
		w.claim(t, "POST", "b-held/settle", `{`+why+`}`, 409, "Busy")
		w.claim(t, "POST", "b-held/reopen", `{`+why+`}`, 409, "Busy")
		w.claim(t, "POST", "d-lost/reopen", `{`+why+`}`, 200, "")
		w.claim(t, "POST", "b-held/reopen", `{`+why+`,"force":true}`, 200, "")
		w.claim(t, "POST", "b-held/complete", fmt.Sprintf(`{"fence":%d}`, fences["b-held"]), 409, "Lost")
		if got := w.claim(t, "POST", "b-held/acquire", `{"owner":"w2"}`, 200, ""); got.Attempts != 1 {
			t.Errorf("got %+v", got)
		}
		w.claim(t, "POST", "x/settle", `{`+why+`,"ledger":"send/orders/","force":true}`, 200, "")
		var log struct {
			Actions []struct{ Action, About, Text string }
		}
		w.json(t, "GET", "/actions", "", 200, &log)
		var said []string
		for _, a := range log.Actions {
			said = append(said, a.Action+" "+a.About+" "+a.Text)
		}
		want := []string{"ManageClaims send/orders/x settled: the bank has it", "ManageClaims claim/b-held reopened: the bank has it",
			"ManageClaims claim/d-lost reopened: the bank has it", "ManageClaims claim/c-failed settled: the bank has it"}
		if !slices.Equal(said, want) {
			t.Errorf("the action log has %q, want %q", said, want)
		}
	})
}

// A decision is taken back by the number that its answer has, here and in other stores, until the
// claim changes. [REC-18, REC-19]
func TestUndoDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addClaims(t)
		settled := w.claim(t, "POST", "c-failed/settle", `{"reason":"x","result":"ch_1"}`, 200, "")
		undo := fmt.Sprintf(`{"undo":%d}`, settled.Undo)
		if _, list := w.ask("GET", "/v1/claims", "", ""); settled.Undo == 0 || strings.Contains(list, "undo") {
			t.Errorf("the answer has undo %d, and the list of claims %s", settled.Undo, list)
		}
		if got := w.claim(t, "POST", "c-failed/undo", undo, 200, ""); got.State != "failed" || got.Reason != "no stock" || got.Owner != "w1" || got.Result != nil || got.Undo != 0 {
			t.Errorf("got %+v", got)
		}
		w.claim(t, "POST", "c-failed/undo", undo, 409, "Changed")
		w.claim(t, "POST", "c-failed/undo", `{}`, 409, "Changed")
		w.claim(t, "POST", "none/undo", undo, 404, "NotFound")
		w.claim(t, "POST", "f-odd/undo", undo, 409, "Unreadable")
		reopened := w.claim(t, "POST", "d-lost/reopen", `{"reason":"x"}`, 200, "")
		w.claim(t, "POST", "d-lost/acquire", `{"owner":"w2"}`, 200, "")
		w.claim(t, "POST", "d-lost/undo", fmt.Sprintf(`{"undo":%d}`, reopened.Undo), 409, "Changed")
		if final := w.claim(t, "POST", "b-held/reopen", `{"reason":"x","force":true}`, 200, ""); final.Undo != 0 {
			t.Errorf("a decision that ended a claim has an undo: %+v", final)
		}
		held := w.claim(t, "GET", "b-held", "", 200, "")
		w.claim(t, "POST", "b-held/undo", fmt.Sprintf(`{"undo":%d}`, held.Fence), 409, "Final")

		made := newMadeStores()
		w.cfg.Stores = made
		shop := made.hold(t, "shop", time.Second, "a")
		time.Sleep(2 * time.Second)
		settled = w.claim(t, "POST", "a/settle", `{"reason":"x","store":"shop"}`, 200, "")
		w.claim(t, "POST", "a/undo", fmt.Sprintf(`{"undo":%d,"store":"shop"}`, settled.Undo), 200, "")
		if e, err := shop.Entry(t.Context(), "a"); err != nil || !e.Stranded() {
			t.Errorf("got %+v, %v", e, err)
		}
		_, log := w.ask("GET", "/v1/actions", "", "")
		for _, text := range []string{`"took back the decision"`, `"took back the decision in shop"`} {
			if !strings.Contains(log, text) {
				t.Errorf("the action log lacks %s: %s", text, log)
			}
		}
	})
}

// A person who settles a key without force takes no claim from a worker that gets it at the same
// moment. [REC-17]
func TestDecideWhileClaimed(t *testing.T) {
	w := newWorld(t)
	for i := range 300 {
		key := fmt.Sprint("k", i)
		first := w.claim(t, "POST", key+"/acquire", `{"owner":"w1","leaseMs":60000}`, 200, "")
		w.claim(t, "POST", key+"/fail", fmt.Sprintf(`{"fence":%d,"reason":"no stock"}`, first.Fence), 200, "")
		settled := make(chan int)
		go func() {
			status, _ := w.ask("POST", "/v1/claims/"+key+"/settle", "application/json", `{"reason":"by hand"}`)
			settled <- status
		}()
		acquired, _ := w.ask("POST", "/v1/claims/"+key+"/acquire", "application/json", `{"owner":"w2","leaseMs":60000}`)
		if got := <-settled; got == 200 && acquired == 200 {
			t.Fatalf("%s: a worker got the claim and a person settled the key", key)
		}
	}
}

// The rights of a worker do not suffice for the decisions of a person. [REC-16, REC-17, REC-19]
func TestClaimRights(t *testing.T) {
	key := func(id, allow string) string {
		return fmt.Sprintf(`{"id": %q, "secret": "the-secret-of-%s", "allow": [%s]}`, id, id, allow)
	}
	k := newKeyed(t, key("TQWORKER", `"tenaq:*Claim"`), key("TQPERSON", `"tenaq:ListClaims", "tenaq:ManageClaims"`))
	for _, tt := range []struct {
		who, method, path, body string
		status                  int
	}{
		{"TQWORKER", "POST", "/a/acquire", `{}`, 200},
		{"TQWORKER", "GET", "", "", 403},
		{"TQWORKER", "POST", "/a/reopen", `{"reason":"x","force":true}`, 403},
		{"TQWORKER", "POST", "/a/settle", `{"reason":"x","force":true}`, 403},
		{"TQWORKER", "POST", "/a/undo", `{"undo":1}`, 403},
		{"TQPERSON", "GET", "", "", 200},
		{"TQPERSON", "POST", "/a/acquire", `{}`, 403},
		{"TQPERSON", "POST", "/a/settle", `{"reason":"x","force":true}`, 200},
	} {
		if status, text := k.as(t, "key "+tt.who, tt.method, "/v1/claims"+tt.path, tt.body); status != tt.status {
			t.Errorf("%s %s %s: got %d %s, want %d", tt.who, tt.method, tt.path, status, text, tt.status)
		}
	}
}
