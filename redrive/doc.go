// Package redrive brings dead letters back to the queue they came from, at a pace that their
// consumer can bear, and takes aside what would only come back again.
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
// those that package worker runs.
//
// What it guarantees:
//
//   - No message is lost: at every moment it is in the dead-letter queue, in its own queue or in
//     the parking lot. A redriver that dies between sending and deleting leaves a message in two of
//     them; the same step sends it again under the same deduplication id, and the work has the same
//     key, so it is done once.
//   - A consumer that is sick is left alone. Success is a redriven message that was processed, and
//     nothing else is: not that SQS took the message, not that the dead-letter queue is empty.
//     Three failures in a row, while its workers do no other work well, open a breaker, which lets
//     single messages try after a growing pause. How many messages are on their way at most grows
//     while they succeed and halves when they do not.
//   - A message that fails while others succeed, again and again, is parked with its reason. What
//     fails while everything fails does not count against it, however long that lasts. Once it is
//     known that a message fails while others succeed, its failures slow none of the others down.
//   - The messages of a group of a FIFO queue go one at a time, in order. When one fails again, the
//     rest of the group waits until it succeeds or is parked.
//   - A message keeps its body, its attributes and the identity of its work through every redrive
//     and into the parking lot.
//   - Any number of redrivers may run at once. What they know is one record, changed by
//     compare-and-swap.
//
// What it cannot do on SQS: look at the dead-letter queue without receiving from it, which hides
// messages for a while and counts a receive; delay a single message of a FIFO queue; put a message
// back at the head of its group. A message that fails alone, with nothing else going on by which
// the consumer could be known to be well, is retried ever more rarely and not parked.
package redrive
