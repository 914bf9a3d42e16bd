package cloudwatch

import (
	"net/http"
	"reflect"
	"strings"

	"tenaq/internal/api/wire"
)

// A protocol is one of the ways in which requests and answers are written. What is common to all is
// the model: names of actions, of members, of errors.
type protocol int

const (
	query protocol = iota // AWS Query: forms, and XML
	awsJSON
	rpcCBOR
)

const (
	apiVersion   = "2010-08-01"
	namespace    = "http://monitoring.amazonaws.com/doc/" + apiVersion + "/"
	serviceName  = "GraniteServiceVersion20100801"
	targetPrefix = serviceName + "."
	pathPrefix   = "/service/" + serviceName + "/operation/"
)

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
func (p protocol) request(r *http.Request, body []byte) (action string, in wire.Value, err error) {
	switch p {
	case awsJSON:
		if r.Method != http.MethodPost {
			return "", nil, wire.Malformed("Requests of AWS JSON are POSTs.")
		}
		in, err = wire.ReadJSON(body)
		return strings.TrimPrefix(r.Header.Get("X-Amz-Target"), targetPrefix), in, err
	case rpcCBOR:
		if r.Method != http.MethodPost || r.Header.Get("smithy-protocol") != "rpc-v2-cbor" {
			return "", nil, wire.Malformed("Requests of RPC v2 are POSTs with the header smithy-protocol: rpc-v2-cbor.")
		}
		in, err = wire.ReadCBOR(body)
		return strings.TrimPrefix(r.URL.Path, pathPrefix), in, err
	}
	form := string(body)
	switch r.Method {
	case http.MethodPost:
	case http.MethodGet:
		form = r.URL.RawQuery
	default:
		return "", nil, wire.Malformed("Requests of AWS Query are POSTs or GETs.")
	}
	n, err := wire.ReadQuery(form)
	if err != nil {
		return "", nil, err
	}
	action, version := n.ChildText("Action"), n.ChildText("Version")
	if action == "" {
		return "", nil, &Error{InvalidAction, "The request names no Action."}
	}
	if version != apiVersion {
		return "", nil, &Error{InvalidAction,
			"Could not find operation " + action + " for version " + wire.Quote(version) +
				": CloudWatch has the version " + apiVersion + "."}
	}
	return action, n, nil
}

// result writes the answer of an operation, with its content type.
func (p protocol) result(op *operation, out any, id string) (kind []string, body []byte) {
	var t wire.Tree
	if out != nil {
		t = treeOf(reflect.ValueOf(out))
	}
	switch p {
	case awsJSON:
		if t == nil {
			t = wire.Object{}
		}
		return wire.JSONType, wire.AppendJSON(nil, t)
	case rpcCBOR:
		if t == nil {
			return nil, nil // what has no output has no body
		}
		return wire.CBORType, wire.EncodeCBOR(t)
	}
	return wire.XMLType, wire.ResultXML(namespace, op.name, t, id)
}

func (p protocol) failure(e *Error, fault, id string) (kind []string, body []byte) {
	if p == query {
		return wire.XMLType, wire.FailureXML(namespace, string(e.Code), e.Message, fault, id)
	}
	message := "message"
	if e.Code == InternalServiceError {
		message = "Message" // so it is in the model
	}
	t := wire.Object{{Name: "__type", Tree: e.info().shape},
		{Name: message, Tree: e.Message}}
	if p == awsJSON {
		return wire.JSONType, wire.AppendJSON(nil, t)
	}
	return wire.CBORType, wire.EncodeCBOR(t)
}
