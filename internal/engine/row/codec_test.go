package row

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"
)

// A sample is a row whose bytes are kept in testdata/formats. Each line of that file was written by
// some version of this program and must stay readable forever: lines are added, never changed.
type sample struct {
	Name  string
	Key   []byte
	Value []byte // nil for an encoding that is read and no longer written
	Read  func(k, v []byte) (any, bool)
	Want  any
}

var (
	sampleID       = [16]byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x46, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	sampleIncarned = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	sampleName     = QueueName{Account: "000000000000", Name: "orders"}
	sampleSpace    = uint64(0x0102030405060708)
	sampleTime     = int64(1767225600123)
)

type namedQueue struct {
	Name QueueName
	Row  Queue
}

type namedRecord struct {
	Name RecordName
	Row  Record
}

type movedRow struct {
	ID MessageID
	At Place
}

type readOutcome struct {
	Outcome Outcome
	Inline  string
}

type readMeta struct {
	Meta   Meta
	Inline string
}

func samples() []sample {
	queue := Queue{
		Incarnation: sampleIncarned,
		Space:       sampleSpace,
		Created:     sampleTime,
		Modified:    sampleTime + 1,
		Purged:      sampleTime + 2,
		Attributes: Attributes{
			DelaySeconds:                  5,
			MaximumMessageSize:            1 << 20,
			MessageRetentionPeriod:        345600,
			ReceiveMessageWaitTimeSeconds: 20,
			VisibilityTimeout:             30,
			KmsMasterKeyID:                "alias/a",
			KmsDataKeyReusePeriodSeconds:  300,
			SqsManagedSseEnabled:          true,
		},
		Tags: []Tag{{Key: "cost", Value: ""}, {Key: "team", Value: "größer"}},
	}
	grave := Queue{Deleted: sampleTime}
	fifo := queue
	fifo.Attributes.FIFO, fifo.Attributes.ContentBasedDeduplication = true, true
	fifo.Attributes.GroupScope, fifo.Attributes.GroupLimit = true, true
	fifo.Attributes.Redrive = Redrive{Target: QueueName{Account: "000000000000", Name: "dead.fifo"}, MaxReceives: 1000}
	fifo.Attributes.RedriveAllow = `{"redrivePermission":"denyAll"}`
	guarded := fifo
	guarded.Attributes.Policy = `{"Statement":{"Effect":"Allow","Principal":"*","Action":"sqs:SendMessage"}}`
	st := State{
		NextSeq:   300,
		LastFresh: 298,
		Cursor:    200,
		Mixed:     210,
		Segment:   1,
		DueLow:    Pos{At: sampleTime, Seq: 17},
		Settled:   LastAt(sampleTime),
		Boot:      3,
		Live:      100,
		Delayed:   7,
		InFlight:  -1, // never, but the sign has its bit
	}
	fifoState := st
	fifoState.OriginLow = Pos{At: sampleTime, Seq: 18}
	fifoState.HeadLow = [2]Pos{{At: sampleTime, Seq: 19}, {At: sampleTime + 1, Seq: 20}}
	fifoState.Counted = SeqRange{290, 300}
	fifoState.Buckets = []int64{sampleTime/DedupBucket - 1, sampleTime / DedupBucket}
	elders := fifoState
	elders.ElderLow = Pos{At: sampleTime - 7, Seq: 21}
	rated := elders
	rated.Tokens, rated.Tokened = 1500, sampleTime
	widened := elders
	widened.Wide, widened.Forgot = 2015, sampleTime-9
	schedule := Schedule{Queue: sampleName, Name: "nightly", Next: sampleTime}
	leveled := elders
	for i := range LevelMax {
		leveled.LevelLow = append(leveled.LevelLow, Pos{At: sampleTime, Seq: uint64(i)})
	}
	repeating := elders
	repeating.AgainFrom, repeating.AgainTo, repeating.AgainLate = sampleTime/DedupBucket-6, sampleTime/DedupBucket+1, sampleTime-5
	both := leveled
	both.AgainFrom, both.AgainTo = repeating.AgainFrom, repeating.AgainTo
	answers := []Again{{Hash: sampleIncarned, At: sampleTime, IDs: []MessageID{sampleID}},
		{Hash: sampleID, At: sampleTime - 300, Late: true, Told: 4, IDs: []MessageID{{}, sampleID, sampleIncarned}}}
	repeats := BeginAgain(nil, sampleTime-1)
	for i := range answers {
		repeats = AppendAgain(repeats, sampleTime-1, &answers[i])
	}
	sys := System{NextSpace: 9, Boot: 3, Clean: true, Stamp: sampleTime, Hidden: sampleTime + 43200000, GraceFrom: 1, GraceUntil: 2, Unowned: true}
	held := sys
	sys.NextTask = 1 // what a row of version 1 does not have
	held.HeldFrom, held.NextTask, held.HeldUntil = sampleTime-3, 17, MaxTime
	noted := held
	noted.HeldUntil = sampleTime + 600000
	keyed := noted
	keyed.IDKey, keyed.Unowned, keyed.Fallen, keyed.Swept = sampleIncarned, false, true, sampleID
	keyed.Again = true
	holding := keyed
	holding.Holds = true
	content := Content{
		Body:    "hello\x00\nwörld",
		BodyMD5: sampleID,
		Attributes: []Attribute{
			{Name: "Farbe", Type: "String.x", String: "rot"},
			{Name: "n", Type: "Number", String: "017.50"},
			{Name: "b", Type: "Binary.png", Binary: []byte{0, 0xff}},
		},
		Trace:  "Root=1",
		Sender: "AIDAEXAMPLE",
	}
	plain := NewMeta(17, sampleID, sampleTime, 11)
	plain.Flags = FlagInline
	moved := Meta{
		Seq:        18,
		Flags:      FlagScheduled | flagBase | flagLineage | flagHistory | flagGroup | flagDedup | flagSource,
		ID:         sampleID,
		Sent:       sampleTime,
		Size:       1 << 20,
		Base:       sampleTime - 1000,
		Arrived:    sampleTime - 1000,
		Lineage:    sampleIncarned,
		Generation: 2,
		Redrives:   3,
		FirstSent:  sampleTime - 2000,
		Group:      "customer-7",
		Dedup:      "d1",
		Source:     "arn:aws:sqs:us-east-1:000000000000:orders",
	}
	arrived := moved
	arrived.Arrived = sampleTime + 3000
	fenced := arrived
	fenced.Fence, fenced.Away = 300, true
	replayed := fenced
	replayed.Replayed = true
	flight := Delivery{At: sampleTime, Kind: DueInFlight, Receives: 300, Generation: 301,
		FirstReceive: sampleTime - 2, LastReceive: sampleTime - 1, Apart: true}
	dead := Delivery{At: sampleTime, Kind: DueReturned, Receives: 3, FirstReceive: sampleTime - 2,
		LastReceive: sampleTime - 1, Origin: true, Changed: true}
	elder := flight
	elder.Elder = true
	urgent := flight
	urgent.Level = 7
	told := flight
	told.Story = true
	story := Story{Generation: 301, Attempts: []Attempt{
		{How: EndReturned, Receive: 299, Received: sampleTime - 9, Ended: sampleTime - 8},
		{How: EndRetried, Receive: 300, Received: sampleTime - 1, Ended: sampleTime, Class: "Timeout", Text: "no answer"},
	}}
	away := flight
	away.Moved = true
	line1 := Group{Count: 3, First: Line{Seq: 17, Sent: sampleTime}, Class: HeadPlaced, At: sampleTime + 1, Last: Line{Seq: 19, Sent: sampleTime + 2}, Founder: 16, Placed: 18}
	heldGroup := line1
	heldGroup.First, heldGroup.Class, heldGroup.At, heldGroup.Held = Line{Seq: 20, Sent: sampleTime + 3}, HeadHeld, sampleTime+4, 17
	heldGroup.Front = []Slot{{Space: sampleSpace + 1, Seq: 5}, {Seq: 20, Sent: sampleTime + 3}}
	hold := Hold{Queue: sampleName, Group: "customer-7"}
	fair := Fair{From: 200, Due: Pos{At: sampleTime, Seq: 199}, Before: 7, Serves: 300, TurnLow: Pos{At: 1 << turnBits, Seq: 5}}
	tenant := Tenant{Waiting: 300, InFlight: 2, Delayed: 1, Served: Pos{At: sampleTime, Seq: 17}, Low: Pos{At: sampleTime - 9, Seq: 16}, Front: FrontPlaced}
	sent := Dedup{At: sampleTime, ID: sampleID, Sequence: 17}
	received := Dedup{At: sampleTime, Deliveries: []Attempted{{Seq: 17, Generation: 1}, {Seq: 18, Generation: 300}}}
	selects := Task{Number: 6, Source: sampleName, ID: sampleID, Started: sampleTime, Status: TaskRunning, Moved: 1, Limit: 12, Due: sampleTime * 1000,
		Stepped: sampleTime + 1, Selects: true, Work: TaskDelete, Most: 100, Confirm: 120, Place: 11, Skipped: 2, By: "ops", Note: "spam",
		Filter: TaskFilter{ID: sampleIncarned, Group: "g", Source: "arn", From: 1, To: sampleTime, ReceivesMin: 2, ReceivesMax: 9,
			Attributes: []TaskAttribute{{Name: "kind", Value: "card"}}, Text: "x"}}
	reasons := selects
	reasons.Number, reasons.Filter.Kind, reasons.Filter.Reason = 8, "3k9f", "declined"
	edits := reasons
	edits.Number, edits.Work, edits.Confirm, edits.Newest, edits.Delays, edits.Delay = 9, TaskMove, 0, true, true, 900_000
	edits.Edit = TaskEdit{HasBody: true, Body: "fixed", BodyMD5: sampleIncarned, Removed: []string{"old", "older"},
		Set: []Attribute{{Name: "n", Type: "Number", String: "7"}, {Name: "b", Type: "Binary", Binary: []byte{0, 0xff}}}}
	replays := reasons
	replays.Number, replays.Work, replays.Confirm, replays.Missing = 10, TaskReplay, 0, true
	replays.Filter.Key, replays.Filter.Outcome = "order-17", OutcomeExpired
	paused := Task{Number: 7, Source: sampleName, ID: sampleID, Rate: 10, Started: sampleTime, Status: TaskRunning, ToMove: 9, Limit: 12,
		Due: sampleTime * 1000, Stepped: sampleTime + 1, Paused: true}
	action := Action{Number: 1017, At: sampleTime, Account: "000000000000", By: "ops", Name: "PauseTask", About: "orders:6", Text: "text"}
	moves := Task{Number: 5, Source: sampleName, ID: sampleID, Destination: QueueName{Account: "000000000000", Name: "jobs"}, Rate: 10,
		Started: sampleTime, Status: TaskFailed, Failure: "TaskTimedOut", Moved: 7, ToMove: 9, Limit: 12, Due: sampleTime * 1000, Stepped: sampleTime + 1}
	seg := Segment{First: 4097, Sent: sampleTime, Live: 4095}
	lates := seg
	lates.Late = 300
	p := Pos{At: sampleTime, Seq: 17}
	claimed := RecordName{Account: "000000000000", Key: "claim/größer"}
	record := Record{Version: uint64(sampleTime)*1000 + 7, Written: sampleTime, Expires: sampleTime + 60_000, Value: []byte("held\x00"), Exact: true}
	lasting := record
	lasting.Expires, lasting.Exact = sampleTime+15*24*3600_000, false
	all := Records{Last: uint64(sampleTime)*1000 + 9, Swept: sampleTime - 1}

	message := func(k, v []byte) (any, bool) {
		m, inline, ok := DecodeMeta(SeqOf(k), v)
		return readMeta{m, string(inline)}, ok
	}
	queueOf := func(k, v []byte) (any, bool) {
		name, ok := QueueOf(k)
		stored, known := DecodeQueue(v)
		return namedQueue{name, stored}, ok && known
	}
	bucket := Bucket{First: 17, Count: 4, Bytes: 4000, From: sampleTime - 5, Until: sampleTime}
	again := bucket
	again.Replayed = 3
	ended := Outcome{Number: 18, Kind: OutcomeMoved, Ended: sampleTime, Receives: 300, Deliveries: 301, FirstReceive: sampleTime - 2,
		LastReceive: sampleTime - 1, Key: "order-17", To: sampleName, Story: &story, Meta: moved}
	deleted := Outcome{Number: 19, Kind: OutcomeDeleted, Ended: sampleTime, Receives: 1, Deliveries: 1, FirstReceive: sampleTime, LastReceive: sampleTime, Meta: plain}
	outcome := func(k, v []byte) (any, bool) {
		kind, number, known := HistoryKindOf(k)
		o, content, ok := DecodeOutcome(number, v)
		return readOutcome{o, string(content)}, ok && known && kind == HistoryOutcome
	}
	return []sample{
		{"system", SystemKey(), nil, readSystem, sys},
		{"system-2", SystemKey(), nil, readSystem, held},
		{"system-3", SystemKey(), nil, readSystem, held},
		{"system-4", SystemKey(), nil, readSystem, held},
		{"system-5", SystemKey(), nil, readSystem, noted},
		{"system-6", SystemKey(), keyed.Encode(nil), readSystem, keyed},
		{"system-7", SystemKey(), holding.Encode(nil), readSystem, holding},
		{"queue", QueueKey(sampleName), nil, queueOf, namedQueue{sampleName, queue}},
		{"queue-2", QueueKey(sampleName), nil, queueOf, namedQueue{sampleName, fifo}},
		{"queue-3", QueueKey(sampleName), guarded.Encode(nil), queueOf, namedQueue{sampleName, guarded}},
		{"grave", QueueKey(sampleName), nil, queueOf, namedQueue{sampleName, grave}},
		{"grave-2", QueueKey(sampleName), nil, queueOf, namedQueue{sampleName, grave}},
		{"grave-3", QueueKey(sampleName), grave.Encode(nil), queueOf, namedQueue{sampleName, grave}},
		{"state", StateKey(sampleSpace), nil, readState, st},
		{"state-2", StateKey(sampleSpace), nil, readState, fifoState},
		{"state-3", StateKey(sampleSpace), elders.Encode(nil), readState, elders},
		{"state-4", StateKey(sampleSpace), rated.Encode(nil), readState, rated},
		{"state-5", StateKey(sampleSpace), widened.Encode(nil), readState, widened},
		{"state-6", StateKey(sampleSpace), leveled.Encode(nil), readState, leveled},
		{"message", SeqKey(sampleSpace, KindMessage, 17), plain.Encode(nil, []byte("content")), message, readMeta{plain, "content"}},
		{"message-moved", SeqKey(sampleSpace, KindMessage, 18), moved.Encode(nil, nil), message, readMeta{moved, ""}},
		{"message-arrived", SeqKey(sampleSpace, KindMessage, 18), arrived.Encode(nil, nil), message, readMeta{arrived, ""}},
		{"message-fenced", SeqKey(sampleSpace, KindMessage, 18), fenced.Encode(nil, nil), message, readMeta{fenced, ""}},
		{"message-replayed", SeqKey(sampleSpace, KindMessage, 18), replayed.Encode(nil, nil), message, readMeta{replayed, ""}},
		{"content", SeqKey(sampleSpace, KindContent, 18), content.Encode(),
			func(_, v []byte) (any, bool) { return any2(DecodeContent(v)) }, content},
		{"delivery", SeqKey(sampleSpace, KindDelivery, 17), flight.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeDelivery(v)) }, flight},
		{"due", DueRows.Key(sampleSpace, p), []byte{byte(DueReturned)}, func(k, v []byte) (any, bool) {
			return indexRow[DueKind]{PosOf(k[SpacePrefixLen:]), DueKind(v[0])}, DueKind(v[0]).known()
		}, indexRow[DueKind]{p, DueReturned}},
		{"segment", SeqKey(sampleSpace, KindSegment, 1), seg.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeSegment(v)) }, seg},
		{"segment-2", SeqKey(sampleSpace, KindSegment, 1), lates.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeSegment(v)) }, lates},
		{"delivery-dead", SeqKey(sampleSpace, KindDelivery, 18), dead.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeDelivery(v)) }, dead},
		{"delivery-elder", SeqKey(sampleSpace, KindDelivery, 17), elder.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeDelivery(v)) }, elder},
		{"delivery-told", SeqKey(sampleSpace, KindDelivery, 17), told.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeDelivery(v)) }, told},
		{"delivery-2", SeqKey(sampleSpace, KindDelivery, 17), urgent.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeDelivery(v)) }, urgent},
		{"level", LevelRows[6].Key(sampleSpace, p), []byte{byte(DueReturned)}, func(k, v []byte) (any, bool) {
			return indexRow[DueKind]{PosOf(k[SpacePrefixLen+1:]), DueKind(v[0])}, DueKind(v[0]).known()
		}, indexRow[DueKind]{p, DueReturned}},
		{"again", AgainKey(sampleSpace, sampleTime/DedupBucket, 17), repeats, func(_, v []byte) (any, bool) {
			var all []Again
			r := ReadAgain(v)
			for a := (Again{}); r.Next(&a); a.IDs = nil {
				all = append(all, a)
			}
			return all, r.Done()
		}, answers},
		{"state-again", StateKey(sampleSpace), repeating.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeState(v)) }, repeating},
		{"state-again-levels", StateKey(sampleSpace), both.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeState(v)) }, both},
		{"story", SeqKey(sampleSpace, KindStory, 17), story.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeStory(v)) }, story},
		{"delivery-moved", SeqKey(sampleSpace, KindDelivery, 17), away.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeDelivery(v)) }, away},
		{"group", GroupKey(sampleSpace, "customer-7"), line1.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeGroup(v)) }, line1},
		{"group-2", GroupKey(sampleSpace, "customer-7"), heldGroup.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeGroup(v)) }, heldGroup},
		{"hold", SeqKey(sampleSpace, KindHold, 17), hold.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeHold(v)) }, hold},
		{"head-held", HeadRows[HeadHeld].Key(sampleSpace, p), EncodeHead(nil, "customer-7"), func(k, v []byte) (any, bool) {
			group, ok := DecodeHead(v)
			return indexRow[string]{PosOf(k[SpacePrefixLen+1:]), group}, ok
		}, indexRow[string]{p, "customer-7"}},
		{"line", LineKey(sampleSpace, "customer-7", 18), EncodeLine(nil, sampleTime), func(k, v []byte) (any, bool) {
			sent, ok := DecodeLine(v)
			return Line{LineSeq(k), sent}, ok
		}, Line{18, sampleTime}},
		{"head", HeadRows[HeadPlaced].Key(sampleSpace, p), EncodeHead(nil, "customer-7"), func(k, v []byte) (any, bool) {
			group, ok := DecodeHead(v)
			return indexRow[string]{PosOf(k[SpacePrefixLen+1:]), group}, ok
		}, indexRow[string]{p, "customer-7"}},
		{"fair", FairKey(sampleSpace), fair.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeFair(v)) }, fair},
		{"tenant", TenantKey(sampleSpace, "customer-7"), tenant.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeTenant(v)) }, tenant},
		{"waiting", WaitingKey(sampleSpace, "customer-7", p), EncodeWaiting(nil, true), func(k, v []byte) (any, bool) {
			placed, ok := DecodeWaiting(v)
			return indexRow[bool]{WaitingPos(k), placed}, ok
		}, indexRow[bool]{p, true}},
		{"turn", TurnRows.Key(sampleSpace, tenant.Turn()), EncodeHead(nil, "customer-7"), func(k, v []byte) (any, bool) {
			group, ok := DecodeHead(v)
			return indexRow[string]{PosOf(k[SpacePrefixLen:]), group}, ok
		}, indexRow[string]{tenant.Turn(), "customer-7"}},
		{"dedup-send", DedupKey(sampleSpace, sampleTime/DedupBucket, DedupHash(sampleID)), sent.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeDedup(v)) }, sent},
		{"dedup-receive", DedupKey(sampleSpace, sampleTime/DedupBucket, DedupHash(sampleID)), received.Encode(nil),
			func(_, v []byte) (any, bool) { return any2(DecodeDedup(v)) }, received},
		{"bucket", BucketKey(sampleIncarned, 17), bucket.Encode(nil), func(k, v []byte) (any, bool) {
			first, _ := BucketOf(k)
			return any2(DecodeBucket(first, v))
		}, bucket},
		{"bucket-2", BucketKey(sampleIncarned, 17), again.Encode(nil), func(k, v []byte) (any, bool) {
			first, _ := BucketOf(k)
			return any2(DecodeBucket(first, v))
		}, again},
		{"outcome", AppendHistoryKey(nil, sampleIncarned, 17, HistoryOutcome, 19), deleted.Meta.Encode(deleted.EncodeHead(nil), []byte("content")),
			outcome, readOutcome{deleted, "content"}},
		{"outcome-moved", AppendHistoryKey(nil, sampleIncarned, 17, HistoryOutcome, 18), ended.Meta.Encode(ended.EncodeHead(nil), nil),
			outcome, readOutcome{ended, ""}},
		{"outcome-content", AppendHistoryKey(nil, sampleIncarned, 17, HistoryContent, 18), content.Encode(),
			func(_, v []byte) (any, bool) { return any2(DecodeContent(v)) }, content},
		{"history-index", AppendMarkKey(nil, sampleIncarned, 17, MarkOf(MarkGroup, "customer-7"), 18), []byte{Version}, func(k, v []byte) (any, bool) {
			kind, number, ok := HistoryKindOf(k)
			return number, ok && kind == HistoryIndex && ReadMark(v)
		}, uint64(18)},
		{"origin", OriginRows.Key(sampleSpace, p), []byte{Version}, func(k, v []byte) (any, bool) {
			_, ok := OriginRows.Read(v)
			return PosOf(k[SpacePrefixLen:]), ok
		}, p},
		{"elder", ElderRows.Key(sampleSpace, p), []byte{Version}, func(k, v []byte) (any, bool) {
			_, ok := ElderRows.Read(v)
			return PosOf(k[SpacePrefixLen:]), ok
		}, p},
		{"moved", MovedKey(sampleID), EncodeMoved(nil, Place{sampleSpace, 300}), func(k, v []byte) (any, bool) {
			id, at, ok := DecodeMoved(k, v)
			return movedRow{id, at}, ok
		}, movedRow{sampleID, Place{sampleSpace, 300}}},
		{"owner", OwnerKey(sampleSpace), EncodeOwner(nil, sampleName), func(_, v []byte) (any, bool) {
			return any2(DecodeOwner(v))
		}, sampleName},
		{"source", SourceKey(sampleName, "jobs"), []byte{Version}, func(k, _ []byte) (any, bool) {
			return any2(SourceOf(k))
		}, QueueName{Account: "000000000000", Name: "jobs"}},
		{"task", TaskKey(sampleName, 5), moves.Encode(nil), func(k, v []byte) (any, bool) {
			t, ok := DecodeTask(v)
			number, known := TaskNumber(k)
			t.Number, t.Source = number, sampleName
			return t, ok && known
		}, moves},
		{"task-2", TaskKey(sampleName, 6), selects.Encode(nil), func(k, v []byte) (any, bool) {
			return any2(TaskOf(k, v))
		}, selects},
		{"task-3", TaskKey(sampleName, 8), reasons.Encode(nil), func(k, v []byte) (any, bool) {
			return any2(TaskOf(k, v))
		}, reasons},
		{"task-4", TaskKey(sampleName, 9), edits.Encode(nil), func(k, v []byte) (any, bool) {
			return any2(TaskOf(k, v))
		}, edits},
		{"task-5", TaskKey(sampleName, 10), replays.Encode(nil), func(k, v []byte) (any, bool) {
			return any2(TaskOf(k, v))
		}, replays},
		{"task-2-paused", TaskKey(sampleName, 7), paused.Encode(nil), func(k, v []byte) (any, bool) {
			return any2(TaskOf(k, v))
		}, paused},
		{"schedule", schedule.Key(), schedule.Encode(nil), func(k, v []byte) (any, bool) {
			return any2(ScheduleOf(k, v))
		}, schedule},
		{"action", ActionKey(17), action.Encode(nil), func(_, v []byte) (any, bool) {
			return any2(DecodeAction(v))
		}, action},
		{"active", ActiveKey(5), EncodeActive(nil, sampleName), func(k, v []byte) (any, bool) {
			_, source, ok := DecodeActive(k, v)
			return source, ok
		}, sampleName},
		{"document", DocumentKey("alarms"), EncodeDocument(nil, []byte("text")), func(k, v []byte) (any, bool) {
			name, ok := DocumentOf(k)
			text, known := DecodeDocument(v)
			return name + " " + string(text), ok && known
		}, "alarms text"},
		{"records", RecordsKey(), all.Encode(nil), func(_, v []byte) (any, bool) { return any2(DecodeRecords(v)) }, all},
		{"record", RecordKey(claimed), record.Encode(nil), readRecord, namedRecord{claimed, record}},
		{"record-2", RecordKey(claimed), lasting.Encode(nil), readRecord, namedRecord{claimed, lasting}},
		{"expiry", ExpiryKey(sampleTime, claimed), []byte{Version}, func(k, v []byte) (any, bool) {
			at, name, ok := ExpiryOf(k)
			return namedRecord{name, Record{Expires: at}}, ok && len(v) == 1
		}, namedRecord{claimed, Record{Expires: sampleTime}}},
	}
}

func readRecord(k, v []byte) (any, bool) {
	name, ok := RecordOf(k)
	r, known := DecodeRecord(v)
	return namedRecord{name, r}, ok && known
}

func readSystem(_, v []byte) (any, bool) { return any2(DecodeSystem(v)) }

func readState(_, v []byte) (any, bool) { return any2(DecodeState(v)) }

func any2[T any](v T, ok bool) (any, bool) { return v, ok }

// TestFormats reads every row of testdata/formats/rows.txt as it was meant, and writes it as it was
// written if that encoding is still written.
func TestFormats(t *testing.T) {
	kept := readFormats(t, "testdata/formats/rows.txt")
	for _, s := range samples() {
		line := s.Name + " " + hex.EncodeToString(s.Key) + " " + hex.EncodeToString(s.Value)
		stored, ok := kept[s.Name]
		if !ok {
			t.Errorf("%s is not among the kept rows; it would be\n%s", s.Name, line)
			continue
		}
		delete(kept, s.Name)
		if !bytes.Equal(s.Key, stored[0]) || s.Value != nil && !bytes.Equal(s.Value, stored[1]) {
			t.Errorf("got  %s\nwant %s %x %x", line, s.Name, stored[0], stored[1])
		}
		got, ok := s.Read(stored[0], stored[1])
		if !ok || !reflect.DeepEqual(got, s.Want) {
			t.Errorf("%s reads as %+v, %v, want %+v", s.Name, got, ok, s.Want)
		}
		for n := range stored[1] {
			if s.Name == "source" {
				break // everything is in its key
			}
			if (s.Name == "message" || s.Name == "outcome") && n >= len(stored[1])-len("content") {
				break // a message row ends with its content, whatever that is
			}
			if short, ok := tryRead(s, stored[0], stored[1][:n]); ok {
				t.Errorf("%s cut to %d bytes reads as %+v, want a refusal", s.Name, n, short)
			}
		}
	}
	for name := range kept { // order does not matter: there should be none
		t.Errorf("nobody reads the kept row %s", name)
	}
}

// tryRead reads a value that may be too short for what has a fixed length.
func tryRead(s sample, k, v []byte) (any, bool) {
	if s.Name == "due" || s.Name == "level" {
		return nil, len(v) == 1
	}
	return s.Read(k, v)
}

func readFormats(t *testing.T, path string) map[string][2][]byte {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := make(map[string][2][]byte)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Fields(line)
		if len(parts) != 3 {
			t.Fatalf("%s: bad line %q", path, line)
		}
		k, errK := hex.DecodeString(parts[1])
		v, errV := hex.DecodeString(parts[2])
		if errK != nil || errV != nil {
			t.Fatalf("%s: bad line %q", path, line)
		}
		rows[parts[0]] = [2][]byte{k, v}
	}
	return rows
}

// seed gives a fuzz test the kept rows with the given names.
func seed(f *testing.F, names ...string) {
	for _, s := range samples() {
		for _, name := range names {
			if s.Name == name {
				f.Add(s.Value)
			}
		}
	}
	f.Add([]byte{})
	f.Add([]byte{Version})
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Add(append([]byte{Version}, bytes.Repeat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 4)...))
}

// again fails when what was decoded from bytes does not decode to the same from its own encoding.
func again[T any](t *testing.T, v T, encode func(T) []byte, decode func([]byte) (T, bool)) {
	t.Helper()
	if w, ok := decode(encode(v)); !ok || !reflect.DeepEqual(v, w) {
		t.Errorf("%+v encodes to what reads as %+v, %v", v, w, ok)
	}
}

func FuzzSystem(f *testing.F) {
	seed(f, "system", "system-2", "system-3", "system-4", "system-5", "system-6")
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := DecodeSystem(b); ok {
			again(t, s, func(s System) []byte { return s.Encode(nil) }, DecodeSystem)
		}
	})
}

func FuzzQueueRow(f *testing.F) {
	seed(f, "queue", "queue-2", "queue-3", "grave-2", "grave-3")
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := DecodeQueue(b)
		if len(r.Tags) > len(b)+1 {
			t.Errorf("%d tags from %d bytes", len(r.Tags), len(b))
		}
		if ok {
			again(t, r, func(r Queue) []byte { return r.Encode(nil) }, DecodeQueue)
		}
	})
}

func FuzzState(f *testing.F) {
	seed(f, "state", "state-2", "state-3", "state-4", "state-5", "state-6")
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := DecodeState(b); ok {
			again(t, s, func(s State) []byte { return s.Encode(nil) }, DecodeState)
		}
	})
}

func FuzzMessage(f *testing.F) {
	seed(f, "message", "message-moved", "message-arrived")
	f.Fuzz(func(t *testing.T, b []byte) {
		m, inline, ok := DecodeMeta(17, b)
		if len(m.Group)+len(m.Dedup)+len(m.Source)+len(inline) > len(b) {
			t.Errorf("%d bytes decode to more", len(b))
		}
		if !ok {
			return
		}
		// Flags of parts that have their default values are not written again.
		flags := m.Flags
		again(t, m, func(m Meta) []byte { return m.Encode(nil, inline) }, func(b []byte) (Meta, bool) {
			m, rest, ok := DecodeMeta(17, b)
			m.Flags = flags
			return m, ok && bytes.Equal(rest, inline)
		})
	})
}

func FuzzContent(f *testing.F) {
	seed(f, "content")
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok := DecodeContent(b)
		if len(c.Attributes) > len(b)+1 || len(c.Body) > len(b) {
			t.Errorf("%d attributes and a body of %d bytes from %d bytes", len(c.Attributes), len(c.Body), len(b))
		}
		if ok {
			again(t, c, func(c Content) []byte { return c.Encode() }, DecodeContent)
		}
	})
}

func FuzzDelivery(f *testing.F) {
	seed(f, "delivery", "delivery-dead", "delivery-elder", "delivery-told", "delivery-2")
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := DecodeDelivery(b); ok {
			again(t, v, func(v Delivery) []byte { return v.Encode(nil) }, DecodeDelivery)
		}
	})
}

func FuzzGroup(f *testing.F) {
	seed(f, "group", "group-2")
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := DecodeGroup(b); ok {
			again(t, v, func(v Group) []byte { return v.Encode(nil) }, DecodeGroup)
		}
	})
}

func FuzzStory(f *testing.F) {
	seed(f, "story")
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := DecodeStory(b); ok {
			again(t, s, func(s Story) []byte { return s.Encode(nil) }, DecodeStory)
		}
	})
}

func FuzzSegment(f *testing.F) {
	seed(f, "segment")
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := DecodeSegment(b); ok {
			again(t, s, func(s Segment) []byte { return s.Encode(nil) }, DecodeSegment)
		}
	})
}

func FuzzRecord(f *testing.F) {
	seed(f, "record", "record-2", "records")
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := DecodeRecord(b); ok {
			again(t, v, func(v Record) []byte { return v.Encode(nil) }, DecodeRecord)
		}
		if v, ok := DecodeRecords(b); ok {
			again(t, v, func(v Records) []byte { return v.Encode(nil) }, DecodeRecords)
		}
	})
}

func FuzzKeys(f *testing.F) {
	for _, s := range samples() {
		f.Add(s.Key)
	}
	f.Fuzz(func(t *testing.T, k []byte) {
		if name, ok := QueueOf(k); ok && !bytes.Equal(QueueKey(name), k) {
			t.Errorf("%x is the key of %+v, whose key is %x", k, name, QueueKey(name))
		}
		if name, ok := RecordOf(k); ok && !bytes.Equal(RecordKey(name), k) {
			t.Errorf("%x is the key of %+v, whose key is %x", k, name, RecordKey(name))
		}
		if at, name, ok := ExpiryOf(k); ok && !bytes.Equal(ExpiryKey(at, name), k) {
			t.Errorf("%x is the key of %+v at %d, whose key is %x", k, name, at, ExpiryKey(at, name))
		}
		SeqOf(k)
		PosOf(k)
	})
}

// An indexRow is a row of an index.
type indexRow[T any] struct {
	Pos
	Value T
}

func FuzzOutcome(f *testing.F) {
	seed(f, "outcome", "outcome-moved")
	f.Fuzz(func(t *testing.T, b []byte) {
		o, content, ok := DecodeOutcome(7, b)
		if !ok {
			return
		}
		again, same, ok := DecodeOutcome(7, o.Meta.Encode(o.EncodeHead(nil), content))
		if !ok || !reflect.DeepEqual(again, o) || !bytes.Equal(same, content) {
			t.Errorf("%+v with %q comes back as %+v with %q", o, content, again, same)
		}
		for _, m := range o.Marks() {
			kind, number, ok := HistoryKindOf(AppendMarkKey(nil, sampleIncarned, 3, m, 7))
			if !ok || kind != HistoryIndex || number != 7 {
				t.Errorf("a mark reads as kind %d of outcome %d", kind, number)
			}
		}
	})
}

// The rows of an index that have a mark come in the order from new to old, and only those before a
// number are in its span.
func TestMarkSpan(t *testing.T) {
	m := MarkOf(MarkGroup, "g")
	at := func(n uint64) string { return string(AppendMarkKey(nil, sampleIncarned, 5, m, n)) }
	s := MarkSpan(sampleIncarned, 5, m, 9)
	for n := uint64(5); n < 12; n++ {
		if at(n) <= at(n+1) {
			t.Errorf("outcome %d comes before %d", n, n+1)
		}
		if in := at(n) >= string(s.Lo) && at(n) < string(s.Hi); in != (n < 9) {
			t.Errorf("outcome %d is in the span of those before 9: %v", n, in)
		}
	}
}
