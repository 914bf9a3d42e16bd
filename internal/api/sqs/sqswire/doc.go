// Package sqswire turns the bytes of the SQS wire protocol into Go structs and back. It knows the
// members of every request and response, the catalogue of errors, and the checksums that clients
// verify.
//
// A request goes through it like this:
//
//	req := new(sqswire.SendMessageRequest) // which the X-Amz-Target header names
//	err := sqswire.DecodeJSON(body, req)
//	...
//	dst = sqswire.AppendJSON(dst, &sqswire.SendMessageResponse{...})
//	dst = sqswire.AppendErrorJSON(dst, sqswire.Errorf(sqswire.MissingParameter, "..."))
//
// And one of the Query protocol like this:
//
//	form, err := sqswire.ParseForm(r.URL.RawQuery, body)
//	action, ok := form.Get("Action")    // names the request
//	err = form.Decode(req)
//	...
//	dst = sqswire.AppendXML(dst, op, resp, requestID)
//
// The fields of every struct are its members on the wire, with tags for what the protocols need to
// know besides. A codec is a visitor of these members: two read and two write the same structs.
//
// What it guarantees:
//
//   - Text arrives as the client wrote it or not at all. Nothing is replaced or normalised, because
//     the client compares the checksum of what it sent with the one it is answered.
//   - Absent, empty and zero stay distinct wherever a rule of SQS distinguishes them; see Opt. JSON
//     null is the same as absent.
//   - Maps arrive as lists sorted by name without duplicates, and leave sorted, so equal inputs
//     give equal outputs everywhere before and after it.
//   - The memory taken by decoding is a small multiple of the body, plus a constant.
//   - Decoding never panics. It refuses with SerializationException, and with MissingParameter for
//     an element of a map without its key or value.
//
// It leaves the rules to the caller: a body that is missing, a timeout out of range, an illegal
// name or an unknown queue. This package refuses only what is not well-formed or has the wrong
// type. It also leaves out HTTP: headers beyond the value of x-amzn-query-error, signatures, and
// bounds on the size of a body.
package sqswire
