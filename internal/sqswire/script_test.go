package sqswire

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestRequests runs the scripts in testdata: "decode op=X" has a body as input and the request it stands
// for, or the error response it gets, as output. Backslashes of the input reach the decoder as they are.
func TestRequests(t *testing.T) {
	seen := map[string]bool{}
	datadriven.Walk(t, "testdata/requests", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "decode" {
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			var name string
			d.ScanArgs(t, "op", &name)
			op, ok := Lookup("AmazonSQS." + name)
			if !ok {
				d.Fatalf(t, "unknown operation %q", name)
			}
			req := op.NewRequest()
			if err := DecodeJSON([]byte(d.Input), req); err != nil {
				return string(AppendErrorJSON(nil, AsError(err))) + "\n"
			}
			seen[name] = true
			var b strings.Builder
			describe(&b, "", reflect.ValueOf(req).Elem())
			return b.String()
		})
	})
	for _, op := range Operations() {
		if !seen[op.Name] && !t.Failed() {
			t.Errorf("no script decodes a request of %s", op.Name)
		}
	}
}

// describe writes the members of a struct that were given, one per line. It goes by the fields of the
// struct and not by its members method, so that a member bound to the wrong field shows.
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
		case Outgoing:
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
