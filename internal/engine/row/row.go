// Package row defines every row that the store holds: its key, its value and the struct that both
// are read into. docs/formats.md describes the same bytes.
//
// What it guarantees:
//
//   - A value that an earlier version wrote can be read, and keeps its meaning. testdata/formats
//     keeps samples of every version.
//   - What does not decode to its last byte is reported, never guessed.
//   - Encoding and decoding depend on their arguments only.
//
// It leaves to others what the rows mean together (engine), whether they contradict each other
// (verify) and which of them can be computed from the rest (salvage).
//
// The first byte of a key names the family; keys that begin with zero belong to the store itself:
//
//	system    01                                    one row: format, next space, boots and stamps
//	queue     02 account name                       a queue, or for a while the grave of one
//	secret    03                                    the server's: the key that seals receipt handles
//	source    04 account target source              which queues have target as dead-letter queue
//	task      05 account queue number, descending   the latest tasks of a queue
//	active    06 number                             the tasks that are not over
//	document  07 name                               what the server keeps beside the queues
//	moved     08 id                                 where a message is whose id does not say it
//	records   09 01                                 the last version of a record, and a low-water key
//	record    09 02 account key                     a value that programs keep, by compare-and-swap
//	expiry    09 03 at account key                  the records that expire, by time
//	action    0A number modulo 1000                 what operators did, the latest thousand
//	schedule  0B account queue name         when the next message of a schedule is due
//	space     10 space kind ...                     everything that goes when a queue is purged:
//	  state     kind 01                             counters and low-water keys
//	  message   kind 02, seq                        metadata, and the content when it is small
//	  content   kind 03, seq                        body and attributes when they are not
//	  delivery  kind 04, seq                        where the message stands in due, and its counts
//	  due       kind 05, at, seq                    the messages that wait or have waited, by time
//	  segment   kind 06, seq / 4096                 how many of 4096 neighbours live, and since when
//	  group     kind 07, group                      FIFO: its first message and how many there are
//	  line      kind 08, group, seq                 FIFO: the messages of a group behind its first one
//	  head      kind 09, class, at, seq             FIFO: the first messages of all groups, by time
//	  dedup     kind 0A, minute of a bucket, hash   what may not be sent, or received, twice
//	  origin    kind 0B, base, seq                  dead-lettered messages, by their retention
//	  elder     kind 0C, first sent, seq            messages moved or sent again, by their first send
//	  story     kind 0D, seq                        what consumers said when they gave a message back
//	  owner     kind 0E                             the name of the queue
//	  level     kind 0F, level, at, seq             due, of messages with a level above 0
//	  hold      kind 10, seq                        the group that a dead letter holds
//	  again     kind 11, minute, seq                what was answered to sends that may be retried
//	  fair      kind 18                             fair: from where on the index has messages
//	  tenant    kind 19, group                      fair: how many messages of a group are where
//	  waiting   kind 1A, group, at, seq             fair: the available messages of each group
//	  turn      kind 1B, place, seq                 fair: the groups in the order of their turns
//	history   11 incarnation ...                    what became of messages, in a queue that keeps it:
//	  bucket    part 01, first                      outcomes of a while: how many, how large, since when
//	  outcome   part 02, first, kind 01, number     how a message ended, and its row as it was
//	  content   part 02, first, kind 02, number     its body and attributes when they are not in that
//	  index     part 02, first, kind 03, mark,      the outcomes of an id, lineage, key or group,
//	            number, descending                  the newest first
//
// A space is a number that is never used again. Creating or purging a queue takes a new one, and a
// single range delete drops everything of the old.
//
// The readers of each kind:
//
//   - A lookup reads queue and state.
//   - A receive reads message (fresh ones) and due (returned ones) from the front and delivery by
//     seq, and each level from its front if there are levels. On a FIFO queue it reads head from
//     the front, group by name, line from the first message of the group on, and message by seq.
//     On a fair queue it reads turn from the front, tenant by name, and waiting from the front of a
//     tenant.
//   - A delete or a visibility change reads delivery by seq, and on a FIFO queue message, group and
//     line, on a fair queue message and tenant.
//   - A retry of a send reads again from the front of a minute.
//   - A send to a FIFO queue reads dedup and group by key. One to a queue with a deduplication
//     window reads pieces of dedup from the front of a bucket.
//   - A Nack, and a change of visibility that shortens it, reads story by seq, if the delivery row
//     says that there is one.
//   - Expiry reads segment and origin from the front, and then message. A survey reads elder
//     besides.
//   - A search for one message reads moved by id, and message and owner.
//   - Records are read by name, and the expiry of records from the front.
//   - A search of a history reads bucket, and then outcome or index within each.
//
// Nothing reads a kind from the front without a low-water key, because the rows before it are the
// tombstones of everything deleted.
//
// # What depends on the run
//
// Equal commands give equal rows, with a few exceptions. These fields are bounds or hints: any
// value that satisfies their comment gives the same answers. A restart, a power cut or another
// window size may leave them different. The effects of a command, once written, are the same bytes
// on every machine that applies them; only a machine that runs the commands itself may differ here.
//
//   - State.Segment, State.DueLow, State.OriginLow, State.HeadLow, State.ElderLow and
//     State.LevelLow: before them an index has no rows. They follow the first row as far as the
//     window shows it, and are written with the next change of the state.
//   - Fair.TurnLow and Tenant.Low: before them there are no turns, and no waiting rows of the
//     tenant. Tenant.Front says whether one is at Low, if it is known.
//   - State.Settled: the counters have followed the deadlines up to here. It advances in memory
//     alone while no deadline passes.
//   - Segment.First: no message before it is live.
//   - Group.Last and Group.Placed: the last message, zero when it must be looked up, and a bound on
//     the numbers that were ever in due.
//   - State.Boot, System.Boot and the grace of the system row: they count starts after a stop that
//     was not clean.
package row
