package v1

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"tenaq/internal/api/wire"
)

// root begins the paths of this API.
const root = "/v1"

// A route is a method on a path. The table of routes is the one description of this API: requests
// are read by it, parameters that it does not have are refused by it, and the OpenAPI document is
// written from it.
type route struct {
	method string
	path   string // below /v1; {name} is one segment, and fills the input tagged path:"name"

	// The name under which the route is counted and that a key must be allowed: PeekMessages is
	// tenaq:PeekMessages.
	action string
	free   bool // every key may use it
	server bool // only keys of the server's own account may use it, and its queue is of that one
	large  bool // its body may have up to 8 MiB instead of 64 KiB
	raw    bool // its body is that of an action of SQS
	reads  bool // it changes nothing, although it is no GET

	// logs has the answer noted in the action log: it is about what this returns, and says a text.
	// Nil for what the engine logs itself, and for what is no act of an operator. [TASK-16]
	logs func(c *call, in any) (about, text string)

	// parts are the rights of which each opens a part of the answer. The handler asks for them.
	parts []string

	needs func(h *Handler) bool // reports whether a handler serves it; nil for all with a broker

	summary string // for the OpenAPI document
	operation

	segments []string // of the path
}

// An operation is what a route does, with the types of its input and its answer.
type operation struct {
	input *input
	out   reflect.Type
	serve func(c *call) (any, error)
}

// does makes an operation of a handler. Its input is a struct whose fields are tagged path, query
// or json; see input for the types and the rules that they may have. Its answer is encoded as JSON,
// unless it is streamed.
func does[In, Out any](serve func(c *call, in In) (Out, error)) operation {
	input := inputOf(reflect.TypeFor[In]())
	return operation{input, reflect.TypeFor[Out](), func(c *call) (any, error) {
		var in In
		if err := input.read(c, reflect.ValueOf(&in).Elem()); err != nil {
			return nil, err
		}
		out, err := serve(c, in)
		if err == nil && c.route.logs != nil {
			about, text := c.route.logs(c, in)
			c.log(about, text)
		}
		return out, err
	}}
}

// none is the input of a route without parameters, and the answer of one that has nothing to say.
type none struct{}

// changes reports whether the route changes something.
func (r *route) changes() bool { return r.method != http.MethodGet && !r.reads }

// right is what a key must be allowed to use the route.
func (r *route) right() string { return "tenaq:" + r.action }

// feature names the part of the API that a route belongs to: what a queue has, such as history, or
// else the first segment of its path.
func (r *route) feature() string {
	switch {
	case len(r.segments) == 0, r.segments[0] == "openapi.json":
		return "server"
	case len(r.segments) > 2 && r.segments[0] == "queues":
		return r.segments[2]
	}
	return r.segments[0]
}

// matches reports whether a path is that of the route, and what stands for its names.
func (r *route) matches(path []string) (values map[string]string, ok bool) {
	if len(path) != len(r.segments) {
		return nil, false
	}
	for i, s := range r.segments {
		name, isName := strings.CutPrefix(s, "{")
		switch {
		case !isName && s != path[i], isName && path[i] == "":
			return nil, false
		case isName:
			if values == nil {
				values = make(map[string]string)
			}
			values[strings.TrimSuffix(name, "}")] = path[i]
		}
	}
	return values, true
}

// segmentsOf splits a path below /v1. A segment may contain a slash, written as %2F.
func segmentsOf(escaped string) []string {
	segments := strings.Split(strings.TrimPrefix(escaped, root), "/")[1:]
	for i, s := range segments {
		if plain, err := url.PathUnescape(s); err == nil {
			segments[i] = plain
		}
	}
	return segments
}

// find returns the route of a request, and what stands for the names in its path. If the path
// exists but not the method, it returns the methods that do.
func (h *Handler) find(r *http.Request) (found *route, values map[string]string, allow []string) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	escaped := r.URL.EscapedPath()
	if escaped != root && !strings.HasPrefix(escaped, root+"/") {
		return nil, nil, nil // Is decodes the path, and a slash may be encoded
	}
	path := segmentsOf(escaped)
	for _, route := range routes {
		values, ok := route.matches(path)
		switch {
		case !ok || !h.has(route):
		case route.method == method:
			return route, values, nil
		default:
			allow = append(allow, route.method)
		}
	}
	return nil, nil, allow
}

// has reports whether the handler serves a route.
func (h *Handler) has(r *route) bool {
	if r.needs != nil {
		return r.needs(h)
	}
	return h.cfg.Broker != nil
}

// Is reports whether a request is for /v1. A request that names an action of SQS before its body is
// for SQS, whatever its path. A form that names one in its body is for /v1 and refused there, since
// no queue has such a path.
func Is(r *http.Request) bool {
	return (r.URL.Path == root || strings.HasPrefix(r.URL.Path, root+"/")) &&
		len(r.Header["X-Amz-Target"]) == 0 && !wire.HasAction(r.URL.RawQuery)
}

// Actions are all that a key may be allowed to do here, such as tenaq:PeekMessages. [AUTH-38]
func Actions() (actions []string) {
	for _, r := range routes {
		if !r.free {
			actions = append(actions, r.right())
		}
	}
	slices.Sort(actions)
	return slices.Compact(actions)
}
