package v1

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"tenaq/internal/engine"
)

// FuzzFilter: whatever a filter says, the routes that count and that start a task agree about it.
// It is refused as the fault of the client, or it is applied: the task shows a filter that means
// the same, and takes every message only if no part of the filter leaves one out. [TASK-1, TASK-8]
func FuzzFilter(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, `[]`, `""`, `{"id":"00112233-4455-4677-8899-aabbccddeeff"}`, `{"id":"00000000000000000000000000000000"}`, `{"id":"x"}`, `{"id":""}`,
		`{"group":"g","source":"work","text":"x","kind":"unknown","reason":"no customer"}`, `{"source":"a:b"}`, `{"ID":"x","iD":null}`, `{"kind":null}`,
		`{"from":"2026-01-31T12:00:00Z","before":"2026-02-01T12:00:00.0005+01:00"}`, `{"before":"1970-01-01T00:00:00Z"}`, `{"from":"0000-01-01T00:00:00Z"}`,
		`{"before":"9999-12-31T23:59:59.999Z","from":null}`, `{"receivesMin":1,"receivesMax":3}`, `{"receivesMin":18446744073709551615}`, `{"receivesMax":0}`, `{"receivesMin":-1}`, `{"receivesMax":1e1}`,
		`{"attributes":{"a":"1","b":"","é":"\u0000"}}`, `{"attributes":{}}`, `{"attributes":{"":"x"}}`, `{"attributes":{"a":1}}`, `{"attributes":null}`,
		`{"outcome":"deleted","key":"order-17"}`, `{"outcome":"x"}`, `{"colour":"red"}`, `{"text":"` + strings.Repeat("x", 300) + `"}`, `{"text":"\ud800"}`, `{}{}`, `{"text":"x"},"filter":{}`, `{"text":`,
	} {
		f.Add(text)
	}
	w := newWorld(f)
	failedMessages(f, w, 3)
	name := func(q string) engine.QueueName { return engine.QueueName{Account: account, Name: q} }
	for _, op := range []engine.Op{&engine.CreateQueue{Queue: name("lot"), NameSet: true}, &engine.TagQueue{Queue: name("dead"), Tags: []engine.Tag{{Key: "tenaq:history", Value: "7d"}}}} {
		if err := w.broker.Do(f.Context(), op); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		w := &world{Handler: w.Handler, t: t, broker: w.broker}
		for _, replay := range []string{"", `,"do":"replay"`} {
			counted, answer := w.ask("POST", "/v1/tasks/count", "application/json", `{"queue":"dead"`+replay+`,"filter":`+text+`}`)
			refused := counted/100 == 4
			if !refused && counted != http.StatusOK {
				t.Errorf("count of %s: got %d %s", text, counted, answer)
			}
			do := `,"do":"park","to":"lot"`
			if replay != "" {
				do = replay
			}
			started, answer := w.ask("POST", "/v1/tasks", "application/json", `{"queue":"dead"`+do+`,"filter":`+text+`}`)
			if (started/100 == 4 && started != http.StatusConflict) != refused {
				t.Errorf("%s: the count answers %d, and the start %d %s", text, counted, started, answer)
			}
			if refused {
				continue
			}
			var asked, shown struct{ Filter filter }
			if err := json.Unmarshal([]byte(`{"filter":`+text+`}`), &asked); err != nil {
				t.Fatal(err)
			}
			in, err := asked.Filter.ofEngine()
			if err != nil {
				t.Fatal(err)
			}
			if started == http.StatusOK {
				want := in
				want.Source = in.Source[strings.LastIndex(in.Source, ":")+1:] // an ARN is shown as the name
				err := json.Unmarshal([]byte(answer), &shown)
				if got, wrong := shown.Filter.ofEngine(); err != nil || wrong != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s is %+v, and the task shows %+v: %v, %v", text, want, got, err, wrong)
				}
			}
			parts := asked.Filter
			parts.From = nil // with nothing before it
			if parts.Attributes != nil && len(parts.Attributes) == 0 {
				parts.Attributes = nil
			}
			if in.All() && !reflect.DeepEqual(parts, filter{}) {
				t.Errorf("%s takes every message", text)
			}
		}
	})
}
