package mutant

import (
	"slices"
	"strings"
)

// A Killer is a test that proves a promise, and so must fail when the program does not keep it.
type Killer struct {
	Package string   // of the test, from the root of the module
	Test    string   // as go test -run takes it
	Args    []string // for the test
	Env     []string // NAME=value
	Program bool     // the test starts the program, and the program is the mutant
}

// The tests that kill. Where a test takes a seed it has one here: whether a mutant is found must not depend on the day.
var (
	model          = Killer{Package: "internal/engine", Test: "^TestModel$", Args: []string{"-model.seed=1", "-model.steps=20000"}}
	metamorphic    = Killer{Package: "internal/engine", Test: "^TestMetamorphic$", Args: []string{"-model.seed=4", "-metamorphic.scripts=2"}}
	cuts           = Killer{Package: "internal/engine", Test: "^TestCuts$", Args: []string{"-model.seed=1", "-cuts=100"}}
	crashedRows    = Killer{Package: "internal/engine", Test: "^TestCrashAnywhere$"}
	crashes        = Killer{Package: "internal/broker", Test: "^TestCrashes$", Env: []string{"BROKER_SEED=1"}}
	crashesOfFlows = Killer{Package: "internal/broker", Test: "^TestCrashesOfFlows$", Env: []string{"BROKER_SEED=1"}}
	clocks         = Killer{Package: "internal/broker", Test: "^Test(Clock|Held|WallClock|Steps|Restart)", Env: []string{"BROKER_SEED=1"}}
	polls          = Killer{Package: "internal/broker", Test: "^Test(Poll|Receive)"}
	damage         = Killer{Package: "internal/kv/pebblekv", Test: "^TestDamage$", Env: []string{"KVTEST_SEED=1"}}
	faults         = Killer{Package: "internal/kv/pebblekv", Test: "^TestFaults$", Env: []string{"KVTEST_SEED=1"}}
	refusals       = Killer{Package: "internal/kv/pebblekv", Test: "^TestRefuse"}
	sweep          = Killer{Package: "internal/server", Test: "^TestFaultSweep$", Env: []string{"TENAQ_FAULTS=40", "TENAQ_FAULT_SEED=1"}}
	forgeries      = Killer{Package: "internal/api/handle", Test: "^Test"}
	hostile        = Killer{Package: "internal/api/sqs", Test: "^Test(Hostile|Slow)"}
	wire           = Killer{Package: "internal/api/sqs", Test: "^TestScripts$"}
	kills          = Killer{Package: "test/crash", Test: "^TestKill$/^standard$", Program: true}
	killsOfFIFO    = Killer{Package: "test/crash", Test: "^TestKill$/^FIFO$", Program: true}
)

// Command is how to run the test by hand against m, or without a bug when m is empty, at the root of the module.
func (k Killer) Command(m Mutant) string {
	if k.Program && m != "" {
		return "go test ./test/mutants -count=1 -v -mutant=" + string(m)
	}
	words := slices.Clone(k.Env)
	if m != "" {
		words = append(words, "TENAQ_MUTANT="+string(m))
	}
	words = append(words, "go test -tags mutant ./"+k.Package, "-run '"+k.Test+"'")
	return strings.Join(append(words, k.Args...), " ")
}

// An Entry describes a mutant.
type Entry struct {
	Mutant Mutant
	Wrong  string // what it does, in one sentence
	Breaks string // numbers of rules in docs/semantics, separated by blanks
	Killer Killer // the test that must fail
}

// Table returns every mutant. It is a function so that a program that does not call it has none of this.
func Table() []Entry {
	return []Entry{
		{AnswerBeforeCommit, "Requests are answered before the disk has what they were told.", "DUR-1 DUR-3", sweep},
		{ClientGoneIsServed, "A long poll whose client has gone away is given a message.", "POLL-10", polls},
		{LongPollNotWoken, "A long poll is not woken by what happens to its queue.", "POLL-3", polls},
		{ClockBehindStamp, "After a restart broker time begins at the wall clock, though that was set back.", "CLOCK-1 CLOCK-9", clocks},
		{ExpiryWithoutHold, "Expiry goes on at once when a restart finds the clock far ahead.", "CLOCK-6 CLOCK-7", clocks},
		{HoldEndsAtRestart, "A restart ends the hold of expiry after a jump of the clock.", "CLOCK-8", clocks},
		{NoSync, "The log is never forced to disk: the control that the power cuts are real.", "DUR-1", cuts},
		{FailedSyncIgnored, "A failed sync counts as one that succeeded.", "DUR-12 DUR-13", faults},
		{FailedWriteIgnored, "A failed write counts as one that succeeded.", "DUR-12 DUR-13", sweep},
		{WitnessBeforeCommit, "The witness hears of a commit before the disk has it.", "DUR-16", crashes},
		{LossNotNoticed, "A store with fewer commits than the witness knows of is opened.", "DUR-16", damage},
		{ChainNotChecked, "A store that lost a commit in its middle is opened.", "DUR-16", refusals},
		{FilterSaysAbsent, "The filter of deduplication keys denies keys that it was given.", "DEDUP-13", model},
		{DedupEndsEarly, "A minute of deduplication keys is thrown away when the window of its first key is over.", "DEDUP-7", model},
		{DedupForgottenAtStart, "What is known of deduplication keys is not looked for after a restart.", "DEDUP-12", crashesOfFlows},
		{WindowChangesOrder, "An index in memory takes up entries from behind its end, before others that are on disk only.", "ORD-1", metamorphic},
		{GroupOpensEarly, "A group is not locked by a message of it that is in flight.", "FIFO-17", killsOfFIFO},
		{ReceiveCountForgotten, "A receive count that comes from disk is one at most.", "DUR-9 RCV-11", kills},
		{VisibilityForgotten, "After a crash without grace hidden messages can be received.", "DUR-8", crashes},
		{GraceNotGiven, "Messages in flight get no grace after a crash.", "CLOCK-10", model},
		{DueEntryStays, "The entry of a message in the index of times stays when the message leaves its place.", "DUR-10", cuts},
		{StaleHandleDeletes, "The handle of an earlier receive deletes a message that somebody else has.", "HND-8", model},
		{OldQueueHandleTaken, "A queue takes the handles of its predecessor of the same name.", "HND-19", model},
		{ForgedHandleTaken, "The seal of a receipt handle is not compared.", "HND-3", forgeries},
		{SequenceUsedAgain, "An empty queue begins its numbers anew after a restart.", "FIFO-38", metamorphic},
		{DelayIgnored, "A message that is sent with a delay can be received at once.", "DELAY-1", model},
		{CounterDrifts, "The counters do not follow deadlines that pass.", "ATTR-42", model},
		{PurgeLeavesRows, "The rows of purged messages stay on disk for ever.", "PURGE-1", model},
		{SegmentEndsEarly, "Messages expire with the oldest of their neighbours.", "RET-1", model},
		{DeadLetterKeptLonger, "The retention of a dead letter counts from its move.", "DLQ-25", model},
		{DeadLetterAttributes, "A dead letter loses the attributes that its sender gave it.", "DLQ-22", model},
		{DeadLetterInTwoBatches, "A dead letter leaves one queue in one batch and enters the other in the next.", "DLQ-34", crashedRows},
		{MoveTaskForgets, "A step of a move task moves messages without noting it.", "MOVE-14", cuts},
		{MoveTaskTakesNewer, "A move task moves what came after its start.", "MOVE-24", model},
		{BatchResultsSwapped, "The results of a batch of sends are in the wrong order.", "BATCH-12", crashes},
		{ContentOfAnother, "A receive reads the content of the message before.", "RCV-4", crashes},
		{MovedContentForgotten, "The content of a message that moves to another queue before its receive is answered is forgotten.", "RCV-23", polls},
		{ReceiveWithoutRoom, "A receive hides messages although its answer has no room.", "RCV-24", polls},
		{DeclaredLengthCharged, "A body is charged for what its Content-Length says before a byte of it has come.", "WIRE-30", hostile},
		{SmallBodiesUncharged, "Bodies up to 64 KiB are not charged.", "WIRE-30", hostile},
		{AttributesMD5Wrong, "The checksum of a message's attributes is that of its system attributes.", "MD5-5", wire},
	}
}

// chosen returns the mutant of a name, which is none when the name is empty. A misspelt name would be a program
// without a bug, and a test that passes with it a wrong conclusion.
func chosen(name string) Mutant {
	if name == "" {
		return ""
	}
	var known []string
	for _, e := range Table() {
		if string(e.Mutant) == name {
			return e.Mutant
		}
		known = append(known, string(e.Mutant))
	}
	panic("TENAQ_MUTANT is " + name + ", which is no mutant; there are:\n" + strings.Join(known, "\n"))
}
