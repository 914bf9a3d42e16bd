package plainjson

import (
	"bytes"
	"encoding/json"
	"testing"
)

type inner struct {
	Text string `json:"text"`
}

type outer struct {
	Text  string  `json:"text"`
	Bytes []byte  `json:"bytes"`
	N     uint64  `json:"n"`
	Yes   bool    `json:"yes"`
	List  []inner `json:"list"`
}

// scan takes an outer with each method of a Scanner.
func scan(text []byte) (o outer, ok bool) {
	s := New(text)
	s.Object(func(name []byte) {
		switch string(name) {
		case "text":
			o.Text = s.String()
		case "bytes":
			o.Bytes = s.Bytes()
		case "n":
			o.N = s.Uint()
		case "yes":
			o.Yes = s.Bool()
		case "list":
			o.List = []inner{}
			s.List(func() {
				var one inner
				s.Object(func(name []byte) {
					if string(name) != "text" {
						s.Fail()
					}
					one.Text = s.String()
				})
				o.List = append(o.List, one)
			})
		default:
			s.Fail()
		}
	})
	return o, s.Done()
}

func TestScanner(t *testing.T) {
	for _, text := range []string{
		`{}`,
		`{"text":"a b/c#<>&'","bytes":"AAH/","n":0,"yes":false,"list":[]}`,
		`{"list":[{"text":"1"},{},{"text":""}],"yes":true,"n":999999999999999999}`,
		`{"bytes":""}`,
	} {
		var want outer
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		got, ok := scan([]byte(text))
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if !ok || !bytes.Equal(a, b) {
			t.Errorf("%s: %s, %v", text, a, ok)
		}
	}
	for _, text := range []string{
		`{"text":"1","text":"2"}`, ``, `{`, `{}}`, `{} `, `[]`, `null`, `{"text"}`, `{"text":}`, `{"text":"a`, `{"text":"\u0041"}`,
		`{"text":"é"}`, "{\"text\":\"\x01\"}", "{\"text\":\"\x7f\"}", `{"text":null}`, `{"Text":"a"}`, `{"text":"a",}`, `{,}`,
		`{"bytes":"AAH"}`, `{"bytes":"A*=="}`, `{"n":-1}`, `{"n":01}`, `{"n":1.5}`, `{"n":1e3}`, `{"n":}`,
		`{"n":1000000000000000000}`, `{"n":18446744073709551616}`, `{"yes":tru}`, `{"yes":1}`,
		`{"list":[{}`, `{"list":[{},]}`, `{"list":[,]}`, `{"list":{}}`, `{"other":1}`,
	} {
		if got, ok := scan([]byte(text)); ok {
			t.Errorf("%s is taken: %+v", text, got)
		}
	}
}

// FuzzScanner: what the Scanner takes means the same to encoding/json, which refuses other names.
func FuzzScanner(f *testing.F) {
	f.Add([]byte(`{"text":"a","bytes":"AAH/","n":12,"yes":true,"list":[{"text":"b"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := scan(text)
		if !ok {
			return
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		var want outer
		if err := d.Decode(&want); err != nil {
			t.Fatalf("%q is taken: %v", text, err)
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) {
			t.Fatalf("%q: %s, want %s", text, a, b)
		}
	})
}

func TestAppend(t *testing.T) {
	for _, text := range []string{"", "plain", `a"b\c`, "é\x00\x7f\xff", "<&>\u2028"} {
		var got string
		if err := json.Unmarshal(AppendString(nil, text), &got); err != nil {
			t.Fatal(err)
		}
		want, _ := json.Marshal(text)
		var same string
		if err := json.Unmarshal(want, &same); err != nil || got != same {
			t.Errorf("%q: %q", text, got)
		}
		var value []byte
		if err := json.Unmarshal(AppendBytes(nil, []byte(text)), &value); err != nil || string(value) != text {
			t.Errorf("%q: %q, %v", text, value, err)
		}
	}
}
