package sqswire

import (
	"bytes"
	"encoding/json"
	"errors"
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

// FuzzDecode compares DecodeJSON with encoding/json. A body must be accepted by both and mean the
// same, or be refused for a reason: a member of the wrong type, or one of excuses. The scripts are
// the seeds.
func FuzzDecode(f *testing.F) {
	paths, err := filepath.Glob("testdata/requests/*.txt")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no scripts to start from: %v", err)
	}
	script := regexp.MustCompile(`(?s)decode op=(\w+)\n(.*?)\n?----\n`)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, m := range script.FindAllSubmatch(text, -1) {
			index := slices.IndexFunc(operations, func(op testedOperation) bool { return op.Name == string(m[1]) })
			f.Add(uint8(index), m[2])
		}
	}
	f.Fuzz(func(t *testing.T, index uint8, body []byte) {
		op := operations[int(index)%len(operations)]
		req := op.NewRequest()
		size, err := decodeAndMeasure(body, req)
		if limit := sizeMax(body); size > limit {
			t.Errorf("decoding %d bytes allocated %d, want at most %d", len(body), size, limit)
		}
		o := oracle{t: t}
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Code != MalformedInput {
				t.Fatalf("got error %v, want MalformedInput", err)
			}
			if excuses(body) {
				return
			}
			o.blind, req = true, op.NewRequest()
		}
		var tree map[string]any
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if e := d.Decode(&tree); e != nil || tree == nil || !utf8.Valid(body) || !json.Valid(body) {
			t.Fatalf("%s accepted %q, encoding/json says %v", op.Name, body, e)
		}
		o.shape(tree, structureOf(req))
		if o.mistyped != (err != nil) {
			t.Errorf("%s: got error %v for %q, want one: %v", op.Name, err, body, o.mistyped)
		}
	})
}

// excuses reports whether DecodeJSON may refuse a body whatever its members are: it is not a JSON
// object, or breaks a rule that encoding/json does not have.
func excuses(body []byte) bool {
	return !json.Valid(body) || !utf8.Valid(body) || !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) ||
		surrogate.Match(body) || hasDuplicates(body) ||
		bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) > depthMax || bytes.Count(body, []byte(",")) > itemsMax/2
}

var surrogate = regexp.MustCompile(`(?i)\\ud[89a-f]`)

// hasDuplicates reports whether some object in body, which is valid JSON, has a name twice.
func hasDuplicates(body []byte) bool {
	type level struct {
		names map[string]bool // nil in a list
		value bool            // a value comes next, not a name
	}
	top := &level{}
	var open []*level
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		token, err := d.Token()
		if err != nil {
			return false
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			top, open = open[len(open)-1], open[:len(open)-1]
			continue
		}
		if top.names != nil && !top.value {
			name := token.(string)
			if top.names[name] {
				return true
			}
			top.names[name], top.value = true, true
			continue
		}
		top.value = false
		if token == json.Delim('{') || token == json.Delim('[') {
			open = append(open, top)
			top = &level{}
			if token == json.Delim('{') {
				top.names = map[string]bool{}
			}
		}
	}
}

// decodeAndMeasure also returns how many bytes were allocated.
func decodeAndMeasure(body []byte, req Shape) (uint64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := DecodeJSON(body, req)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// sizeMax is what decoding a body may allocate: four times its length, and the most entries that
// fit in the limit on items, in a slice that grows.
func sizeMax(body []byte) uint64 {
	return 4*uint64(len(body)) + 8*itemsMax*uint64(reflect.TypeFor[SendMessageBatchRequestEntry]().Size())
}

// Small bodies that ask for much memory do not get it.
func TestDecodeMemory(t *testing.T) {
	list := func(element string, n int) string { return "[" + strings.Repeat(element+",", n) + element + "]" }
	tests := []struct {
		name, body string
		ok         bool
	}{
		{"most entries", `{"Entries":` + list(`{}`, itemsMax-10) + `}`, true},
		{"too many entries", `{"Entries":` + list(`{}`, 1<<20) + `}`, false},
		{"too many unknown elements", `{"X":` + list(`0`, 1<<20) + `}`, false},
		{"too many unknown names", `{` + strings.Repeat(`"a":0,`, 1<<20) + `"a":0}`, false},
		{"deepest", `{"X":` + strings.Repeat("[", depthMax-1) + strings.Repeat("]", depthMax-1) + `}`, true},
		{"too deep", `{"X":` + strings.Repeat("[", depthMax) + strings.Repeat("]", depthMax) + `}`, false},
		{"much too deep", strings.Repeat(`{"X":`, 1<<20), false},
		{"long body", `{"Entries":[{"MessageBody":"` + strings.Repeat("a", 1<<20) + `"}]}`, true},
		{"escaped body", `{"Entries":[{"MessageBody":"` + strings.Repeat(`\u00e9`, 1<<18) + `"}]}`, true},
		{"escaped and unknown", `{"X":"` + strings.Repeat(`\n`, 1<<20) + `"}`, true},
		{"many long numbers", `{"X":` + list(strings.Repeat("1", 1000), 1000) + `}`, true},
	}
	for _, test := range tests {
		size, err := decodeAndMeasure([]byte(test.body), new(SendMessageBatchRequest))
		if (err == nil) != test.ok {
			t.Errorf("%s: got error %v, want none: %v", test.name, err, test.ok)
		}
		if limit := sizeMax([]byte(test.body)); size > limit {
			t.Errorf("%s: decoding %d bytes allocated %d, want at most %d", test.name, len(test.body), size, limit)
		}
	}
}

// FuzzEncode encodes a response and reads it back, with encoding/json and with DecodeJSON.
func FuzzEncode(f *testing.F) {
	f.Add("hi", "k", "v", []byte{0, 255}, int64(0))
	f.Add("", "", "", []byte(nil), int64(-1))
	f.Add("\"\\\x00\x1f\u2028</a>é😀", "a", "a", []byte{}, int64(1)<<62)
	f.Fuzz(func(t *testing.T, body, name, value string, blob []byte, n int64) {
		for _, s := range []string{body, name, value} {
			if !utf8.ValidString(s) {
				t.Skip()
			}
		}
		m := Message{Body: body, MessageID: value, Attributes: Pairs{{name, value}}, MessageAttributes: MessageAttributes{
			{Name: name, DataType: Some(value), StringValue: Some(body), BinaryValue: blob},
			{Name: name + "2", BinaryValue: bytes.Repeat(blob, 2)},
		}}
		resp := &ReceiveMessageResponse{[]Message{m, m}}
		dst := AppendJSON(nil, resp)

		var std struct{ Messages []map[string]any }
		if err := json.Unmarshal(dst, &std); err != nil || len(std.Messages) != 2 {
			t.Fatalf("encoding/json read %q as %+v with error %v", dst, std, err)
		}
		if got, _ := std.Messages[1]["Body"].(string); got != body {
			t.Errorf("body %q came back as %q", body, got)
		}
		if got := std.Messages[1]["Attributes"].(map[string]any)[name]; got != value {
			t.Errorf("attribute %q came back as %q", value, got)
		}
		sameAfterDecoding(t, dst, resp, new(ReceiveMessageResponse))
		if holdsXML(body + name + value) {
			sameInXML(t, operation(t, "ReceiveMessage"), resp)
		}

		tasks := &ListMessageMoveTasksResponse{[]ListMessageMoveTasksResultEntry{{
			ApproximateNumberOfMessagesMoved: n, MaxNumberOfMessagesPerSecond: Some(n), FailureReason: body,
		}}}
		sameAfterDecoding(t, AppendJSON(nil, tasks), tasks, new(ListMessageMoveTasksResponse))

		batch := &DeleteMessageBatchResponse{
			Successful: []BatchResultEntry{{name}},
			Failed:     []BatchResultErrorEntry{Errorf("OverLimit", "%s", body).Entry(name), Errorf("InternalError", "").Entry(value)},
		}
		sameAfterDecoding(t, AppendJSON(nil, batch), batch, new(DeleteMessageBatchResponse))

		if name != "" && holdsXML(body+name+value) {
			sameInXML(t, operation(t, "DeleteMessageBatch"), batch)
			sameInXML(t, operation(t, "ListMessageMoveTasks"), tasks)
		}

		urls := &ListDeadLetterSourceQueuesResponse{[]string{name, value}, body}
		sameAfterDecoding(t, AppendJSON(nil, urls), urls, new(ListDeadLetterSourceQueuesResponse))
	})
}

func sameAfterDecoding(t *testing.T, dst []byte, want, got Shape) {
	t.Helper()
	if err := DecodeJSON(dst, got); err != nil {
		t.Fatalf("reading back %q: %v", dst, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q came back as %+v, want %+v", dst, got, want)
	}
}
