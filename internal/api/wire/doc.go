// Package wire is the HTTP kit of the AWS services: what SQS, CloudWatch, STS and /v1 have in
// common on the wire.
//
//   - Requests: the service that a request is signed for, request ids, forms, sizes of headers.
//   - Values and trees: a request and an answer independent of their format, with readers and
//     writers for AWS JSON, CBOR (RPC v2) and the Query protocol (forms in, XML out).
//   - Answers: Respond writes one, with the headers that every answer has.
//
// Readers bound depth and number of parts before they allocate, and refuse with an *Error. SQS,
// whose requests are far more frequent, has codecs of its own in package sqswire.
//
// The package leaves actions, their members and their errors to the packages of the services, and
// the bytes in memory to intake.
package wire
