package mutant

// A Killer is a test that proves a promise, and so must fail when the program does not keep it.
type Killer struct {
	Package string // of the test, from the root of the module
	Test    string // as go test -run takes it
	Args    string // for the test, separated by blanks
	Env     string // one assignment, if any
	Program bool   // the test starts the program, which is the mutant then
}

// The proof programs. Where a program takes a seed it has one here: whether a mutant is found must not depend
// on the day. docs/proofs.md says what each does.
var (
	model        = Killer{Package: "internal/engine", Test: "^TestModel$", Args: "-model.seed=1 -model.steps=20000"}
	crashRows    = Killer{Package: "internal/engine", Test: "^TestCrashAnywhere$"}
	crashes      = Killer{Package: "internal/broker", Test: "^TestCrashes$", Env: "BROKER_SEED=1"}
	crashesFlows = Killer{Package: "internal/broker", Test: "^TestCrashesOfFlows$", Env: "BROKER_SEED=1"}
	clocks       = Killer{Package: "internal/broker", Test: "^Test(Clock|Held|WallClock|Steps)", Env: "BROKER_SEED=1"}
	polls        = Killer{Package: "internal/broker", Test: "^Test(Poll|Receive)"}
	damage       = Killer{Package: "internal/kv/pebblekv", Test: "^TestDamage$", Env: "KVTEST_SEED=1"}
	faults       = Killer{Package: "internal/kv/pebblekv", Test: "^TestFaults$", Env: "KVTEST_SEED=1"}
	refusals     = Killer{Package: "internal/kv/pebblekv", Test: "^TestRefuse"}
	handles      = Killer{Package: "internal/handle", Test: "^Test"}
	wire         = Killer{Package: "internal/sqsd", Test: "^TestScripts$"}
	kills        = Killer{Package: "test/crash", Test: "^TestKill$/^standard$", Program: true}
	killsFIFO    = Killer{Package: "test/crash", Test: "^TestKill$/^FIFO$", Program: true}
)

// An Entry describes a mutant.
type Entry struct {
	Mutant Mutant
	Wrong  string // what it does, in one sentence
	Breaks string // numbers of rules in docs/semantics, separated by blanks
	Killer Killer // the test that must fail
}

// Table is every mutant.
var Table = []Entry{
	{AnswerBeforeCommit, "Requests are answered before the disk has what they were told.", "DUR-1 DUR-3", crashes},
	{ClientGoneIsServed, "A long poll whose client has gone away is given a message.", "POLL-10", polls},
	{LongPollNotWoken, "A long poll is not woken by what happens to its queue.", "POLL-3", polls},
	{ClockBehindStamp, "After a restart broker time begins at the wall clock, though that was set back.", "CLOCK-1 CLOCK-9", clocks},
	{ExpiryWithoutHold, "Expiry goes on at once when a restart finds the clock far ahead.", "CLOCK-6 CLOCK-7", clocks},
	{NoSync, "Files are never forced to disk: the control that the power cuts are real.", "DUR-1", crashes},
	{FailedSyncIgnored, "A failed sync counts as one that succeeded.", "DUR-12 DUR-13", faults},
	{WitnessBeforeCommit, "The witness hears of a commit before the disk has it.", "DUR-16", crashes},
	{LossNotNoticed, "A store with fewer commits than the witness knows of is opened.", "DUR-16", damage},
	{ChainNotChecked, "A store that lost a commit in its middle is opened.", "DUR-16", refusals},
	{FilterSaysAbsent, "The filter of deduplication keys denies keys that it was given.", "DEDUP-13", model},
	{DedupEndsEarly, "A minute of deduplication keys is thrown away when the window of its first key is over.", "DEDUP-7", model},
	{DedupForgottenAtStart, "What is known of deduplication keys is not looked for after a restart.", "DEDUP-12", killsFIFO},
	{WindowChangesOrder, "An index in memory takes up entries from behind its end, before others that are on disk only.", "ORD-1", model},
	{GroupOpensEarly, "A group is not locked by a message of it that is in flight.", "FIFO-17", killsFIFO},
	{ReceiveCountForgotten, "A receive count that comes from disk is one at most.", "DUR-9 RCV-11", crashes},
	{VisibilityForgotten, "After a crash without grace hidden messages can be received.", "DUR-8", crashes},
	{GraceNotGiven, "Messages in flight get no grace after a crash.", "CLOCK-10", model},
	{DueEntryStays, "The entry of a message in the index of times stays when the message leaves its place.", "DUR-10", crashRows},
	{StaleHandleDeletes, "The handle of an earlier receive deletes a message that somebody else has.", "HND-8", model},
	{OldQueueHandleTaken, "A queue takes the handles of its predecessor of the same name.", "HND-19", model},
	{ForgedHandleTaken, "The seal of a receipt handle is not compared.", "HND-3", handles},
	{SequenceUsedAgain, "An empty queue begins its numbers anew after a restart.", "FIFO-38", model},
	{DelayIgnored, "A message that is sent with a delay can be received at once.", "DELAY-1", model},
	{CounterDrifts, "The counters do not follow deadlines that pass.", "ATTR-42", model},
	{PurgeLeavesRows, "The rows of purged messages stay on disk for ever.", "PURGE-1", model},
	{SegmentEndsEarly, "Messages expire with the oldest of their neighbours.", "RET-1", model},
	{DeadLetterAge, "The retention of a dead letter counts from its move.", "DLQ-25", model},
	{DeadLetterAttributes, "A dead letter loses the attributes that its sender gave it.", "DLQ-22", model},
	{DeadLetterInTwoBatches, "A dead letter leaves one queue in one batch and enters the other in the next.", "DLQ-34", crashRows},
	{MoveTaskForgets, "A step of a move task moves messages without noting it.", "MOVE-14", model},
	{MoveTaskTakesNewer, "A move task moves what came after its start.", "MOVE-24", model},
	{BatchResultsSwapped, "The results of a batch of sends are in the wrong order.", "BATCH-12", crashes},
	{ContentOfAnother, "A receive reads the content of the message before.", "RCV-4", kills},
	{AttributesMD5Wrong, "The checksum of a message's attributes is that of its system attributes.", "MD5-5", wire},
}
