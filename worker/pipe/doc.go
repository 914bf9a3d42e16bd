// Package pipe gives each message of a queue to a program: a subprocess that is started for it, or
// an HTTP endpoint. The program does not need to know about queues.
//
//	w, err := worker.New(worker.Config{
//		Client:   sqs.NewFromConfig(cfg),
//		QueueURL: url,
//		Claims:   ledger,
//		Handler:  &pipe.Command{Args: []string{"convert-file", "--quiet"}},
//	})
//
// Command runs a subprocess per message, HTTP makes a request per message, and Lambda makes a
// request per batch, in the form in which AWS Lambda calls a function. They are handlers of package
// worker and have all of its guarantees: the lease is renewed while a task runs, a task runs under
// a claim on the key of its message, and a message is deleted only after its task has succeeded and
// that is recorded.
//
// What it guarantees:
//
//   - Only the end of a task counts: an exit code, a status, a complete answer.
//   - A task gets what it needs to act once: the effect key, for systems that accept an idempotency
//     key, and the fence, for systems that can refuse an old one.
//   - When the lease or the claim of a message is lost, its task is stopped. A subprocess ends
//     together with everything that it started in its process group.
//   - The reason of a failed task is kept in a few hundred bytes of printable text, for the
//     dead-letter queue.
//
// What it leaves to others: retries, which are those of package worker, and the effects of a task
// that runs a second time. A cancelled request may continue at the other end, and a process that a
// subprocess started may outlive a worker that was killed. The fence protects against both.
package pipe
