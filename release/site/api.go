package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An operation is a route of the HTTP API, as far as the reference shows it.
type operation struct {
	Summary, Description string
	Tags                 []string
	Parameters           []struct {
		Name, In, Description string
		Required              bool
		Schema                json.RawMessage
	}
	Body struct {
		Content map[string]struct{ Schema json.RawMessage }
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]struct{ Schema json.RawMessage }
	}
}

// apiReference writes the OpenAPI document as a page.
func apiReference(document []byte) ([]byte, error) {
	var api struct {
		Info       struct{ Title, Description, Version string }
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(document, &api); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# The HTTP API\n\n%s\n\nA server answers this as an OpenAPI document at "+
		"`GET /v1/openapi.json`. The [rules](semantics/v1.md) say more about each route.\n\n",
		api.Info.Description)
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(api.Paths[path])) {
			o := api.Paths[path][method]
			fmt.Fprintf(&b, "## %s %s\n\n%s.\n\n", strings.ToUpper(method), path,
				strings.TrimSuffix(o.Summary, "."))
			if o.Description != "" {
				fmt.Fprintf(&b, "%s\n\n", o.Description)
			}
			if len(o.Parameters) > 0 {
				b.WriteString("| Parameter | In | Type | |\n|---|---|---|---|\n")
				for _, p := range o.Parameters {
					note := p.Description
					if p.Required {
						note = strings.TrimSpace("required. " + note)
					}
					fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, p.In, typeOf(p.Schema),
						note)
				}
				b.WriteString("\n")
			}
			for kind, content := range o.Body.Content {
				fmt.Fprintf(&b, "Body (`%s`): %s\n\n", kind, typeOf(content.Schema))
			}
			for kind, content := range o.Responses["200"].Content {
				fmt.Fprintf(&b, "Answer (`%s`): %s\n\n", kind, typeOf(content.Schema))
			}
		}
	}
	b.WriteString("# Types\n\n")
	for _, name := range slices.Sorted(maps.Keys(api.Components.Schemas)) {
		text, err := json.MarshalIndent(api.Components.Schemas[name], "", "  ")
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "## %s\n\n```json\n%s\n```\n\n", name, text)
	}
	return []byte(b.String()), nil
}

// typeOf says in a few words what a schema describes.
func typeOf(raw json.RawMessage) string {
	var s struct {
		Ref   string `json:"$ref"`
		Type  any
		Items json.RawMessage
	}
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	switch name := strings.TrimPrefix(s.Ref, "#/components/schemas/"); {
	case s.Ref != "":
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case len(s.Items) > 0:
		return "array of " + typeOf(s.Items)
	case s.Type == nil:
		return "any"
	}
	return fmt.Sprint(s.Type)
}
