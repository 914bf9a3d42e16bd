// Package outbox keeps a business row and the message about it together. Both are written in one
// transaction, and a relay then sends the message, trying again until the queue has it.
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, `INSERT INTO jobs (job_id, video_id, status) VALUES ($1, $2, 'pending')`, id, video); err != nil {
//			return err
//		}
//		return pgoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "transcode", Key: id, Type: "transcode_requested", Body: body})
//	})
//
// One or more relays run, in the same program or as "tenaq outbox relay":
//
//	relay, err := outbox.New(outbox.Config{Box: box, Client: sqs.NewFromConfig(cfg)})
//	if err != nil {
//		return err
//	}
//	return relay.Run(ctx)
//
// A Box is the table, with what the relays know about its rows. Package pgoutbox keeps it in
// PostgreSQL, sqliteoutbox in SQLite. The table has the columns of Debezium's outbox event router
// and a few more that may be null, so a program in any language can write to it with an INSERT.
//
// What it guarantees, on every SQS:
//
//   - The message of a committed row is sent at least once, no matter which process dies. The
//     message of a row that was rolled back is never sent. No row is skipped when transactions
//     commit out of order: relays lease rows, and keep no position in the table.
//   - Every send of a row has the same deduplication id, and the same key in the attribute by which
//     package worker recognizes work. A FIFO queue drops a second send within five minutes. A
//     worker with a ledger does the work once, no matter how late the second send arrives.
//   - Rows of one group are sent in the order of their commits. A row that cannot be sent delays
//     only its own group. After its last attempt it is set aside, with the reason.
//   - Any number of relays may run. Each row is leased to one of them. A relay that cannot be sure
//     of its lease, by the monotonic clock of its process, stops sending the row.
//   - Rows stay after they were sent, by default for 30 days. They can be looked up and replayed. A
//     Replayer sends them again in a new generation, so that consumers that do work once do it
//     again, or sends only what was never completed. A replay that is killed continues without
//     leaving out a row or writing one twice.
//
// What it cannot do: keep a FIFO queue from storing a message twice when a relay is stopped between
// checking its lease and sending, and resumes more than five minutes later. A worker's ledger
// catches that.
//
// The receiving side is package worker/pginbox: the work of a message, the record that it is done,
// and the messages that follow are one transaction.
//
// The order of a group rests on a lock that an INSERT holds until its transaction ends. From that
// INSERT on, two transactions that write rows of the same group run one after the other. The lock
// is taken for rows with a group_id, and for rows of queues whose names end in .fifo.
package outbox
