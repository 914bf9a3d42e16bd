// Package offload stores the bodies of messages that are too large for SQS in a store beside the
// queue, a directory or a bucket (package s3offload), and sends pointers in their place.
//
//	o, err := offload.New(offload.Config{Store: store})
//	...
//	body, attributes, err = o.Out(ctx, "accounts-2026-02-28", body, attributes) // before the send
//	body, attributes, err = o.In(ctx, body, attributes)                         // after the receive
//
// Package worker calls In itself, see worker.Config.Offload.
//
// Pointers have the format of the Amazon SQS Extended Client Libraries for Java and Python, so
// these libraries and this package read each other's messages. The body is
//
//	["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"orders","s3Key":"..."}]
//
// and the user attribute ExtendedPayloadSize holds the size of the real body in bytes. This package
// also reads what older versions of the libraries write: another class name, the attribute
// SQSLargePayloadSize, which Java still uses by default, or an object without the array. As in
// those libraries, the attribute decides whether a body is a pointer.
//
// What it guarantees:
//
//   - A body is in the store before its pointer is returned, so no pointer is sent before its body.
//   - The body behind a pointer is never replaced by another one, because the key of a body ends
//     with its hash. Storing a body again is harmless.
//   - A pointer is followed only into the stores of the Config, under Config.Prefix, and to a body
//     of at most Config.BodyMax bytes. Otherwise, any sender of a message could make a consumer
//     read anything that the consumer's credentials can reach.
//
// What it leaves to others:
//
//   - Access control. A sender may name any body under the prefix, and a consumer that deletes
//     bodies will delete it. Users who must not read each other's messages need different buckets
//     or prefixes.
//   - Removing bodies. Only Delete removes them. Use an expiry rule of the store: longer than the
//     retentions of the queue, of its dead-letter queue and of anything that sends messages again,
//     taken together.
package offload
