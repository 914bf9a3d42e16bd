// Package mutant holds seeded bugs: places where the program can be made wrong on purpose, one at a time, so
// that the tests that prove its promises have to show that they would notice.
//
// A mutant is one line where the real bug would be:
//
//	if mutant.Is(mutant.AnswerBeforeCommit) {
//		t.answer()
//	}
//
// In the program as it is shipped Is is false at compile time and nothing of a mutant is left, its name
// included. Built with the tag mutant, the program is the one mutant that the environment variable
// TENAQ_MUTANT names, or none. Table says of each what it breaks and which test must notice; test/mutants
// runs those tests.
//
// A mutant that survives is a finding about the tests. It is never made worse to be caught.
package mutant

// A Mutant is the name of a seeded bug.
type Mutant string

// What is wrong in each is in Table.
const (
	AnswerBeforeCommit     Mutant = "answer-before-commit"
	ClientGoneIsServed     Mutant = "client-gone-is-served"
	LongPollNotWoken       Mutant = "long-poll-not-woken"
	ClockBehindStamp       Mutant = "clock-behind-stamp"
	ExpiryWithoutHold      Mutant = "expiry-without-hold"
	HoldEndsAtRestart      Mutant = "hold-ends-at-restart"
	NoSync                 Mutant = "no-sync"
	FailedSyncIgnored      Mutant = "failed-sync-ignored"
	FailedWriteIgnored     Mutant = "failed-write-ignored"
	WitnessBeforeCommit    Mutant = "witness-before-commit"
	LossNotNoticed         Mutant = "loss-not-noticed"
	ChainNotChecked        Mutant = "chain-not-checked"
	FilterSaysAbsent       Mutant = "filter-says-absent"
	DedupEndsEarly         Mutant = "dedup-ends-early"
	DedupForgottenAtStart  Mutant = "dedup-forgotten-at-start"
	WindowChangesOrder     Mutant = "window-changes-order"
	GroupOpensEarly        Mutant = "group-opens-early"
	ReceiveCountForgotten  Mutant = "receive-count-forgotten"
	VisibilityForgotten    Mutant = "visibility-forgotten"
	GraceNotGiven          Mutant = "grace-not-given"
	DueEntryStays          Mutant = "due-entry-stays"
	StaleHandleDeletes     Mutant = "stale-handle-deletes"
	OldQueueHandleTaken    Mutant = "old-queue-handle-taken"
	ForgedHandleTaken      Mutant = "forged-handle-taken"
	SequenceUsedAgain      Mutant = "sequence-used-again"
	DelayIgnored           Mutant = "delay-ignored"
	CounterDrifts          Mutant = "counter-drifts"
	PurgeLeavesRows        Mutant = "purge-leaves-rows"
	SegmentEndsEarly       Mutant = "segment-ends-early"
	DeadLetterKeptLonger   Mutant = "dead-letter-kept-longer"
	DeadLetterAttributes   Mutant = "dead-letter-attributes"
	DeadLetterInTwoBatches Mutant = "dead-letter-in-two-batches"
	MoveTaskForgets        Mutant = "move-task-forgets"
	MoveTaskTakesNewer     Mutant = "move-task-takes-newer"
	BatchResultsSwapped    Mutant = "batch-results-swapped"
	ContentOfAnother       Mutant = "content-of-another"
	AttributesMD5Wrong     Mutant = "attributes-md5-wrong"
	MovedContentForgotten  Mutant = "moved-content-forgotten"
	ReceiveWithoutRoom     Mutant = "receive-without-room"
	DeclaredLengthCharged  Mutant = "declared-length-charged"
	SmallBodiesUncharged   Mutant = "small-bodies-uncharged"
)
