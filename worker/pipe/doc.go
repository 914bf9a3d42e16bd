// Package pipe gives each message of a queue to a program: a subprocess that is started for it, or
// an HTTP endpoint. What does the work need not know anything about queues.
//
//	w, err := worker.New(worker.Config{
//		Client:   sqs.NewFromConfig(cfg),
//		QueueURL: url,
//		Claims:   ledger,
//		Handler:  &pipe.Command{Args: []string{"convert-file", "--quiet"}},
//	})
//
// Command runs a subprocess per message, HTTP makes a request per message, and Lambda makes a
// request per batch in the form in which AWS Lambda calls a function. They are handlers of package
// worker, and all that it guarantees holds for them: the lease is renewed for as long as a task
// runs, a task runs under a claim on the key of its message, and a message is deleted only after
// its task has ended well and that has been recorded.
//
// What it guarantees:
//
//   - That a task was started says nothing. What counts is its end: an exit code, a status, a
//     complete answer.
//   - A task is told what it needs to act once: the effect key, to give to whatever takes an
//     idempotency key, and the fence, to give to whatever can refuse an old one.
//   - When the lease or the claim of a message is lost the task is told to stop, and a subprocess
//     is ended with everything it started, unless that left its process group.
//   - Why a task failed is kept in a few hundred bytes, printable whatever the task wrote, so it
//     can be read in the dead-letter queue.
//
// What it leaves to others: when to try again and how often (package worker), and what a task does
// when it is run a second time. A request that was given up may still be at work at the other end,
// and what a subprocess has started in turn may outlive a worker that was killed: the fence is what
// protects then.
package pipe
