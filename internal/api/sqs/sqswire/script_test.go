package sqswire

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"tenaq/internal/api/sqs/sqswire/wiretest"
)

// TestRequests runs the scripts in testdata: "decode op=X" has a body as input and the request it
// stands for, or the error response it gets, as output. Backslashes of the input reach the decoder
// as they are. "query op=X" has parameters of the Query protocol, one on a line. What a body says
// is also read as parameters, where they can say it, and must be the same request.
func TestRequests(t *testing.T) {
	seen := map[string]bool{}
	datadriven.Walk(t, "testdata/requests", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var name string
			d.ScanArgs(t, "op", &name)
			op, ok := lookup(name)
			if !ok {
				d.Fatalf(t, "unknown operation %q", name)
			}
			var req Shape
			var err error
			switch d.Cmd {
			case "decode":
				req = op.NewRequest()
				err = DecodeJSON([]byte(d.Input), req)
			case "query":
				req, err = decodeQuery(op, strings.ReplaceAll(d.Input, "\n", "&"))
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			if err != nil {
				return string(AppendErrorJSON(nil, err.(*Error))) + "\n"
			}
			if d.Cmd == "decode" {
				sameAsForm(t, op, d.Input, req)
			}
			seen[name] = true
			var b strings.Builder
			describe(&b, "", reflect.ValueOf(req).Elem())
			return b.String()
		})
	})
	for _, op := range operations {
		if !seen[op.Name] && !t.Failed() {
			t.Errorf("no script decodes a request of %s", op.Name)
		}
	}
}

func decodeQuery(op testedOperation, form string) (Shape, error) {
	req := op.NewRequest()
	f, err := ParseForm("", []byte(form))
	if err == nil {
		err = f.Decode(req)
	}
	return req, err
}

// sameAsForm checks that a request says the same in the Query protocol, unless that has no words
// for it: for numbers that are whole but have a point, for maps that are empty, and for elements
// that are null. There tags have no other name than Tags.
func sameAsForm(t *testing.T, op testedOperation, body string, want Shape) {
	t.Helper()
	form, err := wiretest.Form(op.Name, []byte(body))
	if err != nil || strings.Contains(body, "null") || strings.Contains(body, "{}") || strings.Contains(body, "e2}") ||
		strings.Contains(body, ".0}") ||
		op.Name == "CreateQueue" && strings.Contains(body, "Tags") {
		return
	}
	got, err := decodeQuery(op, form)
	if err != nil {
		t.Errorf("%s is refused: %v", form, err)
		return
	}
	clearEntries(want)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s is read as %+v, want %+v", form, got, want)
	}
}

// clearEntries gives a batch without entries an empty list. [XML-30]
func clearEntries(req Shape) {
	entries := reflect.ValueOf(req).Elem().FieldByName("Entries")
	if entries.IsValid() && entries.IsNil() {
		entries.Set(reflect.MakeSlice(entries.Type(), 0, 0))
	}
}

// describe writes the members of a struct that were given, one per line. It goes by the fields of
// the struct and not by its members method, so that a member bound to the wrong field shows.
func describe(b *strings.Builder, indent string, v reflect.Value) {
	if v.IsZero() {
		fmt.Fprintf(b, "%snothing given\n", indent)
		return
	}
	for i := range v.NumField() {
		name, f := indent+v.Type().Field(i).Name, v.Field(i)
		switch f := f.Interface().(type) {
		case Opt[string]:
			if f.Set {
				fmt.Fprintf(b, "%s: %q\n", name, f.Value)
			}
			continue
		case Opt[int64]:
			if f.Set {
				fmt.Fprintf(b, "%s: %d\n", name, f.Value)
			}
			continue
		case Outgoing, OnQueue:
			if !v.Field(i).IsZero() {
				describe(b, indent, v.Field(i))
			}
			continue
		}
		switch {
		case f.Kind() == reflect.String:
			fmt.Fprintf(b, "%s: %q\n", name, f.String())
		case f.Kind() == reflect.Bool && f.Bool():
			fmt.Fprintf(b, "%s\n", name)
		case f.Kind() != reflect.Slice || f.IsNil():
		case f.Len() == 0:
			fmt.Fprintf(b, "%s: none\n", name)
		case f.Type().Elem().Kind() == reflect.Struct:
			fmt.Fprintf(b, "%s:\n", name)
			for j := range f.Len() {
				var element strings.Builder
				describe(&element, indent+"    ", f.Index(j))
				text := strings.TrimPrefix(element.String(), indent+"    ")
				fmt.Fprintf(b, "%s  - %s\n", indent, strings.TrimSuffix(text, "\n"))
			}
		default:
			fmt.Fprintf(b, "%s: %q\n", name, f.Interface())
		}
	}
}
