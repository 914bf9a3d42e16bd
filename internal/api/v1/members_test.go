package v1

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"tenaq/internal/engine"
)

// A member counts under exactly one name and once. Another case is another name, also inside, and
// nothing is deleted from the queue that the second of two members names. [V1-3]
func TestMembers(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"orders", "sm"} {
		queue := engine.QueueName{Account: account, Name: name}
		w.do(t, &engine.CreateQueue{Queue: queue, NameSet: true})
		w.do(t, &engine.SendMessage{Queue: queue, Draft: engine.NewDraft(engine.Entry{ID: text("a"), Body: text("x")})})
	}
	for body, part := range map[string]string{
		`{"queue":"orders","do":"delete","confirm":1,"Queue":"sm","CONFIRM":100}`:                 "The member Queue is unknown",
		`{"queue":"orders","do":"delete","confirm":1,"CONFIRM":100}`:                              "The member CONFIRM is unknown",
		`{"queue":"orders","do":"delete","confirm":1,"queue":"sm"}`:                               "The member queue is given more than once",
		`{"queue":"orders", "do":"delete","confirm":1 , "q\u0075eue":"sm"}`:                       "The member queue is given more than once",
		`{"queue":"orders","do":"delete","confirm":1,"filter":{"text":"a","Text":"x"}}`:           "The member Text is unknown",
		`{"queue":"orders","do":"delete","confirm":1,"filter":{"text":"a","text":"x"}}`:           "The member text is given more than once",
		`{"queue":"orders","do":"delete","confirm":1,"filter":{"attributes":{"a":"1","a":"2"}}}`:  "The member a is given more than once",
		`{"queue":"sm","do":"move","to":"orders","edit":{"attributes":{"a":{"Type":"String"}}}}`:  "The member Type is unknown",
		`{"queue":"sm","do":"move","to":"orders","edit":{"attributes":{"a":null,"A":null}},"x":}`: "does not have the expected JSON",
	} {
		if status, got := w.ask("POST", "/v1/tasks", "application/json", body); status != 400 || !strings.Contains(got, part) {
			t.Errorf("%s: got %d %s, want %s", body, status, got, part)
		}
	}
	var list taskList
	if w.json(t, "GET", "/tasks", "", 200, &list); len(list.Tasks) > 0 {
		t.Errorf("there are the tasks %+v", list.Tasks)
	}
	body := " {\"queue\" : \"sm\",\t\"do\":\"move\" ,\n\"to\":\"orders\",\"limit\":1, \"filter\":{\"attributes\":{\"a\":\"{\\\"x\\\":[\",\"A\":\"\"},\"from\":\"2020-01-01T00:00:00Z\"},\"edit\":{\"attributes\":{\"a\":null,\"A\":null}},\"missing\":false}\r\n"
	if status, got := w.ask("POST", "/v1/tasks", "application/json", body); status != 200 {
		t.Errorf("names that differ: got %d %s", status, got)
	}
	// what only encoding/json reads, and what it need not
	for body, want := range map[string]int{
		`{"writes":[{"key":"a","KEY":"b"}]}`: 400, `{"writes":[{"key":"a","key":"b"}]}`: 400, `{"writes":[{"key":"a"}],"writes":[]}`: 400,
		`{"writes": [{"key":"a"}, {"key":"b"}]}`: 200, `{"writes":[{"key":"c"},{"key":"d"}]}`: 200,
	} {
		if status, got := w.ask("POST", "/v1/records", "application/json", body); status != want {
			t.Errorf("%s: got %d %s, want %d", body, status, got, want)
		}
	}
}

// Texts for people are one line. [V1-3]
func TestTextsAreLines(t *testing.T) {
	w := newWorld(t)
	w.useMonitor(t)
	w.cfg.Redrivers = newMadeRedrivers()
	w.do(t, &engine.CreateQueue{Queue: engine.QueueName{Account: account, Name: "orders"}, NameSet: true})
	for _, tt := range []struct{ path, body string }{
		{"/v1/tasks", `{"queue":"orders","do":"delete","confirm":1,"note":"TEXT"}`}, {"/v1/tasks/orders:1/cancel", `{"note":"TEXT"}`},
		{"/v1/alarms/silence", `{"match":"a","for":"1h","reason":"TEXT"}`}, {"/v1/redrivers/orders-dlq/pause", `{"reason":"TEXT"}`},
	} {
		for _, odd := range []string{`\n`, `\u001b`, `\u0000`, `\u009b`} {
			body := strings.Replace(tt.body, "TEXT", "a"+odd+"b", 1)
			if status, got := w.ask("POST", tt.path, "application/json", body); status != 400 || !strings.Contains(got, "must be one line of text without control characters") {
				t.Errorf("%s %s: got %d %s", tt.path, body, status, got)
			}
		}
		body := strings.Replace(tt.body, "TEXT", "Grüße, 50 %", 1)
		if status, got := w.ask("POST", tt.path, "application/json", body); strings.Contains(got, "one line") {
			t.Errorf("%s %s: got %d %s", tt.path, body, status, got)
		}
	}
}

// Every field of a body has a name, under which checkMembers knows it.
func TestMembersHaveNames(t *testing.T) {
	var check func(of reflect.Type, at string)
	check = func(of reflect.Type, at string) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			check(of.Elem(), at)
		case reflect.Struct:
			if of == reflect.TypeFor[time.Time]() {
				return
			}
			for i := range of.NumField() {
				f := of.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if f.IsExported() && !f.Anonymous && name == "" && f.Tag.Get("path")+f.Tag.Get("query") == "" {
					t.Errorf("%s: %v.%s has no name", at, of, f.Name)
				}
				if name != "" || f.Anonymous {
					check(f.Type, at)
				}
			}
		}
	}
	for _, r := range routes {
		check(r.input.typ, r.path)
	}
}

// Any JSON is read to its end.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":null}],"c":"\\\"}"}`, `[[],{},-1e3,"x" ,true]`, `{"a":1,"A":2}`, `"\u0022"`, `{"":{}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		r := memberReader{rest: []byte(text)}
		if r.value(nil); r.err == nil && r.next() != 0 {
			t.Errorf("%q: %q is left", text, r.rest)
		}
	})
}
