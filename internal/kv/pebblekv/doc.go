// Package pebblekv is a kv.Store in a directory, on Pebble. Nothing else in the repository imports
// Pebble. A replicated group has two more kinds of directory here: a Log, which is a Store for
// several writers, and a State, whose log lies elsewhere.
//
// Beyond the contract of package kv it guarantees:
//
//   - Open refuses a store that has lost something it had confirmed, whatever the cause: the end of
//     a log cut off or flipped, a log or a table gone, an old copy put back. It also refuses a
//     store that has something of another store. The one exception is the commits of the last tenth
//     of a second before a crash: if they are lost together with the end of the log, the store
//     looks as if it had never confirmed them.
//   - A refused store keeps its files: Open removes logs only after it has found the store intact.
//   - A fault of the disk ends in one call of Options.Fatal with one sentence, where it is noticed.
//   - A store that is not used does not touch the disk.
//
// It leaves to its callers what Fatal does (print the sentence and exit), and watching how
// much room the disk has: a full disk is a fault here.
//
// # Files
//
//	DIR/store/   belongs to Pebble, except for the rows below and for copies of its manifests
//	DIR/witness  outside the store, so that what happens to one does not happen to the other
//	DIR/checkpoint/  the store as it was at a moment, while a backup reads it; removed by Open
//
// A Log has the same. A State has DIR/state/ and DIR/checkpoint/, and DIR/state.new/ and
// DIR/state.old/ while a copy takes the place of the rows. Convert makes a Log and a State from a
// Store.
//
// Behind its last commit, a log has zeros, or what an earlier use of its file has left.
//
// The format of the store is the constant formatVersion and never a default of Pebble's: the
// default opens a store with a flipped bit in a synced log, and drops what follows it. A format can
// be raised and not lowered; a store of a newer one is refused.
//
// # Blob files
//
// Values of 1 KiB and more lie in blob files, NNNNNN.blob, so that they are written once after the
// log and not again by each compaction. A row of a table has a handle in place of such a value:
// the number of a reference, a block, a place in the block, and the length. Only the manifest knows
// more:
//
//   - for each table, the IDs of the blob files that it refers to, in the order of the references;
//   - for each ID, the number, the length and the age of the file that has the values. When values
//     that no row needs make up more than a share of all files, Pebble rewrites a file under a new
//     number and the old ID.
//
// Pebble 2.1 leaves three things to this package. Open refuses a store that lacks a blob file, or
// has one of another length, where Pebble looks only at tables. What is read of a blob file is
// compared with its checksums, and its footer with its name, before Pebble sees it, because Pebble
// would panic without an explanation. And each manifest has a copy, copy-of-MANIFEST-NNNNNN, from
// which ReadDamaged learns the IDs and numbers if the manifest is lost.
//
// Two blob files of different stores that have the same number and the same length cannot be told
// apart, and neither can two such tables.
//
// A store without blob files gets them for values that are written from then on. A program from
// before blob files were used, whose format is the same, reads and writes a store that has them,
// and its compactions put the values back into tables. But its verify does not read blob files, and
// its salvage finds none of the rows in them.
//
// # Rows
//
// All integers are big endian. Checksums are CRC-32C of everything before them. A program reads
// every version of a format up to its own and refuses larger ones.
//
// Genesis, one row, key 00 'g'. Written and flushed before the store is used, and again only by
// Renew; a store without it has lost more than the end of a log.
//
//	offset  size  field
//	     0     1  version of the rows, 1
//	     1     8  "tenaq kv"
//	     9    16  store ID, random
//	    25     4  checksum
//
// Chain, one row, key 00 'c', the commit number in 8 bytes, and the hash of the commit in 8 bytes;
// the value is the version, 2. Every batch, forced or not, is a commit: it writes its row and
// removes the row of the commit before. So one row is left. If a commit in the middle is missing,
// so is its removal of the previous row, and two are left. Two are also left if a log of another
// store is read after those of this one: its hashes differ, whatever the numbers of its commits
// are.
//
// In version 1 the key ended with the number, and the value was the version and the hash. A store
// in version 1 has such a row until its next commit.
//
// The hash of commit 0, which writes the genesis, is XXH64 of the value of the genesis row. The
// hash of commit n is XXH64 of the hash of commit n-1 (8 bytes), n (8 bytes), and the writes of the
// batch as Pebble encodes them, without the 12 bytes of header and without the two writes of the
// chain.
//
// # Witness
//
// Two slots of 64 bytes, at offsets 0 and 4096, written in turns: turn t goes to slot t mod 2. The
// valid slot with the larger turn counts, and one invalid slot is tolerated. A slot is written
// after the sync of its commit has returned, at most every 100 ms, and when the store is closed.
//
//	offset  size  field
//	     0     8  "tenaqwit"
//	     8     1  version, 1
//	     9     7  zero
//	    16    16  store ID
//	    32     8  turn
//	    40     8  commit number
//	    48     8  hash of that commit
//	    56     4  zero
//	    60     4  checksum
//
// Every version has its magic, version and checksum where they are here, so that an old program can
// tell a newer witness from a damaged one.
package pebblekv
