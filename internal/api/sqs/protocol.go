package sqs

import (
	"net/http"
	"strings"

	"tenaq/internal/api/framing"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/api/wire"
)

// A protocol is how a request and its answer are written.
type protocol int

const (
	// the request is in none; the answer, that it is not found, is like one of awsJSON
	noProtocol protocol = iota
	awsJSON
	queryXML
	queryJSON // a request in the Query protocol whose client accepts JSON
)

// protocolOf tells from the first line and the headers of a request what it is. One that could be
// read in two ways is nothing. [WIRE-2, WIRE-3, WIRE-24, WIRE-25, XML-1]
func protocolOf(r *http.Request) protocol {
	if strings.Count(strings.Trim(r.URL.Path, "/"), "/") > 1 || len(r.Header["Content-Type"]) > 1 {
		return noProtocol
	}
	_, target := r.Header["X-Amz-Target"]
	switch r.Method {
	case http.MethodPost:
		kind := r.Header.Get("Content-Type")
		if kind == "application/x-amz-json-1.0" {
			return awsJSON
		}
		kind, _, _ = strings.Cut(kind, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "application/x-amz-json-1.0", "application/x-amz-json-1.1", "application/json":
			return awsJSON
		case "application/x-www-form-urlencoded":
			if !target {
				return queryOf(r)
			}
		}
	case http.MethodGet:
		if target {
			return noProtocol
		}
		if wire.HasAction(r.URL.RawQuery) || isQueuePath(r.URL.Path) {
			return queryOf(r)
		}
	}
	return noProtocol
}

// Check refuses a request whose first line and headers are in no protocol of SQS, or whose end is
// ambiguous.
func Check(r *http.Request) error {
	if framing.Ambiguous(r) {
		return errTwoLengths
	}
	if protocolOf(r) == noProtocol {
		return errNotFound
	}
	return nil
}

// isQueuePath reports whether a path is one of the form /<account>/<name>.
func isQueuePath(path string) bool { return strings.Count(strings.Trim(path, "/"), "/") == 1 }

// queryOf decides whether the answer to a request in the Query protocol is XML or JSON: whichever
// the client names first. [XML-26]
func queryOf(r *http.Request) protocol {
	for _, accept := range r.Header.Values("Accept") {
		for kind := range strings.SplitSeq(accept, ",") {
			kind, parameters, _ := strings.Cut(kind, ";")
			if strings.TrimSpace(parameters) == "q=0" {
				continue
			}
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "application/json":
				return queryJSON
			case "text/xml", "application/xml":
				return queryXML
			}
		}
	}
	return queryXML
}

// named returns the operation that the head of a request names. It is nil if there is none, and in
// the Query protocol, where the body has the name. [ERR-8, WIRE-25]
func (p protocol) named(r *http.Request) *operation {
	target := r.Header["X-Amz-Target"]
	if p != awsJSON || len(target) != 1 {
		return nil
	}
	name, ok := strings.CutPrefix(target[0], "AmazonSQS.")
	if !ok {
		return nil
	}
	return operations[name]
}

// decode makes a request of what was read. The operation is known before the request is, and also
// when that is refused.
func (p protocol) decode(
	h *Handler, r *http.Request, body []byte,
) (*operation, sqswire.Shape, error) {
	switch p {
	case awsJSON:
		op := p.named(r)
		if op == nil {
			return nil, nil, sqswire.Errorf(sqswire.InvalidAction,
				"The action or operation requested is invalid. Verify that the action is typed correctly.")
		}
		req := op.newRequest()
		err := sqswire.DecodeJSON(body, req)
		if err == nil && op.onQueue && !req.(interface{ Queue() sqswire.Opt[string] }).Queue().Set {
			err = h.errNoQueueURL(r)
		}
		return op, req, err
	case queryXML, queryJSON:
		if r.Method == http.MethodGet {
			body = nil
		}
		form, err := sqswire.ParseForm(r.URL.RawQuery, body)
		if err != nil {
			return nil, nil, err
		}
		return h.decodeForm(r, form)
	}
	return nil, nil, errNotFound
}

// decodeForm makes a request of parameters, to which the path is one more.
// [XML-11, XML-12, XML-24, XML-25]
func (h *Handler) decodeForm(
	r *http.Request, form sqswire.Form,
) (*operation, sqswire.Shape, error) {
	action, ok := form.Get("Action")
	if !ok {
		return nil, nil, errNoAction
	}
	op := operations[action]
	queue := strings.Trim(r.URL.Path, "/")
	if op == nil || queue != "" && (op.Name == "CreateQueue" || op.Name == "ListQueues") {
		return op, nil, sqswire.Errorf(sqswire.InvalidAction,
			"The action %s is not valid for this endpoint.", wire.Cut(action))
	}
	if queue != "" {
		form.SetDefault("QueueUrl", queue)
	} else if _, given := form.Get("QueueUrl"); !given && op.onQueue {
		return op, nil, h.errNoQueueURL(r)
	}
	req := op.newRequest()
	return op, req, form.Decode(req)
}

// errNoQueueURL refuses an action on a queue that names none. The root is the address of no queue
// [XML-24]; in JSON, which does not read the path of a queue [WIRE-3], the parameter is missing
// there. [QUEUE-37]
func (h *Handler) errNoQueueURL(r *http.Request) error {
	if strings.Trim(r.URL.Path, "/") != "" {
		return sqswire.Errorf(sqswire.MissingParameter,
			"The request must contain the parameter QueueUrl.")
	}
	return sqswire.Errorf(sqswire.InvalidAddress, "The address %s/ is not valid for this endpoint.",
		wire.BaseURL(h.cfg.PublicURL, r))
}

func (p protocol) appendAnswer(
	dst []byte, op sqswire.Operation, shape sqswire.Shape, id string,
) []byte {
	switch p {
	case queryXML:
		return sqswire.AppendXML(dst, op, shape, id)
	case queryJSON:
		return sqswire.AppendQueryJSON(dst, op, shape, id)
	}
	return sqswire.AppendJSON(dst, shape)
}

func (p protocol) appendError(dst []byte, err *sqswire.Error, id string) []byte {
	switch p {
	case queryXML:
		return sqswire.AppendErrorXML(dst, err, id)
	case queryJSON:
		return sqswire.AppendErrorQueryJSON(dst, err, id)
	}
	return sqswire.AppendErrorJSON(dst, err)
}

// contentTypes are those of answers.
var contentTypes = [...][]string{
	noProtocol: wire.JSONType,
	awsJSON:    wire.JSONType,
	queryXML:   wire.XMLType,
	queryJSON:  wire.PlainJSONType,
}
