// Package redrive brings dead letters back to the queue they came from, at a pace that their
// consumer can handle, and parks messages that would only fail again.
//
//	r, err := redrive.New(redrive.Config{
//		Client:        sqs.NewFromConfig(cfg),
//		Store:         store, // any records.Store
//		Claims:        ledger, // that of the workers
//		DeadLetterURL: dead,
//		ParkingURL:    parking,
//	})
//	if err != nil {
//		return err
//	}
//	return r.Run(ctx) // a step every five minutes; or call Step yourself
//
// It works with every server that speaks the SQS API, and with every consumer. It knows most about
// consumers that use package worker.
//
// What it guarantees:
//
//   - No message is lost: at every moment it is in the dead-letter queue, in its own queue or in
//     the parking lot. A tenaq server moves it in one step, so it is in exactly one of them and
//     keeps its lineage. On any other server, a redriver that dies between sending and deleting
//     leaves the message in two of them. The next step sends it again under the same deduplication
//     id, and the work has the same key, so it is done once.
//   - A failing consumer gets a rest. Success means that a redriven message was processed, not that
//     SQS accepted it or that the dead-letter queue is empty. Three failures in a row, while the
//     workers complete no other work, open a breaker. The breaker then lets single messages through
//     after growing pauses. The number of messages on their way grows with successes and halves
//     after failures.
//   - A message that repeatedly fails while others succeed is parked with its reason. While
//     everything fails, failures do not count against a message, no matter how long that lasts. A
//     message that is known to fail while others succeed does not slow down the others.
//   - The messages of a FIFO group go one at a time, in order. When one fails again, the rest of
//     its group waits until it succeeds or is parked.
//   - A message keeps its body, its attributes and the identity of its work through every redrive
//     and into the parking lot.
//   - Any number of redrivers may run at once. Their state is one record, changed by
//     compare-and-swap.
//
// What it cannot do on SQS:
//
//   - Look at the dead-letter queue without receiving from it, which hides messages for a while and
//     counts a receive.
//   - Delay a single message of a FIFO queue, or put it at the head of its group.
//   - Park a message that fails alone, when no other work shows that the consumer works. It is
//     retried less and less often.
package redrive
