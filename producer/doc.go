// Package producer registers a piece of work once and sends its message once, no matter how often
// it is asked to: by a batch that runs again the next day, by two schedulers, or by the successor
// of a process that died halfway.
//
//	p, err := producer.New(producer.Config{Client: client, Store: store, QueueURL: url})
//	receipt, err := p.SendOnce(ctx, producer.Message{
//		Key:   "accounts-2026-02-28", // names the work, required
//		Body:  `{"FileID": 7, "Entity": "accounts", "BatchID": 31}`,
//		Group: "data-download-group",
//	})
//
// A registration is an entry in a ledger of package claims. SendOnce claims the key, sends, and
// completes the claim with the id of the message. The receipt says whether this call sent the
// message (New) or an earlier one did, so a batch can count its receipts.
//
// What it guarantees:
//
//   - A key that was sent is not sent again for Config.Retention. The receipt of a duplicate says
//     when it was sent and as which message, and the state of the work if Config.Work is its
//     ledger.
//   - A producer that dies between registering and sending loses nothing. The next SendOnce of the
//     key, or a Resend of what Stuck finds, sends the message after the lease of the dead producer
//     has expired, by default 30 s.
//   - A key stands for the message that was registered first. Every later call sends that message.
//     A caller that passes another body or other attributes gets ErrDiffers, and its message is
//     never sent. Trace context (traceparent, tracestate, baggage), the group and the delay are not
//     compared.
//   - A send that SQS refuses leaves nothing behind: the key can be used again.
//   - Every message carries its key and generation in an attribute, by which package worker
//     recognizes the work after SQS has forgotten the deduplication id.
//
// What it cannot do: know the outcome of a request that was never answered. Such a send is unknown
// (ErrUnknown), and the next try sends again under the same deduplication id. A FIFO queue drops
// the duplicate for five minutes. Later, or on a standard queue at any time, there may be two
// messages with one key. The same holds if a producer dies between sending and recording. The claim
// that package worker takes on the key keeps the work from being done twice.
//
// A registration keeps its message, so that other processes can send it, if the encoded message
// fits into claims.MemoMax (32 KiB). For a larger message it keeps only a checksum: if the producer
// dies, the producer must call SendOnce again. Registration.Message says which case applies.
//
// In a store without a clock (DynamoDB), a lease counts from when this process first saw it, and
// ages depend on the clocks of the producers.
package producer
