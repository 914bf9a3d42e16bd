// Package worker receives messages from a queue and runs a handler for each, so that work that
// takes longer than a visibility timeout, crashes in the middle, or is delivered twice is still
// done once.
//
//	w, err := worker.New(worker.Config{
//		Client:   sqs.NewFromConfig(cfg),
//		QueueURL: url,
//		Claims:   ledger, // a *claims.Ledger over any records.Store
//		Handler:  worker.JSON(func(ctx context.Context, o Order, m *worker.Message) error {
//			return charge(ctx, o, m.EffectKey())
//		}),
//	})
//	if err != nil {
//		return err
//	}
//	return w.Run(ctx) // until ctx ends; then it drains
//
// It works with every server that speaks the SQS API.
//
// What it guarantees:
//
//   - A message is kept from other workers for as long as its handler runs, and no longer: its
//     visibility timeout is a short lease, renewed in the background from the moment of its
//     receipt. A worker that dies gives its messages up within one lease.
//   - Every handler runs under a claim on the key of its message. While one runs, no other runs for
//     the same key, whatever the queue delivers: the message of the second is given back until the
//     lease of the first is over (busy). If the first runs in the same Worker, the second comes
//     back as soon as the first has completed the work. When the work is completed, a further
//     delivery is deleted without running anything (done). Busy never counts as an attempt, and
//     never as success.
//   - A handler that loses its lease or its claim is told: its context ends with ErrLost as its
//     cause. Afterwards the worker does nothing more to the message, and the ledger refuses the
//     handler's completion.
//   - A message is deleted only after its work has been recorded as completed, or its body has been
//     stored in the dead-letter queue.
//   - Attempts are counted when a handler begins, in the ledger. Receives do not count, so
//     throttling, restarts and busy keys use no attempt up. When the attempts of a message are used
//     up the worker itself moves it to the dead-letter queue, with the reason.
//   - If the queue's maxReceiveCount leaves no room above the attempts, the queue moves messages by
//     itself, and no worker sees them again. The worker looks for them in the dead-letter queue
//     every few minutes, and records their claims as exhausted. See MovedLetters for what such a
//     look does to that queue.
//   - On a FIFO queue messages of one group are handled one after the other, in order. One that
//     cannot be completed holds its group back and no other; what was received behind it is given
//     back.
//
// What it cannot do: make an effect happen exactly once in a system that takes neither an
// idempotency key (Message.EffectKey) nor a fencing token (Message.Fence). A handler that was
// killed after it charged a card and before it said so will run again, with the same effect key.
//
// New refuses a Config without Claims unless NoClaims is set. With NoClaims there is no ledger:
// messages are handled at least once, attempts are what the queue counts, and only the lease
// protects against a second handler.
package worker
