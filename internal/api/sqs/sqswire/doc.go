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
//	dst = sqswire.AppendErrorJSON(dst, sqswire.AsError(err))
//
// And one of the Query protocol like this:
//
//	form, err := sqswire.ParseForm(r.URL.RawQuery, body)
//	action, ok := form.Get("Action")    // names the request
//	err = form.Decode(req)
//	...
//	dst = sqswire.AppendXML(dst, op, resp, requestID)
//
// Every struct lists its members once, in its members method, and a codec is a visitor of that
// list: there are two that read and three that write, over the same structs. Where the Query
// protocol has another name for a member, the member says so.
//
// What it guarantees:
//
//   - Text arrives as the client wrote it or not at all. Nothing is replaced or normalised, because
//     the client compares the checksum of what it sent with the one it is answered.
//   - Absent, empty and zero stay apart wherever a rule of SQS tells them apart; see Opt. JSON null
//     is the same as absent.
//   - Maps arrive as lists sorted by name without duplicates, and leave sorted, so equal inputs
//     give equal outputs everywhere behind and before it.
//   - The memory taken by decoding is a small multiple of the body, plus a constant.
//   - Decoding never panics, and refuses with SerializationException only; but an element of a map
//     that comes in two parameters may miss one.
//
// What it leaves to others: the rules. That a body is missing, a timeout out of range, a name
// illegal or a queue unknown is for the caller to find. This package refuses only what is not
// well-formed or has the wrong type. HTTP is not here either: no headers beyond the value of
// x-amzn-query-error, no signatures, no caps on the size of a body.
package sqswire
