package sqswire

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzQuery compares Decode with net/url, and holds it to what it promises: it takes what a form
// says and no more, whatever order its parameters come in, in little memory, and what it takes it
// takes again from what a client would make of it. The scripts are the seeds. [XML-31, XML-32]
func FuzzQuery(f *testing.F) {
	paths, err := filepath.Glob("testdata/requests/query.txt")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no scripts to start from: %v", err)
	}
	script := regexp.MustCompile(`(?s)query op=(\w+)\n(.*?)\n----\n`)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, m := range script.FindAllSubmatch(text, -1) {
			index := slices.IndexFunc(operations, func(op testedOperation) bool { return op.Name == string(m[1]) })
			f.Add(uint8(index), strings.ReplaceAll(string(m[2]), "\n", "&"))
		}
	}
	f.Fuzz(func(t *testing.T, index uint8, text string) {
		op := operations[int(index)%len(operations)]
		req := op.NewRequest()
		size, err := formAndMeasure(text, req)
		if limit := formMax(text); size > limit {
			t.Errorf("decoding %d bytes allocated %d, want at most %d", len(text), size, limit)
		}
		values, stdErr := url.ParseQuery(text)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Code != MalformedInput && e.Code != MissingParameter || e.Message == "" {
				t.Fatalf("got error %v, want one of the catalogue", err)
			}
			if len(e.Message) > 1000 {
				t.Errorf("the message has %d bytes", len(e.Message))
			}
			return
		}
		if strings.Contains(text, ";") {
			return // no separator, but net/url refuses it
		}
		if stdErr != nil {
			t.Fatalf("%q was taken, net/url says %v", text, stdErr)
		}
		form, _ := ParseForm("", []byte(text))
		for name, list := range values {
			if value, ok := form.Get(name); name != "" && (!ok || len(list) != 1 || list[0] != value || !utf8.ValidString(value)) {
				t.Errorf("%q is %q, %v, net/url says %q", name, value, ok, list)
			}
		}
		// Another order of the same parameters says the same.
		parts := strings.Split(text, "&")
		slices.Reverse(parts)
		again := op.NewRequest()
		if _, err := formAndMeasure(strings.Join(parts, "&"), again); err != nil || !reflect.DeepEqual(again, req) {
			t.Errorf("reversed: got %+v, %v, want %+v", again, err, req)
		}
		// And so does what a client would write of it.
		writer := formWriter{}
		structureOf(req).visit(&writer)
		again = op.NewRequest()
		if _, err := formAndMeasure(strings.Join(writer.params, "&"), again); err != nil || !reflect.DeepEqual(again, req) {
			t.Errorf("written again as %q: got %+v, %v, want %+v", writer.params, again, err, req)
		}
	})
}

// formAndMeasure also returns how many bytes were allocated.
func formAndMeasure(text string, req Shape) (uint64, error) {
	body := []byte(text)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	form, err := ParseForm("", body)
	if err == nil {
		err = form.Decode(req)
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// formMax is what decoding a form may allocate.
func formMax(text string) uint64 {
	return 4*uint64(len(text)) + 8*paramsMax*uint64(reflect.TypeFor[SendMessageBatchRequestEntry]().Size())
}

// Small bodies that ask for much memory do not get it, and a million parameters cost next to
// nothing. [XML-32]
func TestFormMemory(t *testing.T) {
	numbered := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+"&", i)
		}
		return strings.TrimSuffix(b.String(), "&")
	}
	for _, tt := range []struct {
		name, text string
		ok         bool
		limit      uint64
	}{
		{"most entries", numbered("Entries.%d.Id=x", paramsMax), true, 0},
		{"too many entries", numbered("Entries.%d.Id=x", paramsMax+1), false, 1 << 12},
		{"a million keys", numbered("k%d=", 1<<20), false, 1 << 12},
		{"eight million separators", strings.Repeat("&", 8<<20), false, 1 << 12},
		{"deep", "QueueUrl" + strings.Repeat(".1", 1<<20) + "=x", false, 0},
		{"deep and unknown", "X" + strings.Repeat(".1", 1<<20) + "=x", true, 0},
		{"deep in a list", "Entries.1" + strings.Repeat(".MessageAttribute.1", 1<<17) + "=x", false, 0},
		{"long body", "Entries.1.MessageBody=" + strings.Repeat("a", 1<<20), true, 0},
		{"escaped body", "Entries.1.MessageBody=" + strings.Repeat("%c3%a9", 1<<18), true, 0},
		{"long twin names", "a" + strings.Repeat("é", 1<<20) + "&a" + strings.Repeat("é", 1<<20), false, 0},
	} {
		size, err := formAndMeasure(tt.text, new(SendMessageBatchRequest))
		for range 2 { // what the runtime allocates meanwhile counts too: the least is what decoding takes
			again, _ := formAndMeasure(tt.text, new(SendMessageBatchRequest))
			size = min(size, again)
		}
		if (err == nil) != tt.ok {
			t.Errorf("%s: got error %v, want none: %v", tt.name, err, tt.ok)
		}
		if tt.limit == 0 {
			tt.limit = formMax(tt.text)
		}
		if size > tt.limit {
			t.Errorf("%s: decoding %d bytes allocated %d, want at most %d", tt.name, len(tt.text), size, tt.limit)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: the message has %d bytes", tt.name, len(err.Error()))
		}
	}
}

// Parameters of the query string and of the body are taken together. [XML-36]
func TestFormOfTwo(t *testing.T) {
	form, err := ParseForm("Action=SendMessage&a=1", []byte("MessageBody=x&b=2"))
	if err != nil {
		t.Fatal(err)
	}
	form.SetDefault("QueueUrl", "q")
	form.SetDefault("a", "3")
	for name, want := range map[string]string{"Action": "SendMessage", "MessageBody": "x", "a": "1", "b": "2", "QueueUrl": "q"} {
		if got, ok := form.Get(name); !ok || got != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, ok, want)
		}
	}
	if got, ok := form.Get("A"); ok {
		t.Errorf("got %q for what is not given", got)
	}
	if _, err := ParseForm("Action=SendMessage", []byte("Action=ListQueues")); err == nil {
		t.Error("a parameter in both was taken, want it refused")
	}
}

// A formWriter is the visitor that writes a request as clients of the Query protocol do.
type formWriter struct {
	prefix string
	params []string
}

func (w *formWriter) add(name, value string) {
	w.params = append(w.params, url.QueryEscape(w.prefix+name)+"="+url.QueryEscape(value))
}

// inside writes what is below a name.
func (w *formWriter) inside(name string, write func()) {
	outer := w.prefix
	w.prefix += name + "."
	write()
	w.prefix = outer
}

func (w *formWriter) optString(m *member, p *Opt[string]) {
	if p.Set {
		w.add(m.name, p.Value)
	}
}

func (w *formWriter) optInt(m *member, p *Opt[int64]) {
	if p.Set {
		w.add(m.name, fmt.Sprint(p.Value))
	}
}

func (w *formWriter) blob(m *member, p *[]byte) {
	if *p != nil {
		w.add(m.name, base64Of(*p))
	}
}

func base64Of(b []byte) string {
	e := encoder{}
	e.dst = append(e.dst, '{')
	e.blob(&member{name: "b"}, &b)
	return strings.TrimSuffix(strings.TrimPrefix(string(e.dst), `{"b":"`), `"`)
}

func (w *formWriter) strings(m *member, p *[]string) {
	if *p != nil && len(*p) == 0 {
		w.add(m.name, "")
	}
	for i, s := range *p {
		w.add(fmt.Sprintf("%s.%d", m.element, i+1), s)
	}
}

func (w *formWriter) pairs(m *member, p *Pairs) {
	if *p != nil && len(*p) == 0 {
		w.add(m.element, "")
	}
	for i, pair := range *p {
		w.inside(fmt.Sprintf("%s.%d", m.element, i+1), func() { w.add(m.key, pair.Name); w.add("Value", pair.Value) })
	}
}

func (w *formWriter) attributes(m *member, p *MessageAttributes) {
	if *p != nil && len(*p) == 0 {
		w.add(m.element, "")
	}
	for i := range *p {
		a := &(*p)[i]
		w.inside(fmt.Sprintf("%s.%d", m.element, i+1), func() {
			w.add("Name", a.Name)
			w.inside("Value", func() { attributeOf(a).visit(w) })
		})
	}
}

func (w *formWriter) structs(m *member, l list) {
	if l.len() == 0 {
		w.add(m.name, "")
	}
	for i := range l.len() {
		at := fmt.Sprintf("%s.%d", m.element, i+1)
		before := len(w.params)
		w.inside(at, func() { l.at(i).visit(w) })
		if len(w.params) == before {
			w.add(at, "") // nothing is in it
		}
	}
}

func (w *formWriter) listGiven(m *member, p *bool) {
	if *p {
		w.add(m.element+".1", "x")
	}
}

func (w *formWriter) string(m *member, p *string) { panic(m.name + " is not in a request") }
func (w *formWriter) int(m *member, _ *int64)     { panic(m.name + " is not in a request") }
func (w *formWriter) bool(m *member, _ *bool)     { panic(m.name + " is not in a request") }
