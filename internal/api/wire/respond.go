package wire

import (
	"net/http"
	"strconv"

	"tenaq/internal/api/intake"
)

// The values of Content-Type, as the header holds them. [WIRE-19, XML-19, XML-26]
var (
	JSONType = []string{"application/x-amz-json-1.0"}
	// in the Query protocol, for clients that ask for it
	PlainJSONType = []string{"application/json"}
	XMLType       = []string{"text/xml"}
	CBORType      = []string{"application/cbor"}
)

// requestID is written as AWS writes it, which is not the canonical form.
var requestID = "x-amzn-RequestId"

// SetRequestID sets the header that every answer has. [WIRE-18]
func SetRequestID(w http.ResponseWriter, id string) { w.Header()[requestID] = []string{id} }

// RequestIDOf returns what SetRequestID has set.
func RequestIDOf(w http.ResponseWriter) string {
	if id := w.Header()[requestID]; len(id) == 1 {
		return id[0]
	}
	return ""
}

// Respond writes an answer while its client reads quickly enough. A nil kind leaves out the
// Content-Type, for answers without a body.
func Respond(w http.ResponseWriter, status int, kind []string, body []byte) {
	header := w.Header()
	if kind != nil {
		header["Content-Type"] = kind
	}
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	intake.Write(w, body)
}
