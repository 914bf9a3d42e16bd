package v1

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The document has every route with every parameter, and refers to nothing that it does not have.
// [V1-2]
func TestOpenAPI(t *testing.T) {
	_, text := newWorld(t).ask("GET", "/v1/openapi.json", "", "")
	var d struct {
		OpenAPI    string
		Paths      map[string]map[string]struct{ Parameters []struct{ Name, In string } }
		Components map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil || d.OpenAPI != "3.1.0" {
		t.Fatalf("%v, version %s", err, d.OpenAPI)
	}
	for _, r := range routes {
		operation, ok := d.Paths[root+r.path][strings.ToLower(r.method)]
		if !ok {
			t.Errorf("%s %s is missing", r.method, r.path)
		}
		in := make(map[string]string)
		for _, p := range operation.Parameters {
			in[p.Name] = p.In
		}
		for _, segment := range r.segments {
			if name := strings.Trim(segment, "{}"); name != segment && in[name] != "path" {
				t.Errorf("%s %s: the input has no %s from the path", r.method, r.path, name)
			}
		}
		for name, where := range in {
			if where == "path" && !strings.Contains(r.path, "{"+name+"}") {
				t.Errorf("%s %s: the path has no %s", r.method, r.path, name)
			}
		}
	}
	for _, ref := range regexp.MustCompile(`"#/components/(\w+)/(\w+)"`).FindAllStringSubmatch(text, -1) {
		if d.Components[ref[1]][ref[2]] == nil {
			t.Errorf("%s does not exist", ref[0])
		}
	}
}

// compiled compiles a schema of the document.
var compiled = sync.OnceValue(func() func(pointer string) (*jsonschema.Schema, error) {
	d, err := jsonschema.UnmarshalJSON(bytes.NewReader(document()))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("mem:///openapi.json", d); err != nil {
		panic(err)
	}
	var mu sync.Mutex
	return func(pointer string) (*jsonschema.Schema, error) {
		mu.Lock()
		defer mu.Unlock()
		return c.Compile("mem:///openapi.json#" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace(pointer))
	}
})

// pointerTo is the place of a schema in the document: that of the answers of a route, or of
// problems.
func pointerTo(r *route, status int) string {
	if status >= 400 {
		return "/components/responses/Problem/content/application~1problem+json/schema"
	}
	path := strings.ReplaceAll(root+r.path, "/", "~1")
	return "/paths/" + path + "/" + strings.ToLower(r.method) + "/responses/200/content/application~1json/schema"
}

// matchesSchema checks an answer against its schema in the document. The tests of this package
// check every answer that they ask for. [V1-2]
func matchesSchema(h *Handler, req *http.Request, status int, body string) error {
	r, _, _ := h.find(req)
	if status < 400 && r.kind() != "application/json" {
		return nil
	}
	s, err := compiled()(pointerTo(r, status))
	if err != nil {
		return err
	}
	answer, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		return err
	}
	return s.Validate(answer)
}

// Every schema of the document is one of JSON Schema 2020-12. [V1-2]
func TestSchemasAreValid(t *testing.T) {
	for _, r := range routes {
		pointers := []string{pointerTo(r, 400)}
		if r.kind() == "application/json" {
			pointers = append(pointers, pointerTo(r, 200))
		}
		if r.input.body {
			pointers = append(pointers, strings.Replace(pointerTo(r, 200), "/responses/200/", "/requestBody/", 1))
		}
		for _, pointer := range pointers {
			if _, err := compiled()(pointer); err != nil {
				t.Errorf("%s: %v", pointer, err)
			}
		}
	}
	s, err := compiled()(pointerTo(nil, 400))
	if err != nil {
		t.Fatal(err)
	}
	if s.Validate(map[string]any{"code": "x"}) == nil {
		t.Error("a problem without a status matches its schema")
	}
}
