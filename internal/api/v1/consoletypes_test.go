package v1

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the types of the console")

// The console reads answers with the types that this API writes: a member that is renamed here is
// unknown to its scripts, whose check of types then fails. [CONSOLE-2]
func TestConsoleTypes(t *testing.T) {
	s := newSchemas()
	for _, of := range []reflect.Type{reflect.TypeFor[problem](), reflect.TypeFor[hello](), reflect.TypeFor[tick](),
		reflect.TypeFor[bye](), reflect.TypeFor[taskCount](), reflect.TypeFor[RedriverPlan]()} {
		s.of(of)
	}
	for _, r := range routes {
		if r.method == "GET" && r.kind() == "application/json" {
			s.of(r.out)
		}
	}
	var b strings.Builder
	b.WriteString("// The answers of /v1. A test writes this file: go test ./internal/api/v1 -run TestConsoleTypes -rewrite\n")
	for _, name := range slices.Sorted(maps.Keys(s.components)) {
		fmt.Fprintf(&b, "\nexport interface %s %s\n", name, typeScript(s.components[name].(schema)))
	}
	const path = "../../console/web/api.gen.ts"
	if *rewrite {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("%s is old: run this test with -rewrite, then go generate ./internal/console", path)
	}
}

// typeScript writes a schema as a type of TypeScript.
func typeScript(s schema) string {
	if ref, ok := s["$ref"].(string); ok {
		return strings.TrimPrefix(ref, "#/components/schemas/")
	}
	if either, ok := s["anyOf"].([]schema); ok {
		return typeScript(either[0]) + " | null"
	}
	if values, ok := s["enum"].([]string); ok {
		var quoted []string
		for _, v := range values {
			quoted = append(quoted, strconv.Quote(v))
		}
		return strings.Join(quoted, " | ")
	}
	switch s["type"] {
	case "string", "boolean":
		return s["type"].(string)
	case "integer", "number":
		return "number"
	case "array":
		item := typeScript(s["items"].(schema))
		if strings.Contains(item, " ") {
			return "(" + item + ")[]"
		}
		return item + "[]"
	case "object":
		if more, ok := s["additionalProperties"].(schema); ok {
			return "{ [name: string]: " + typeScript(more) + " }"
		}
		properties, _ := s["properties"].(schema)
		required, _ := s["required"].([]string)
		var b strings.Builder
		b.WriteString("{\n")
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			optional := "?"
			if slices.Contains(required, name) {
				optional = ""
			}
			fmt.Fprintf(&b, "  %s%s: %s;\n", name, optional, typeScript(properties[name].(schema)))
		}
		return b.String() + "}"
	}
	return "unknown"
}
