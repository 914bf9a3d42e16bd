package v1

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
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
