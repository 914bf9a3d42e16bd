// Package producer registers a piece of work once and sends its message once, however often it is
// told to: by a batch that is run again the next day, by two schedulers, by a process that died
// half-way.
//
//	p, err := producer.New(producer.Config{Client: client, Store: store, QueueURL: url})
//	receipt, err := p.SendOnce(ctx, producer.Message{
//		Key:   "accounts-2026-02-28", // what the work is called; without one nothing is sent
//		Body:  `{"FileID": 7, "Entity": "accounts", "BatchID": 31}`,
//		Group: "data-download-group",
//	})
//
// A registration is an entry in a ledger of package claims: SendOnce claims the key, sends, and
// completes the claim with the id of the message. The receipt says whether that was now (New) or
// earlier, so a batch counts what is expected from its receipts.
//
// What it guarantees:
//
//   - A key that was sent is not sent again for Config.Retention. Who tries is told when it was
//     sent and as which message, and what has become of the work if Config.Work is its ledger.
//   - A producer that dies between registering and sending loses nothing. The next SendOnce of the
//     key, or a Resend of what Stuck finds, sends the message when the lease of the dead one is
//     over, 30 s unless told.
//   - A key stands for the message that was registered first. Every later call sends that one. A
//     caller that brings another body or other attributes gets ErrDiffers, and what it brought is
//     never sent. Trace context (traceparent, tracestate, baggage), the group and the delay are not
//     compared.
//   - A send that SQS refuses leaves nothing behind: the key is as free as before.
//   - Every message carries its key and generation in an attribute of its own, by which package
//     worker knows the work again when SQS has forgotten the deduplication id.
//
// What it cannot do: know what became of a request that was never answered. Then the send is
// unknown (ErrUnknown), and the next try sends again under the same deduplication id. A FIFO queue
// drops that for five minutes; after them, or on a standard queue at any time, there may be two
// messages with one key. The same holds when a producer dies between sending and recording. The
// claim that package worker takes on the key is what keeps the work from being done twice.
//
// Messages are kept with their registrations, so that others can send them, when they fit into
// claims.MemoMax (32 KiB) encoded. Of a larger one the registration holds a checksum only: if its
// sender dies, it is the producer that has to call SendOnce again. Registration.Message says which
// it is.
//
// In a store without a clock (DynamoDB) a lease counts from when this process first saw it, and
// ages are as good as the clocks of the producers.
package producer
