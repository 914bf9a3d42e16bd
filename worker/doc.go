// Package worker receives messages from a queue and runs a handler for each, so that work is done
// once even if it takes longer than a visibility timeout, crashes half-way, or is delivered twice.
//
//	w, err := worker.New(worker.Config{
//		Client:   sqs.NewFromConfig(cfg),
//		QueueURL: url,
//		Claims:   ledger,  // a *claims.Ledger over any records.Store
//		Key:      orderID, // the name of the work, from the body of the message
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
//   - A message is hidden from other workers exactly for as long as its handler runs. Its
//     visibility timeout is a short lease, which the worker renews in the background as soon as it
//     has received the message. When a worker dies, its messages come back within one lease.
//   - Every handler runs under a claim on the key of its message. While it holds the claim, no
//     other handler runs for the same key: a second delivery is busy and is given back until the
//     lease of the first expires. If the first runs in the same Worker, the second comes back as
//     soon as the first has completed the work. Once the work is completed, later deliveries are
//     deleted without running a handler. Busy counts neither as an attempt nor as a success.
//   - A handler must return when its context ends. A handler that takes longer than Config.Drain to
//     return is abandoned, and another may begin the same work at the same time.
//   - When a handler loses its lease or its claim, its context ends with the cause ErrLost. After
//     that, the worker does nothing more to the message, and the ledger refuses the completion.
//   - A message is deleted only after its work is recorded as completed, or after it is stored in
//     the dead-letter queue.
//   - Attempts are counted in the ledger when a handler begins. Receives do not count, so
//     throttling, restarts and busy keys use up no attempts. When the attempts of a message are
//     used up, the worker moves it to the dead-letter queue, with the reason.
//   - A tenaq server gets the reason of each failed attempt, and does not count the receives of
//     messages that were given back untried. It moves a message to the dead-letter queue in one
//     step, and the message keeps its id and its lineage. The worker asks once, when it starts,
//     whether the server takes reasons. On other servers it changes the visibility, or sends a copy
//     and deletes the message.
//   - If the maxReceiveCount of the queue is too close to the number of attempts, the queue may
//     move messages by itself, and no worker sees them again. The worker looks for them in the
//     dead-letter queue every few minutes, and records their claims as exhausted. MovedLetters
//     describes the side effects.
//   - On a FIFO queue, messages of one group are handled one after the other, in order. A message
//     that cannot be completed delays only its own group; later messages of the group are given
//     back.
//
// What it cannot do: make an effect happen exactly once in a system that accepts neither an
// idempotency key (Message.EffectKey) nor a fencing token (Message.Fence). A handler that was
// killed after it charged a card, but before this was recorded, runs again with the same effect
// key.
//
// New refuses a Config without Claims unless NoClaims is set. With NoClaims, messages are handled
// at least once, attempts are the receives of the queue, and only the lease protects against a
// second handler.
package worker
