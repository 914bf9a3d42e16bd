// Package outbox makes a row of a business table and the message about it one fact: both are written in one
// transaction, and a relay sends the message afterwards, for as long as it takes.
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, `INSERT INTO jobs (job_id, video_id, status) VALUES ($1, $2, 'pending')`, id, video); err != nil {
//			return err
//		}
//		return pgoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "transcode", Key: id, Type: "transcode_requested", Body: body})
//	})
//
// Somewhere, in the same program or as "tenaq outbox relay", a Relay runs, or several:
//
//	relay, err := outbox.NewRelay(outbox.Config{Box: box, Client: sqs.NewFromConfig(cfg)})
//	if err != nil {
//		return err
//	}
//	return relay.Run(ctx)
//
// A Box is the table and what the relays write down about its rows: package pgoutbox has it in PostgreSQL,
// sqliteoutbox in SQLite. The table has the columns of Debezium's outbox event router and a few more that may
// be null, so a program in any language writes to it with an INSERT.
//
// What it guarantees, on every SQS:
//
//   - The message of a row that was committed is sent at least once, whatever dies in between; that of a row
//     that was rolled back, never. No row is passed over because an older transaction committed after a
//     younger one: relays claim rows, and remember no place in the table.
//   - Every send of a row has the same deduplication id, and the same key in the attribute by which package
//     worker knows work again. A FIFO queue drops a second send within five minutes; a worker with a ledger
//     does the work once, however late the second one comes.
//   - Rows of one group are sent in the order of their commits. A row that cannot be sent holds up its own
//     group and nothing else, and is parked with the reason when its attempts are used up.
//   - Any number of relays may run. Each row is leased to one of them; a relay that cannot be sure of its lease
//     any more, by the monotonic clock of its process, sends no more of it.
//   - Rows stay for a while after they were sent, 30 days unless told: what was sent can be looked up, and
//     replayed. A Replayer sends it again in a new generation, so that consumers which do a work once really
//     do it again, or only what they never completed; killed half-way, it goes on without leaving anything out
//     or sending it twice.
//
// What it cannot do: keep a FIFO queue from taking a message a second time when a relay is stopped between
// looking at its lease and sending, and wakes up more than five minutes later. A worker's ledger does.
//
// The receiving side is package worker/pginbox: the work of a message, the word that it is done, and the messages
// that follow are one transaction.
//
// The order of a group rests on a lock that an INSERT takes until its transaction ends: two transactions that
// write rows of the same group run one after the other from there on. It is taken for rows with a group_id, and
// for those of queues whose name ends in .fifo.
package outbox
