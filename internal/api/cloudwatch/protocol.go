package cloudwatch

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
)

// A protocol is one of the ways in which requests and answers are written. What is common to all is the model: names of
// actions, of members, of errors.
type protocol int

const (
	query protocol = iota // AWS Query: forms, and XML
	awsJSON
	rpcCBOR
)

const (
	apiVersion   = "2010-08-01"
	serviceName  = "GraniteServiceVersion20100801"
	targetPrefix = serviceName + "."
	pathPrefix   = "/service/" + serviceName + "/operation/"
)

// protocolOf says what a request is written in.
func protocolOf(r *http.Request) protocol {
	switch {
	case r.Header.Get("X-Amz-Target") != "":
		return awsJSON
	case strings.HasPrefix(r.URL.Path, pathPrefix):
		return rpcCBOR
	}
	return query
}

// request returns the action that is asked for, and the value that holds its parameters.
func (p protocol) request(r *http.Request, body []byte) (action string, in value, err error) {
	switch p {
	case awsJSON:
		if r.Method != http.MethodPost {
			return "", nil, malformed("Requests of AWS JSON are POSTs.")
		}
		in, err = readJSON(body)
		return strings.TrimPrefix(r.Header.Get("X-Amz-Target"), targetPrefix), in, err
	case rpcCBOR:
		if r.Method != http.MethodPost || r.Header.Get("smithy-protocol") != "rpc-v2-cbor" {
			return "", nil, malformed("Requests of RPC v2 are POSTs with the header smithy-protocol: rpc-v2-cbor.")
		}
		in, err = readCBOR(body)
		return strings.TrimPrefix(r.URL.Path, pathPrefix), in, err
	}
	form := string(body)
	switch r.Method {
	case http.MethodPost:
	case http.MethodGet:
		form = r.URL.RawQuery
	default:
		return "", nil, malformed("Requests of AWS Query are POSTs or GETs.")
	}
	n, err := readQuery(form)
	if err != nil {
		return "", nil, err
	}
	action, version := n.childText("Action"), n.childText("Version")
	if action == "" {
		return "", nil, &Error{InvalidAction, "The request names no Action."}
	}
	if version != apiVersion {
		return "", nil, &Error{InvalidAction, "Could not find operation " + action + " for version " + quote(version) + ": CloudWatch has the version " + apiVersion + "."}
	}
	return action, n, nil
}

// result writes the answer of an operation, with its content type.
func (p protocol) result(op *operation, out any, id string) (kind string, body []byte) {
	var t tree
	if out != nil {
		t = treeOf(reflect.ValueOf(out))
	}
	switch p {
	case awsJSON:
		if t == nil {
			t = object{}
		}
		return jsonType, appendJSON(nil, t)
	case rpcCBOR:
		if t == nil {
			return "", nil // what has no output has no body
		}
		return cborType, encodeCBOR(t)
	}
	return xmlType, resultXML(op.name, t, id)
}

// failure writes an error, with its content type.
func (p protocol) failure(e *Error, fault, id string) (kind string, body []byte) {
	if p == query {
		return xmlType, failureXML(e, fault, id)
	}
	t := object{{"__type", catalogue[e.Code].shape}}
	message := "message"
	if e.Code == InternalServiceError {
		message = "Message" // so it is in the model
	}
	t = append(t, member{message, e.Message})
	if p == awsJSON {
		return jsonType, appendJSON(nil, t)
	}
	return cborType, encodeCBOR(t)
}

// unescape returns a part of a form as it was before it was written into one.
func unescape(s string) (string, error) {
	plain, err := url.QueryUnescape(s)
	if err != nil {
		return "", malformed("The form cannot be read: %s is not escaped as forms are.", quote(s))
	}
	return plain, nil
}
