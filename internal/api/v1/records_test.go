package v1

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"tenaq/internal/api/intake"
	"tenaq/internal/engine"
	"tenaq/records"
)

const asJSON = "application/json"

// Records are written on their versions, each write with an answer of its own, and read in order.
// [REC-10, REC-11]
func TestRecords(t *testing.T) {
	w := newWorld(t)
	write := func(body string, wants ...string) (versions []uint64) {
		t.Helper()
		status, text := w.ask("POST", "/v1/records", asJSON, body)
		var out writeList
		if err := json.Unmarshal([]byte(text), &out); err != nil || status != 200 || len(out.Results) != len(wants) {
			t.Fatalf("%s: got %d %s", body, status, text)
		}
		for i, r := range out.Results {
			got := "written"
			version := uint64(0)
			if r.Record != nil {
				version = r.Record.Version
			}
			switch {
			case r.Error != nil:
				got = r.Error.Code
			case r.Conflict && r.Record == nil:
				got = "conflict with nothing"
			case r.Conflict:
				got = "conflict with " + string(r.Record.Value)
			case r.Record == nil:
				got = "removed"
			case r.Record.Value != nil:
				got = "written and sent back"
			}
			if got != wants[i] {
				t.Errorf("%s: write %d: got %s, want %s", body, i, got, wants[i])
			}
			versions = append(versions, version)
		}
		return versions
	}
	v := write(`{"writes":[{"key":"a/1","value":"eA=="},{"key":"a/1","value":"eQ=="},{"key":"b","ttlMs":60000},{"key":""}]}`,
		"written", "conflict with x", "written", "InvalidParameterValue")
	if v[1] != v[0] || v[2] <= v[0] {
		t.Errorf("got versions %d", v)
	}
	write(fmt.Sprintf(`{"writes":[{"key":"a/1","if":%d,"value":"eQ=="},{"key":"a/1","if":%[1]d,"delete":true},{"key":"c","delete":true}]}`, v[0]),
		"written", "conflict with y", "conflict with nothing")
	write(fmt.Sprintf(`{"writes":[{"key":"b","if":%d,"delete":true},{"key":"a"}]}`, v[2]), "removed", "written")
	list := func(query string, next bool, want ...string) {
		t.Helper()
		status, text := w.ask("GET", "/v1/records"+query, "", "")
		var out recordList
		if err := json.Unmarshal([]byte(text), &out); err != nil || status != 200 {
			t.Fatalf("%s: got %d %s", query, status, text)
		}
		var got []string
		for _, r := range out.Records {
			got = append(got, r.Key+"="+string(r.Value))
		}
		if strings.Join(got, " ") != strings.Join(want, " ") || (out.Next != "") != next {
			t.Errorf("%s: got %q and next %q, want %q", query, got, out.Next, want)
		}
	}
	list("", false, "a=", "a/1=y")
	list("?limit=1", true, "a=")
	list("?prefix=a%2F", false, "a/1=y")
	list("?after=a", false, "a/1=y")
	list("?key=a%2F1", false, "a/1=y")
	list("?key=b", false)
	for _, tt := range []struct{ method, path, body, want string }{
		{"GET", "/v1/records?key=a&prefix=a", "", "key excludes prefix"},
		{"GET", "/v1/records?limit=1001", "", "a number from 1 to 1000"},
		{"GET", "/v1/records?prefix=%00", "", "has a zero byte"},
		{"POST", "/v1/records", `{"writes":[]}`, "1 to 32 writes, and this one has 0"},
		{"POST", "/v1/records", `{"writes":[` + strings.Repeat(`{"key":"k"},`, 32) + `{"key":"k"}]}`, "this one has 33"},
		{"POST", "/v1/records", `{"writes":[` + strings.Repeat("{},", 1<<20) + `{}]}`, "too many values"},
		{"POST", "/v1/queues/q/nack", `{"entries":[` + strings.Repeat("{},", 2000) + `{}]}`, "too many values"},
		{"POST", "/v1/replace", `{"body":"\"","attributes":{` + strings.Repeat(`"a":{},`, 2000) + `"a":{}}}`, "too many values"},
		{"POST", "/v1/records", `{"writes":[{"key":"` + strings.Repeat(`,[{\"`, 400) + `","ttlMs":-1}]}`, "1024 are allowed"},
		{"POST", "/v1/records", `{"writes":[{"key":"k","ttlMs":-1}]}`, `ttlMs of record \"k\" is -1: delete the record`},
		{"POST", "/v1/records", `{"writes":[{"key":"k","ttl":1}]}`, "unknown"},
		{"POST", "/v1/records", `{"writes":[{"key":"k","delete":true,"message":{"queue":"q","receiptHandle":"r"}}]}`, "deletes its record"},
	} {
		if status, text := w.ask(tt.method, tt.path, asJSON, tt.body); status != 400 || !strings.Contains(text, tt.want) {
			t.Errorf("%s %s %.40s: got %d %s, want 400 and %s", tt.method, tt.path, tt.body, status, text, tt.want)
		}
	}
}

// A page of large records ends early, and the last page is whole. [REC-6]
func TestLargeRecords(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		w.do(t, &engine.PutRecord{Account: account, Key: fmt.Sprint("k", i), Value: make([]byte, records.ValueMax)})
	}
	pages, got := 0, 0
	for after := ""; ; pages++ {
		_, text := w.ask("GET", "/v1/records?after="+after, "", "")
		var out recordList
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		got += len(out.Records)
		if after = out.Next; after == "" {
			break
		}
	}
	if got != 10 || pages < 2 {
		t.Errorf("got %d records in %d pages, want 10 in several", got, pages+1)
	}
}

// The values of conflicts and of claims wait for the memory of answers before they are read, and a
// request without room changes nothing. [REC-11, WIRE-29]
func TestRecordsWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.do(t, &engine.PutRecord{Account: account, Key: "large", Value: make([]byte, records.ValueMax)})
		w.do(t, &engine.PutRecord{Account: account, Key: "small", Value: []byte("x")})
		const writes = `{"writes":[{"key":"large"},{"key":"large","delete":true},{"key":"small"}]}`
		write := func() (out writeList) {
			t.Helper()
			w.json(t, "POST", "/records", writes, 200, &out)
			if len(out.Results) != 3 || !out.Results[2].Conflict || string(out.Results[2].Record.Value) != "x" {
				t.Fatalf("got %+v", out)
			}
			return out
		}
		others := w.cfg.Intake.Answers.Hold("others")
		others.Set(intake.AnswerBudget - intake.AnswerReserve)
		for _, r := range write().Results[:2] {
			if r.Error == nil || r.Error.Status != http.StatusTooManyRequests || r.Record != nil {
				t.Errorf("without room for a large value: got %+v", r)
			}
		}
		var refused problem
		w.json(t, "POST", "/claims/k/acquire", `{}`, http.StatusTooManyRequests, &refused)
		w.json(t, "GET", "/claims/k", "", http.StatusTooManyRequests, &refused)
		others.Set(intake.AnswerBudget)
		w.json(t, "POST", "/records", `{"writes":[{"key":"new"}]}`, http.StatusTooManyRequests, &refused)
		others.Release()
		for _, r := range write().Results[:2] {
			if !r.Conflict || r.Record == nil || len(r.Record.Value) != records.ValueMax {
				t.Errorf("with room: got %+v", r.Error)
			}
		}
		w.json(t, "GET", "/claims/k", "", http.StatusNotFound, &refused)
		var list recordList
		w.json(t, "GET", "/records?key=new", "", 200, &list)
		if held := w.cfg.Intake.Answers.Total(); len(list.Records) != 0 || held != 0 {
			t.Errorf("got %d records, and %d bytes are still held", len(list.Records), held)
		}
	})
}

// claimed is an answer about a claim, or a refusal.
type claimed struct {
	claimView
	Code      string
	Message   string
	RetryInMS int64
	Claim     *claimView
}

func (w *world) claim(t *testing.T, method, path, body string, want int, code string) (got claimed) {
	t.Helper()
	status, text := w.ask(method, "/v1/claims/"+path, asJSON, body)
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != want || got.Code != code {
		t.Fatalf("%s %s %.80s: got %d %s, want %d %s", method, path, body, status, text, want, code)
	}
	return got
}

// A claim over HTTP is acquired, renewed and completed, and its fence keeps others out.
// [REC-12, REC-13, REC-14]
func TestClaims(t *testing.T) {
	w := newWorld(t)
	fence := func(f uint64, more string) string { return fmt.Sprintf(`{"fence":%d%s}`, f, more) }
	w.claim(t, "GET", "order%2F17", "", 404, "NotFound")
	first := w.claim(t, "POST", "order%2F17/acquire", `{"owner":"script 1","leaseMs":30000,"messageId":"m1","memo":"how"}`, 200, "")
	if first.Key != "order/17" || first.State != "held" || first.Attempts != 1 || first.Owner != "script 1" || first.LeaseMS != 30000 ||
		first.RemainingMS == 0 || *first.Memo != "how" || first.claimView.Message != "m1" {
		t.Errorf("acquired %+v", first)
	}
	busy := w.claim(t, "POST", "order%2F17/acquire", `{"owner":"script 2"}`, 409, "Busy")
	if busy.RetryInMS < 1 || busy.RetryInMS > 30000 || busy.Claim == nil || busy.Claim.Owner != "script 1" || busy.Claim.Fence != 0 || !strings.Contains(busy.Message, "try again in") {
		t.Errorf("refused with %+v", busy)
	}
	w.claim(t, "POST", "order%2F17/renew", fence(first.Fence, ""), 200, "")
	w.claim(t, "POST", "order%2F17/renew", fence(first.Fence+1, ""), 409, "Lost")
	w.claim(t, "POST", "order%2F17/release", fence(first.Fence, ""), 200, "")
	second := w.claim(t, "POST", "order%2F17/acquire", `{"owner":"script 2"}`, 200, "")
	if second.Fence <= first.Fence || second.Attempts != 1 || second.TakenOver != nil {
		t.Errorf("acquired %+v after a release", second)
	}
	w.claim(t, "POST", "order%2F17/complete", fence(first.Fence, `,"result":"late"`), 409, "Lost")
	w.claim(t, "POST", "order%2F17/fail", fence(second.Fence, `,"reason":"declined"`), 200, "")
	third := w.claim(t, "POST", "order%2F17/acquire", `{}`, 200, "")
	if third.Attempts != 2 || third.Owner != "arn:aws:iam::"+account+":root" {
		t.Errorf("acquired %+v after a failure", third)
	}
	w.claim(t, "POST", "order%2F17/complete", fence(third.Fence, `,"result":"receipt"`), 200, "")
	w.claim(t, "POST", "order%2F17/complete", fence(third.Fence, `,"result":"receipt"`), 200, "") // again, for an answer that was lost
	w.claim(t, "POST", "order%2F17/complete", fence(third.Fence, `,"result":"other"`), 409, "Ended")
	done := w.claim(t, "POST", "order%2F17/acquire", `{}`, 409, "Done")
	if done.Claim == nil || done.Claim.Fence != 0 || *done.Claim.Result != "receipt" {
		t.Errorf("refused with %+v", done)
	}
	if got := w.claim(t, "GET", "order%2F17", "", 200, ""); got.State != "completed" || *got.Result != "receipt" || got.Fence != third.Fence {
		t.Errorf("got %+v", got)
	}
	w.claim(t, "POST", "long/acquire", `{"leaseMs":648000000}`, 200, "")
	// A record that is not a claim is a refusal, not a failure of the server.
	for key, value := range map[string]string{"is not a claim": "x", "has format 2": `{"v":2,"state":"held"}`} {
		w.do(t, &engine.PutRecord{Account: account, Key: "claim/" + key, Value: []byte(value)})
		path := url.PathEscape(key)
		for _, got := range []claimed{
			w.claim(t, "POST", path+"/acquire", "{}", 409, "Unreadable"),
			w.claim(t, "POST", path+"/renew", fence(1, ""), 409, "Unreadable"),
			w.claim(t, "GET", path, "", 409, "Unreadable"),
		} {
			if !strings.Contains(got.Message, key) {
				t.Errorf("%s: got %s", key, got.Message)
			}
		}
	}
	// Another ledger knows nothing of it.
	w.claim(t, "GET", "order%2F17?ledger=mail/", "", 404, "NotFound")
	w.claim(t, "POST", "order%2F17/acquire", `{"ledger":"mail/"}`, 200, "")

	for _, tt := range []struct{ path, body, want string }{
		{"k/acquire", `{"leaseMs":10}`, "too short"},
		{"k/acquire", `{"memo":"` + strings.Repeat("x", 40<<10) + `"}`, "memo has 40960 bytes"},
		{"k/acquire", `{"owners":"x"}`, "unknown"},
		{"k/acquire", `{"owner":"` + strings.Repeat("x", 1025) + `"}`, "owner has 1025 bytes"},
		{"k/acquire", `{"leaseMs":9223372036854775807}`, "from 0 to 648000000"},
		{"k/acquire", `{"leaseMs":18446744073710}`, "from 0 to 648000000"},
		{"k/acquire", `{"leaseMs":-1}`, "from 0 to 648000000"},
		{"k/renew", `{}`, "the fence is missing"},
		{"k/complete", `{"fence":1,"result":"` + strings.Repeat("x", 129<<10) + `"}`, "result has"},
		{strings.Repeat("k", 1020) + "/acquire", `{}`, "1024 are allowed"},
	} {
		if got := w.claim(t, "POST", tt.path, tt.body, 400, "InvalidParameterValue"); !strings.Contains(got.Message, tt.want) {
			t.Errorf("%.20s %.40s: got %s, want %s", tt.path, tt.body, got.Message, tt.want)
		}
	}
}

// A key reads and writes what it is allowed, of its own account alone. [REC-8, REC-10, REC-11]
func TestRecordsOfAccounts(t *testing.T) {
	k := newKeyed(t, keyOf("TQWORKER", "tenaq:*Records", ""), keyOf("TQREADER", "tenaq:ReadRecords", ""),
		keyOf("TQOTHER1", "*", `, "account": "111111111111"`))
	const write = `{"writes":[{"key":"a","value":"eA=="}]}`
	for _, tt := range []struct {
		key, method, path, body string
		status                  int
		part                    string
	}{
		{"TQWORKER", "POST", "/v1/records", write, 200, `"version":`},
		{"TQREADER", "POST", "/v1/records", write, 403, "tenaq:writerecords"},
		{"TQREADER", "GET", "/v1/records", "", 200, `"value":"eA=="`},
		// Without the right to delete the message, nothing is written. [REC-15]
		{"TQWORKER", "POST", "/v1/records", `{"writes":[{"key":"b","message":{"queue":"jobs","receiptHandle":"r"}}]}`, 403, "sqs:deletemessage"},
		{"TQREADER", "GET", "/v1/records?key=b", "", 200, `"records":[]`},
		{"TQWORKER", "POST", "/v1/claims/a/acquire", "{}", 403, "tenaq:acquireclaim"},
		{"TQOTHER1", "GET", "/v1/records?key=a", "", 200, `"records":[]`},
		{"TQOTHER1", "POST", "/v1/records", write, 200, `"version":`},
		{"TQOTHER1", "POST", "/v1/claims/a/acquire", "{}", 200, `"owner":"arn:aws:iam::111111111111:user/TQOTHER1"`},
	} {
		if status, text := k.as(t, "key "+tt.key, tt.method, tt.path, tt.body); status != tt.status || !strings.Contains(text, tt.part) {
			t.Errorf("%s %s %s: got %d %s, want %d and %s", tt.key, tt.method, tt.path, status, text, tt.status, tt.part)
		}
	}
}
