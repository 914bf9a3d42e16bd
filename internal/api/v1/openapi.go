package v1

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// openAPI answers GET /v1/openapi.json with the routes of every tenaq server. GET /v1 says which of
// them this one has. [V1-2]
func (c *call) openAPI(none) (json.RawMessage, error) { return document(), nil }

// document writes the table of routes as an OpenAPI document.
var document = sync.OnceValue(func() json.RawMessage {
	s, paths := newSchemas(), schema{}
	refused := schema{"description": "A refusal, or a failure", "content": schema{
		problemType: schema{"schema": s.of(reflect.TypeFor[problem]())},
	}}
	for _, r := range routes {
		path, ok := paths[root+r.path].(schema)
		if !ok {
			path = schema{}
			paths[root+r.path] = path
		}
		path[strings.ToLower(r.method)] = r.describe(s)
	}
	text, err := json.Marshal(schema{
		"openapi": "3.1.0",
		"info": schema{
			"title":   "tenaq",
			"version": apiVersion,
			"description": "What a tenaq server offers beside the SQS API. Times are RFC 3339 in UTC, " +
				"and durations whose names end in Ms are milliseconds. Parameters that a path does " +
				"not have are refused. Clients must accept members that they do not know.",
		},
		"security": []schema{{"signature": []string{}}, {"token": []string{}}},
		"paths":    paths,
		"components": schema{
			"schemas":   s.components,
			"responses": schema{"Problem": refused},
			"securitySchemes": schema{
				"signature": schema{"type": "apiKey", "in": "header", "name": "Authorization",
					"description": "AWS Signature Version 4 with the service sqs. A server without keys " +
						"needs none."},
				"token": schema{"type": "http", "scheme": "bearer",
					"description": "A token of POST /v1/tokens or tenaq token."},
			},
		},
	})
	if err != nil {
		panic(err) // maps of strings can always be encoded
	}
	return text
})

// describe writes a route as an operation of an OpenAPI document.
func (r *route) describe(s *schemas) schema {
	operation := schema{
		"operationId": strings.ToLower(r.method) + strings.NewReplacer("/", "_", "{", "", "}", "",
			".", "_").Replace(r.path),
		"summary": r.summary,
		"tags":    []string{r.feature()},
		"responses": schema{
			"200": schema{"description": "The answer",
				"content": schema{r.kind(): schema{"schema": r.answer(s)}}},
			"default": schema{"$ref": "#/components/responses/Problem"},
		},
	}
	if r.parts != nil {
		operation["description"] = "A key needs one of " + alternatives(r.parts) +
			". Each opens a part of the answer."
	}
	if !r.free {
		operation["description"] = "A key needs " + r.right() + "."
		operation["x-tenaq-action"] = r.right()
	}
	var parameters []schema
	for _, f := range r.input.fields {
		if f.in != "json" {
			parameters = append(parameters, f.parameter(s, r.input.typ.Field(f.index).Type))
		}
	}
	if parameters != nil {
		operation["parameters"] = parameters
	}
	if r.raw {
		body := schema{"type": "object",
			"description": "The request of the action in AWS JSON 1.0."}
		operation["requestBody"] = schema{"required": true,
			"content": schema{"application/json": schema{"schema": body}}}
	}
	if r.input.body {
		body := s.object(r.input.typ)
		body["additionalProperties"] = false
		operation["requestBody"] = schema{"required": true,
			"content": schema{"application/json": schema{"schema": body}}}
	}
	return operation
}

// kind is the Content-Type of the answers of a route.
func (r *route) kind() string {
	if s, ok := reflect.Zero(r.out).Interface().(streamed); ok {
		return s.kind()
	}
	return "application/json"
}

func (r *route) answer(s *schemas) schema {
	if r.kind() != "application/json" {
		return schema{"type": "string"}
	}
	return s.of(r.out)
}

// parameter writes a field of an input as a parameter.
func (f *field) parameter(s *schemas, t reflect.Type) schema {
	of := s.of(t)
	if t == durationType {
		of = schema{"type": "string", "examples": []string{"90s", "2h"}}
	}
	if f.enum != nil {
		of["enum"] = f.enum
	}
	if f.ranged {
		of["minimum"], of["maximum"] = f.low, f.high
	}
	if f.fallback != "" {
		of["default"] = json.RawMessage(f.fallback)
		if of["type"] == "string" {
			of["default"] = f.fallback
		}
	}
	return described(schema{"name": f.name, "in": f.in, "required": f.in == "path", "schema": of},
		f.doc)
}

// OpenAPI is the document that GET /v1/openapi.json answers.
func OpenAPI() []byte { return document() }
