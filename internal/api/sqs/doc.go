// Package sqs serves the SQS API over HTTP, in AWS JSON and in the Query protocol. It authenticates
// a request, decodes it, asks the broker, and encodes the answer.
//
// To add an action:
//
//  1. Write its request and its response into package sqswire, beside those of the same resource. A
//     request about one queue embeds OnQueue.
//  2. Write its handler into messages.go, queues.go or movetasks.go, and add an entry to the table
//     at the top of that file. onQueue, void and onOther make entries; with adds the rights of
//     other actions.
//
// The entry says which queue and which rights a request needs, so keys, policies, both protocols
// and metrics know the action from then on. Tests fail until a script in testdata shows the action
// in both protocols.
//
// What the package guarantees:
//
//   - No operation runs without a Principal, and only a Door makes one.
//   - Every response carries a request id and a date, every error the shape and header that SDKs
//     look for. [WIRE-18, WIRE-20, ERR-1, ERR-3, XML-20, XML-21]
//   - Bodies that are read or written at the same time stay within a budget of bytes.
//   - The content of a request is never logged.
//
// It leaves the rules of the queue to engine and the bytes of the protocol to sqswire. In between
// it does what depends on neither: queue URLs, the attributes that a receive asked for, seals of
// receipt handles, checksums.
package sqs
