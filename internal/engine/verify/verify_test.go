package verify

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
	"tenaq/internal/work/extension"
)

// rowMap is a store that can be written to in every wrong way.
type rowMap map[string]string

func rowsOf(store kv.Store) rowMap {
	rows := make(rowMap)
	for k, v := range store.Scan([]byte{1}, nil) {
		rows[string(k)] = string(v)
	}
	return rows
}

// A frozenMap is a rowMap with its keys in order.
type frozenMap struct {
	rowMap
	keys []string
}

func (m frozenMap) Get(dst, key []byte) ([]byte, bool) {
	v, ok := m.rowMap[string(key)]
	return append(dst, v...), ok
}

func (m frozenMap) Scan(lo, hi []byte) iter.Seq2[[]byte, []byte] {
	from, _ := slices.BinarySearch(m.keys, string(lo))
	return func(yield func(k, v []byte) bool) {
		for _, k := range m.keys[from:] {
			if hi != nil && k >= string(hi) || !yield([]byte(k), []byte(m.rowMap[k])) {
				return
			}
		}
	}
}

func (m rowMap) audit() (findings []Finding, read Read) {
	store := frozenMap{m, slices.Sorted(maps.Keys(m))}
	read = Verifier{Store: store, Found: func(f Finding) { findings = append(findings, f) }}.Run()
	return findings, read
}

var (
	auditPlain = row.QueueName{Account: "000000000000", Name: "plain"}
	auditDead  = row.QueueName{Account: "000000000000", Name: "dead"}
	auditFIFO  = row.QueueName{Account: "000000000000", Name: "line.fifo"}
	auditDeadF = row.QueueName{Account: "000000000000", Name: "dead.fifo"}
	auditHeld  = row.QueueName{Account: "000000000000", Name: "held.fifo"}
	auditDeadH = row.QueueName{Account: "000000000000", Name: "dead-of-held.fifo"}
	auditFair  = row.QueueName{Account: "000000000000", Name: "fair"}
)

// A rig is an engine over a store in memory.
type rig struct {
	*engine.Engine
	t     *testing.T
	store *kv.Memory
	now   int64
	seed  byte
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, store: kv.NewMemory(), now: 1767225600123}
	r.Engine = engine.Open(r.store, engine.Config{
		Region: "r", InFlightMax: 120000, Fault: func(sentence string) { t.Fatal(sentence) },
	})
	return r
}

// do applies an operation in a turn of its own, and reports whether it is to be submitted again.
func (r *rig) do(op engine.Op) (again bool) {
	r.t.Helper()
	r.seed++
	err := r.Apply(engine.Command{Now: r.now, Seed: [16]byte{r.seed}, Op: op})
	if err != nil && err != engine.ErrAgain {
		r.t.Fatalf("%T: %v", op, err)
	}
	if wait := r.Commit(); wait != nil {
		wait()
	}
	return err == engine.ErrAgain
}

// everyKind returns a store that has every kind of row, and in most kinds several.
func everyKind(t *testing.T) rowMap {
	t.Helper()
	r := newRig(t)
	r.do(&engine.Start{})
	arn := func(q row.QueueName) string { return "arn:aws:sqs:r:" + q.Account + ":" + q.Name }
	some := func(s string) engine.Text { return engine.Text{Value: s, Set: true} }
	count := func(n int64) engine.Int { return engine.Int{Value: n, Set: true} }
	create := func(q, dead row.QueueName) {
		attributes := map[string]string{}
		if strings.HasSuffix(q.Name, ".fifo") {
			attributes["FifoQueue"] = "true"
		}
		if dead != (row.QueueName{}) {
			attributes["RedrivePolicy"] = `{"deadLetterTargetArn":"` + arn(dead) + `","maxReceiveCount":"1"}`
		}
		tags := []row.Tag{{Key: "team", Value: "a"}, {Key: extension.History, Value: "1h"}}
		if q == auditPlain {
			tags = append(tags, row.Tag{Key: extension.Priority, Value: "1m"}, row.Tag{Key: extension.ScheduleTag, Value: "@hourly"})
		}
		r.do(&engine.CreateQueue{Queue: q, NameSet: true, Attributes: attributes, Tags: tags})
	}
	send := func(q row.QueueName, n int, e engine.Entry) {
		for i := range n {
			r.now++
			body := fmt.Sprintf("%s %d %s", q.Name, r.seed, e.Body.Value)
			one := e
			one.Body, one.BodyMD5 = some(body), md5.Sum([]byte(body))
			if e.Group.Set {
				one.Group = some(fmt.Sprintf("%s%d", e.Group.Value, i%3))
				one.Dedup = some(fmt.Sprintf("d%d", r.seed))
			}
			r.do(&engine.SendMessage{Queue: q, Draft: engine.NewDraft(one)})
		}
	}
	receive := func(q row.QueueName, n, seconds int64, attempt string) engine.Received {
		r.now++
		for {
			op := &engine.ReceiveMessage{Queue: q, Max: count(n), Visibility: count(seconds)}
			if attempt != "" {
				op.AttemptID = some(attempt)
			}
			if !r.do(op) {
				return op.Received
			}
		}
	}
	large := strings.Repeat("x", row.InlineMax)
	create(auditDead, row.QueueName{})
	create(auditPlain, auditDead)
	create(auditDeadF, row.QueueName{})
	create(auditFIFO, auditDeadF)
	create(row.QueueName{Account: "000000000000", Name: "gone"}, row.QueueName{})
	r.do(&engine.DeleteQueue{Queue: row.QueueName{Account: "000000000000", Name: "gone"}})

	send(auditPlain, 6, engine.Entry{})
	send(auditPlain, 2, engine.Entry{Body: some(large)})
	receive(auditPlain, 8, 0, "")
	receive(auditPlain, 8, 0, "") // which dead-letters them
	send(auditPlain, 3, engine.Entry{Body: some(large), Attributes: []engine.EntryAttribute{{Name: "n", Type: some("String"), String: some("v")}}})
	send(auditPlain, 2, engine.Entry{Delay: count(900)})
	told := receive(auditPlain, 1, 30, "")
	r.do(&engine.Nack{Queue: auditPlain, Entries: []engine.NackEntry{{Verdict: engine.Release, Text: "busy", Delay: 30_000, Handle: engine.Handle{
		Text: "h", Valid: true, Incarnation: told.Incarnation, Space: told.Messages[0].Space, Seq: told.Messages[0].Seq, Generation: told.Messages[0].Generation}}}})
	receive(auditPlain, 1, 30, "")
	r.do(&engine.StartMessageMoveTask{Account: "000000000000", Source: some(arn(auditDead)), Destination: some(arn(auditPlain)), Rate: count(1)})
	r.do(&engine.MoveStep{})
	send(auditPlain, 2, engine.Entry{Attributes: []engine.EntryAttribute{{Name: "tenaq.priority", Type: some("Number"), String: some("7")}}})
	for i := range byte(3) {
		r.do(&engine.SendMessage{Queue: auditPlain, Draft: engine.NewDraft(engine.Entry{Body: some("attempt")}),
			Call: engine.Invocation{Hash: engine.HashInvocation([]byte{i}), Later: i == 2}})
	}

	r.now += 60_000 // another bucket
	send(auditFIFO, 6, engine.Entry{Group: some("g")})
	receive(auditFIFO, 10, 0, "")
	receive(auditFIFO, 10, 0, "") // which dead-letters them
	r.do(&engine.StartTask{Queue: auditDeadF, Work: engine.TaskDelete, Confirm: 5, By: "ops", Filter: engine.TaskFilter{Text: "0", ReceivesMin: 1}})
	r.do(&engine.ChangeTask{Account: "000000000000", ID: auditDeadF.Name + ":2", Change: engine.PauseTask, By: "ops"})
	send(auditFIFO, 9, engine.Entry{Group: some("g")})
	receive(auditFIFO, 2, 30, "attempt")
	send(auditFIFO, 2, engine.Entry{Group: some("h"), Body: some(large)})

	create(auditFair, row.QueueName{})
	send(auditFair, 4, engine.Entry{})
	r.do(&engine.TagQueue{Queue: auditFair, Tags: []row.Tag{{Key: extension.Fair, Value: "true"}}})
	for i := range 9 {
		r.now++
		r.do(&engine.SendMessage{Queue: auditFair, Draft: engine.NewDraft(engine.Entry{Body: some("fair"), Group: some(fmt.Sprintf("g%d", i%2)),
			Delay: count(int64(i / 8))})})
	}
	receive(auditFair, 4, 30, "")
	create(auditDeadH, row.QueueName{})
	create(auditHeld, auditDeadH)
	r.do(&engine.TagQueue{Queue: auditHeld, Tags: []row.Tag{{Key: extension.OnDeadLetter, Value: "hold-group"}}})
	send(auditHeld, 9, engine.Entry{Group: some("g")})
	receive(auditHeld, 10, 0, "")
	receive(auditHeld, 10, 0, "") // which dead-letters the first of each group
	r.do(&engine.StartTask{Queue: auditDeadH, Work: engine.TaskMove, Most: 1, By: "ops"})
	r.do(&engine.MoveStep{})
	batch := r.store.NewBatch()
	batch.Set([]byte{row.FamilySecret}, append([]byte{row.Version}, make([]byte, 32)...))
	batch.Force()()
	r.do(&engine.PutDocument{Name: "alarms", Value: []byte("text")})
	r.do(&engine.PutRecord{Account: "000000000000", Key: "expired", TTL: 1})
	r.do(&engine.PutRecord{Account: "000000000000", Key: "order-17", Value: []byte("held"), TTL: 60_000})
	r.do(&engine.PutRecord{Account: "000000000000", Key: "state", Value: []byte("open")})
	r.now += 2
	r.do(&engine.SweepRecords{Max: 10})
	r.do(&engine.TagQueue{Queue: auditPlain, Tags: []engine.Tag{{Key: "tenaq:delay-max", Value: "90d"}}})
	send(auditPlain, 2, engine.Entry{Attributes: []engine.EntryAttribute{{Name: "tenaq.delay", Type: some("String"), String: some("90d")}}})
	r.do(&engine.Stamp{Clean: true})
	return rowsOf(r.store)
}

// kindOf names the kind of a row.
func kindOf(k string) string {
	if k[0] == row.FamilyRecord {
		return []string{"", "records", "record", "expiry"}[k[1]]
	}
	if k[0] == row.FamilyHistory {
		if _, isRow := row.BucketOf([]byte(k)); isRow {
			return "bucket"
		}
		kind, _, _ := row.HistoryKindOf([]byte(k))
		return []string{"history", "outcome", "outcome content", "history index"}[kind]
	}
	if k[0] != row.FamilySpace {
		return map[byte]string{row.FamilySystem: "system", row.FamilyQueue: "queue", row.FamilySecret: "secret", row.FamilySource: "source",
			row.FamilyTask: "task", row.FamilyActive: "active", row.FamilyDocument: "document",
			row.FamilyMoved: "moved", row.FamilyAction: "action", row.FamilySchedule: "schedule"}[k[0]]
	}
	if kind := row.Kind(k[row.SpacePrefixLen-1]); kind >= row.KindFair {
		return []string{"fair", "tenant", "waiting", "turn"}[kind-row.KindFair]
	}
	return []string{"", "state", "message", "content", "delivery", "due", "segment", "group", "line", "head", "dedup", "origin", "elder", "story", "owner", "level", "hold", "again"}[k[row.SpacePrefixLen-1]]
}

// ofKind returns the rows of a kind, in order.
func (m rowMap) ofKind(kind string) (keys []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if kindOf(k) == kind {
			keys = append(keys, k)
		}
	}
	return keys
}

var auditKinds = []string{"system", "queue", "secret", "source", "task", "active", "document", "records", "record", "expiry", "action", "schedule", "state", "message", "content", "delivery", "due",
	"segment", "group", "line", "head", "dedup", "origin", "elder", "moved", "story", "owner", "level", "hold", "again", "fair", "tenant", "waiting", "turn", "bucket", "outcome", "outcome content",
	"history index"}

// A store that has everything is found to be well, and every row of it is read.
func TestAuditClean(t *testing.T) {
	rows := everyKind(t)
	findings, read := rows.audit()
	for _, f := range findings {
		t.Errorf("queue %s, row %x: %s", f.Queue.Name, f.Key, f.Text)
	}
	for _, kind := range auditKinds {
		if len(rows.ofKind(kind)) == 0 {
			t.Errorf("there is no %s row, so the other tests prove nothing about it", kind)
		}
	}
	if read.Rows != int64(len(rows)) || read.Queues != 7 || read.Messages == 0 {
		t.Errorf("read %+v, want %d rows and 7 queues", read, len(rows))
	}
}

// Every kind of row is damaged in ways that matter, and each time the audit names it.
func TestAuditFinds(t *testing.T) {
	clean := everyKind(t)
	first := func(kind string) func(rowMap) string { return func(m rowMap) string { return m.ofKind(kind)[0] } }
	in := func(q row.QueueName, kind row.Kind) func(rowMap) string {
		return func(m rowMap) string {
			stored, _ := row.DecodeQueue([]byte(m[string(row.QueueKey(q))]))
			prefix := string(row.SpaceKey(stored.Space, kind))
			for _, k := range slices.Sorted(maps.Keys(m)) {
				if strings.HasPrefix(k, prefix) {
					return k
				}
			}
			t.Fatalf("queue %s has no row of kind %d", q.Name, kind)
			return ""
		}
	}
	remove := func(m rowMap, k string) { delete(m, k) }
	version := func(m rowMap, k string) { m[k] = "\x63" + m[k][1:] }
	cut := func(m rowMap, k string) { m[k] = m[k][:len(m[k])-1] }
	longer := func(m rowMap, k string) { m[k] += "\x00" }
	last := func(m rowMap, k string) { // of the key: the same row stands for another message
		m[k[:len(k)-1]+"\xee"] = m[k]
	}
	inState := func(f func(*row.State)) func(rowMap, string) {
		return func(m rowMap, k string) {
			st, _ := row.DecodeState([]byte(m[k]))
			f(&st)
			m[k] = string(st.Encode(nil))
		}
	}
	inDelivery := func(f func(*row.Delivery)) func(rowMap, string) {
		return func(m rowMap, k string) {
			d, _ := row.DecodeDelivery([]byte(m[k]))
			f(&d)
			m[k] = string(d.Encode(nil))
		}
	}
	inMeta := func(f func(*row.Meta)) func(rowMap, string) {
		return func(m rowMap, k string) {
			v, inline, _ := row.DecodeMeta(row.SeqOf([]byte(k)), []byte(m[k]))
			f(&v)
			m[k] = string(v.Encode(nil, inline))
		}
	}
	inBucket := func(f func(*row.Bucket)) func(rowMap, string) {
		return func(m rowMap, k string) {
			n, _ := row.BucketOf([]byte(k))
			b, _ := row.DecodeBucket(n, []byte(m[k]))
			f(&b)
			m[k] = string(b.Encode(nil))
		}
	}
	inOutcome := func(f func(*row.Outcome)) func(rowMap, string) {
		return func(m rowMap, k string) {
			o, inline, _ := row.DecodeOutcome(1, []byte(m[k]))
			f(&o)
			m[k] = string(o.Meta.Encode(o.EncodeHead(nil), inline))
		}
	}
	inFair := func(f func(*row.Fair)) func(rowMap, string) {
		return func(m rowMap, k string) {
			v, _ := row.DecodeFair([]byte(m[k]))
			f(&v)
			m[k] = string(v.Encode(nil))
		}
	}
	inTenant := func(f func(*row.Tenant)) func(rowMap, string) {
		return func(m rowMap, k string) {
			v, _ := row.DecodeTenant([]byte(m[k]))
			f(&v)
			m[k] = string(v.Encode(nil))
		}
	}
	for _, tt := range []struct {
		name  string
		row   func(rowMap) string
		harm  func(rowMap, string)
		finds string // a part of a finding
	}{
		{"system of another version", first("system"), version, "this system row cannot be read"},
		{"system that will take a space twice", first("system"), func(m rowMap, k string) {
			s, _ := row.DecodeSystem([]byte(m[k]))
			s.NextSpace = 2
			m[k] = string(s.Encode(nil))
		}, "the next one to be taken is 2"},
		{"system before the messages", first("system"), func(m rowMap, k string) {
			s, _ := row.DecodeSystem([]byte(m[k]))
			s.Stamp -= 1000
			m[k] = string(s.Encode(nil))
		}, "the latest time there can be"},
		{"queue removed", first("queue"), remove, "which no queue has"},
		{"queue cut", first("queue"), cut, "this queue row cannot be read"},
		{"queue in the space of another", first("queue"), func(m rowMap, k string) { m["\x02a\x00\x01b\x00\x01"] = m[k] }, "and so is queue"},
		{"secret cut", first("secret"), cut, "this secret row cannot be read"},
		{"secret twice", first("secret"), func(m rowMap, k string) { m[k+"\x00"] = m[k] }, "of no kind that there is"},
		{"document cut", first("document"), cut, "this document row cannot be read"},
		{"document of another version", first("document"), version, "this document row cannot be read"},
		{"document longer", first("document"), longer, "this document row cannot be read"},
		{"records removed", first("records"), remove, "the last one given is 0"},
		{"records cut", first("records"), cut, "this records row cannot be read"},
		{"records that will give a version twice", first("records"), func(m rowMap, k string) {
			all, _ := row.DecodeRecords([]byte(m[k]))
			all.Last--
			m[k] = string(all.Encode(nil))
		}, "the last one given is"},
		{"records that are swept from too late", first("records"), func(m rowMap, k string) {
			all, _ := row.DecodeRecords([]byte(m[k]))
			all.Swept += 60_000
			m[k] = string(all.Encode(nil))
		}, "where reading begins"},
		{"record removed", first("record"), remove, "this expiry row stands for nothing"},
		{"record cut", first("record"), cut, "this record row cannot be read"},
		{"record of another version", first("record"), version, "this record row cannot be read"},
		{"record that expires at another time", first("record"), func(m rowMap, k string) {
			r, _ := row.DecodeRecord([]byte(m[k]))
			r.Expires++
			m[k] = string(r.Encode(nil))
		}, "it has no expiry row"},
		{"record of nobody", first("record"), func(m rowMap, k string) { m["\x09\x02"] = m[k] }, "this record row cannot be read"},
		{"expiry removed", first("expiry"), remove, "it has no expiry row"},
		{"expiry of nobody", first("expiry"), last, "this expiry row stands for nothing"},
		{"expiry of another version", first("expiry"), version, "this expiry row says 63"},
		{"record of an unknown kind", first("record"), func(m rowMap, k string) { m["\x09\x04"+k[2:]] = m[k] }, "of no kind that there is"},
		{"source removed", first("source"), remove, "it has no source row"},
		{"source of nobody", first("source"), func(m rowMap, k string) { m[string(row.SourceKey(auditDead, "dead"))] = m[k] }, "this source row stands for nothing"},
		{"source of another version", first("source"), version, "this source row says 63"},
		{"task removed", first("task"), remove, "this active row stands for nothing"},
		{"task of no queue", first("task"), func(m rowMap, k string) { m[string(row.TaskKey(row.QueueName{Account: "a", Name: "b"}, 9))] = m[k] }, "a queue that does not exist"},
		{"task cut", first("task"), cut, "this task row cannot be read"},
		{"active removed", first("active"), remove, "it has no active row"},
		{"active with another number", first("active"), last, "this active row stands for nothing"},
		{"state removed", first("state"), remove, "without the state row"},
		{"state with a message too many", first("state"), inState(func(s *row.State) { s.Live++ }), "the state counts"},
		{"state with one too few in flight", in(auditPlain, row.KindState), inState(func(s *row.State) { s.InFlight-- }), "in flight"},
		{"state with a number that was given", in(auditPlain, row.KindState), inState(func(s *row.State) { s.NextSeq -= 2 }), "the next one is to be"},
		{"state that reads due from too late", in(auditPlain, row.KindState), inState(func(s *row.State) { s.DueLow.At += 1 << 40 }), "where reading begins"},
		{"state that reads heads from too late", in(auditFIFO, row.KindState), inState(func(s *row.State) { s.HeadLow[1].At += 1 << 40 }), "where reading begins"},
		{"state whose last bucket ends before it begins", in(auditFIFO, row.KindState), inState(func(s *row.State) { s.Wide = -1 }), "covers -1 minutes more"},
		{"state that forgets what is to come", in(auditFIFO, row.KindState), inState(func(s *row.State) { s.Forgot = 1 << 50 }), "the last send that it has forgotten"},
		{"state that has forgotten a minute", in(auditFIFO, row.KindState), inState(func(s *row.State) { s.Buckets = nil }), "and the state knows of"},
		{"state with the cursor behind fresh messages", in(auditPlain, row.KindState), inState(func(s *row.State) { s.Cursor = s.NextSeq }), "it was never handed out, and"},
		{"message removed", in(auditPlain, row.KindMessage), remove, "of message 9, which is not there"},
		{"message twice", in(auditFIFO, row.KindMessage), last, "the next one is to be"},
		{"message of another version", in(auditPlain, row.KindMessage), version, "this message row cannot be read"},
		{"message longer", in(auditPlain, row.KindMessage), longer, "this message row cannot be read"},
		{"message of another group", in(auditFIFO, row.KindMessage), inMeta(func(m *row.Meta) { m.Group = "other" }), "it has no line row"},
		{"message of another size", in(auditPlain, row.KindMessage), inMeta(func(m *row.Meta) { m.Size++ }), "bytes, and it is of"},
		{"message sent after the stop", in(auditPlain, row.KindMessage), inMeta(func(m *row.Meta) { m.Sent += 1e9; m.Base, m.Arrived = m.Sent, m.Sent }), "the latest time"},
		{"message with another deduplication id", func(m rowMap) string { return string(slices.Max([]string{in(auditFIFO, row.KindMessage)(m)})) },
			inMeta(func(m *row.Meta) { m.Dedup += "x" }), "is not remembered"},
		{"body with a letter changed", in(auditFIFO, row.KindMessage), func(m rowMap, k string) { m[k] = m[k][:len(m[k])-1] + "?" }, "whose MD5 was noted"},
		{"content removed", first("content"), remove, "and that is not there"},
		{"content of nobody", first("content"), last, "which is not there"},
		{"content with a letter changed", first("content"), func(m rowMap, k string) { m[k] = m[k][:len(m[k])-1] + "?" }, "whose MD5 was noted"},
		{"content cut", first("content"), cut, "this content row cannot be read"},
		{"delivery removed", in(auditPlain, row.KindDelivery), remove, "this due row stands for nothing"},
		{"delivery of nobody", in(auditPlain, row.KindDelivery), last, "which is not there"},
		{"delivery at another time", in(auditPlain, row.KindDelivery), inDelivery(func(d *row.Delivery) { d.At++ }), "it has no due row"},
		{"delivery of another kind", in(auditPlain, row.KindDelivery), inDelivery(func(d *row.Delivery) { d.Kind = row.DueReturned }), "this due row says"},
		{"delivery that was never received", in(auditFIFO, row.KindDelivery), inDelivery(func(d *row.Delivery) { d.Receives = 0 }), "it was received 0 times"},
		{"delivery without its origin", in(auditDead, row.KindDelivery), inDelivery(func(d *row.Delivery) { d.Origin = false }), "it has an origin row: false"},
		{"due removed", in(auditPlain, row.KindDue), remove, "it has no due row"},
		{"due of nobody", in(auditPlain, row.KindDue), last, "this due row stands for nothing"},
		{"due of an unknown kind", in(auditPlain, row.KindDue), func(m rowMap, k string) { m[k] = "\x09" }, "this due row cannot be read"},
		{"schedule removed", first("schedule"), remove, "it has the schedule default, and no row says when that is due"},
		{"schedule of no queue", first("schedule"), func(m rowMap, k string) {
			s := row.Schedule{Queue: auditDead, Name: "x"}
			m[string(s.Key())] = m[k]
		}, "the queue has no schedule x"},
		{"schedule between two ticks", first("schedule"), func(m rowMap, k string) {
			s, _ := row.ScheduleOf([]byte(k), []byte(m[k]))
			s.Next++
			m[k] = string(s.Encode(nil))
		}, "which is not one of its ticks"},
		{"schedule that cannot be read", first("schedule"), func(m rowMap, k string) { m[k] = "\x09" }, "this schedule row cannot be read"},
		{"level removed", first("level"), remove, "it has no level row"},
		{"level of nobody", first("level"), last, "this level row stands for nothing"},
		{"level of an unknown kind", first("level"), func(m rowMap, k string) { m[k] = "\x09" }, "this level row cannot be read"},
		{"level that there is not", first("level"), func(m rowMap, k string) {
			m[k[:row.SpacePrefixLen]+"\x0a"+k[row.SpacePrefixLen+1:]] = m[k]
		}, "this level row cannot be read"},
		{"level in a FIFO queue", first("level"), func(m rowMap, k string) {
			stored, _ := row.DecodeQueue([]byte(m[string(row.QueueKey(auditFIFO))]))
			m[string(row.SpaceKey(stored.Space, row.KindLevel))+k[row.SpacePrefixLen:]] = m[k]
		}, "no standard queue"},
		{"state that reads a level from too late", in(auditPlain, row.KindState), inState(func(s *row.State) { s.LevelLow[6].At = row.MaxTime }), "where reading begins"},
		{"state that has forgotten its levels", in(auditPlain, row.KindState), inState(func(s *row.State) { s.LevelLow = nil }), "the state knows of no levels"},
		{"delivery of a message that entered otherwise", in(auditPlain, row.KindDelivery), inDelivery(func(d *row.Delivery) { d.Level = 7 }), "it has level 7"},
		{"segment removed", in(auditPlain, row.KindSegment), remove, "have no segment row"},
		{"segment with another count", in(auditPlain, row.KindSegment), func(m rowMap, k string) {
			s, _ := row.DecodeSegment([]byte(m[k]))
			s.Live++
			m[k] = string(s.Encode(nil))
		}, "this segment says"},
		{"segment that begins too late", in(auditPlain, row.KindSegment), func(m rowMap, k string) {
			s, _ := row.DecodeSegment([]byte(m[k]))
			s.First = 4000
			m[k] = string(s.Encode(nil))
		}, "this segment begins at"},
		{"group removed", in(auditFIFO, row.KindGroup), remove, "in a group that is not there"},
		{"group cut", in(auditFIFO, row.KindGroup), cut, "this group row cannot be read"},
		{"group with another count", in(auditFIFO, row.KindGroup), func(m rowMap, k string) {
			g, _ := row.DecodeGroup([]byte(m[k]))
			g.Count++
			m[k] = string(g.Encode(nil))
		}, "messages, and it has"},
		{"group in a standard queue", in(auditFIFO, row.KindGroup), func(m rowMap, k string) {
			stored, _ := row.DecodeQueue([]byte(m[string(row.QueueKey(auditPlain))]))
			m[string(row.GroupKey(stored.Space, "g"))] = m[k]
		}, "no FIFO queue"},
		{"line removed", in(auditFIFO, row.KindLine), remove, "it has no line row"},
		{"line of nobody", in(auditFIFO, row.KindLine), last, "this line row stands for nothing"},
		{"line of another time", in(auditFIFO, row.KindLine), func(m rowMap, k string) { m[k] = string(row.EncodeLine(nil, 7)) }, "this line row says"},
		{"line of the founder", in(auditDeadF, row.KindGroup), func(m rowMap, k string) {
			g, _ := row.DecodeGroup([]byte(m[k]))
			stored, _ := row.DecodeQueue([]byte(m[string(row.QueueKey(auditDeadF))]))
			name, _ := row.GroupOf([]byte(k))
			m[string(row.LineKey(stored.Space, name, g.Founder))] = string(row.EncodeLine(nil, g.First.Sent))
		}, "with which its group began"},
		{"group held since a message that is to come", first("group"), func(m rowMap, _ string) {
			for _, k := range m.ofKind("group") {
				if g, _ := row.DecodeGroup([]byte(m[k])); g.IsHeld() {
					g.Held += 1000
					m[k] = string(g.Encode(nil))
				}
			}
		}, "is held since message"},
		{"slot of a message that is not there", in(auditHeld, row.KindGroup), func(m rowMap, k string) {
			g, _ := row.DecodeGroup([]byte(m[k]))
			g.Front[0].Seq += 1000
			m[k] = string(g.Encode(nil))
		}, "which is not there or does not hold it"},
		{"slots that older programs do not know", first("system"), func(m rowMap, k string) {
			s, _ := row.DecodeSystem([]byte(m[k]))
			s.Holds = false
			m[k] = string(s.Encode(nil))
		}, "does not keep out programs"},
		{"hold removed", first("hold"), remove, "which is not there or does not hold it"},
		{"hold of another group", first("hold"), func(m rowMap, k string) {
			h, _ := row.DecodeHold([]byte(m[k]))
			h.Group = "other"
			m[k] = string(h.Encode(nil))
		}, "which is not there or does not hold it"},
		{"hold of nobody", first("hold"), last, "which is no dead letter of group"},
		{"hold cut", first("hold"), cut, "this hold row cannot be read"},
		{"head removed", in(auditFIFO, row.KindHead), remove, "it has no head row"},
		{"head of nobody", in(auditFIFO, row.KindHead), last, "this head row stands for nothing"},
		{"head of another group", in(auditFIFO, row.KindHead), func(m rowMap, k string) { m[k] = string(row.EncodeHead(nil, "nobody")) }, "this head row says"},
		{"fair removed", first("fair"), remove, "the queue is fair, and this row is not there"},
		{"fair cut", first("fair"), cut, "this fair row cannot be read"},
		{"fair from another message", first("fair"), inFair(func(f *row.Fair) { f.From-- }), "group"},
		{"fair from a message that is to come", first("fair"), inFair(func(f *row.Fair) { f.From += 100 }), "and the next message is"},
		{"fair with one too few before", first("fair"), inFair(func(f *row.Fair) { f.Before-- }), "were there before, and there are"},
		{"fair that reads turns from too late", first("fair"), inFair(func(f *row.Fair) { f.TurnLow.At += 1 << 50 }), "where reading begins"},
		{"fair that has forgotten deliveries", first("fair"), inFair(func(f *row.Fair) { f.Serves = 1 }), "was served by delivery"},
		{"fair in a queue that is not", first("fair"), func(m rowMap, k string) {
			stored, _ := row.DecodeQueue([]byte(m[string(row.QueueKey(auditPlain))]))
			m[string(row.FairKey(stored.Space))] = m[k]
		}, "and the queue is not fair"},
		{"tenant removed", func(m rowMap) string { return m.ofKind("tenant")[1] }, remove, "in a group that is not there"},
		{"tenant cut", first("tenant"), cut, "this tenant row cannot be read"},
		{"tenant with one more waiting", first("tenant"), inTenant(func(v *row.Tenant) { v.Waiting++ }), "messages wait, and it has"},
		{"tenant with one more in flight", first("tenant"), inTenant(func(v *row.Tenant) { v.InFlight++ }), "the groups count other messages"},
		{"tenant with one more delayed", first("tenant"), inTenant(func(v *row.Tenant) { v.Delayed++ }), "the groups count other messages"},
		{"tenant that was served at another time", first("tenant"), inTenant(func(v *row.Tenant) { v.Served.At-- }), "it has no turn row"},
		{"tenant that reads from too late", func(m rowMap) string { return m.ofKind("tenant")[1] }, inTenant(func(v *row.Tenant) { v.Low.At += 1 << 40 }),
			"where reading begins"},
		{"tenant with another first message", func(m rowMap) string { return m.ofKind("tenant")[1] }, inTenant(func(v *row.Tenant) { v.Low.At--; v.Front = row.FrontFresh }),
			"says that its first message is"},
		{"waiting removed", first("waiting"), remove, "it has no waiting row"},
		{"waiting of nobody", first("waiting"), last, "this waiting row stands for nothing"},
		{"waiting in another place", first("waiting"), func(m rowMap, k string) { m[k] = string(row.EncodeWaiting(nil, true)) }, "this waiting row says"},
		{"turn removed", first("turn"), remove, "it has no turn row"},
		{"turn of nobody", first("turn"), last, "this turn row stands for nothing"},
		{"turn of another group", first("turn"), func(m rowMap, k string) { m[k] = string(row.EncodeHead(nil, "nobody")) }, "this turn row says"},
		{"dedup removed", in(auditFIFO, row.KindDedup), remove, "is not remembered"},
		{"dedup of another minute", in(auditFIFO, row.KindDedup), func(m rowMap, k string) {
			d, _ := row.DecodeDedup([]byte(m[k]))
			d.At -= row.DedupBucket
			m[k] = string(d.Encode(nil))
		}, "and of the time"},
		{"state that knows of no answers to sends", in(auditPlain, row.KindState), inState(func(s *row.State) { s.AgainTo-- }), "and the state knows of those from"},
		{"state with an answer after all", in(auditPlain, row.KindState), inState(func(s *row.State) { s.AgainLate += 60_000 }), "came before a first attempt"},
		{"again of another minute", first("again"), func(m rowMap, k string) {
			r, a := row.ReadAgain([]byte(m[k])), row.Again{}
			r.Next(&a)
			a.At -= row.DedupBucket
			m[k] = string(row.AppendAgain(row.BeginAgain(nil, a.At), a.At, &a))
		}, "and of the time"},
		{"again of a message to come", first("again"), last, "and the next one is to be"},
		{"again in a FIFO queue", first("again"), func(m rowMap, k string) {
			fifo := in(auditFIFO, row.KindState)(m)
			m[fifo[:row.SpacePrefixLen-1]+k[row.SpacePrefixLen-1:]] = m[k]
		}, "is no standard queue"},
		{"again of another version", first("again"), version, "this again row cannot be read"},
		{"again cut", first("again"), cut, "this again row cannot be read"},
		{"dedup longer", in(auditFIFO, row.KindDedup), longer, "this dedup row cannot be read"},
		{"origin removed", first("origin"), remove, "it has no origin row"},
		{"origin of nobody", first("origin"), last, "this origin row stands for nothing"},
		{"origin of another version", first("origin"), version, "this origin row cannot be read"},
		{"elder removed before another", first("elder"), func(m rowMap, k string) {
			all := m.ofKind("elder")
			delete(m, all[len(all)-1])
		}, "it has no elder row"},
		{"elder of nobody", first("elder"), last, "this elder row stands for nothing"},
		{"elder cut", first("elder"), cut, "this elder row cannot be read"},
		{"story removed", first("story"), remove, "it says that the message has a story row"},
		{"story of nobody", first("story"), last, "which is not there"},
		{"story cut", first("story"), cut, "this story row cannot be read"},
		{"story of another version", first("story"), version, "this story row cannot be read"},
		{"story of a message that does not know of it", in(auditDead, row.KindMessage), func(m rowMap, k string) {
			m[k[:row.SpacePrefixLen-1]+string(byte(row.KindStory))+k[row.SpacePrefixLen:]] = m[m.ofKind("story")[0]]
		}, "which does not know of it"},
		{"story of a later receive", first("story"), func(m rowMap, k string) {
			s, _ := row.DecodeStory([]byte(m[k]))
			s.Generation += 9
			m[k] = string(s.Encode(nil))
		}, "and the latest one is"},
		{"delivery that was released and says nothing of it", in(auditPlain, row.KindDelivery), inDelivery(func(d *row.Delivery) { d.Generation, d.Story = 2, false; d.Receives = 1 }), "of them here"},
		{"moved removed", first("moved"), remove, "it has no moved row for the id"},
		{"moved cut", first("moved"), cut, "this moved row cannot be read"},
		{"moved of another id", first("moved"), last, "which does not need this row"},
		{"moved to nowhere", first("moved"), func(m rowMap, k string) {
			_, at, _ := row.DecodeMoved([]byte(k), []byte(m[k]))
			at.Seq += 1000
			m[k] = string(row.EncodeMoved(nil, at))
		}, "which is not there"},
		{"moved to a space that is not there", first("moved"), func(m rowMap, k string) {
			s, _ := row.DecodeSystem([]byte(m[string(row.SystemKey())]))
			s.Fallen, s.Swept = false, row.MessageID{}
			m[string(row.SystemKey())] = string(s.Encode(nil))
			m[string(row.MovedKey(row.MessageID{1}))] = string(row.EncodeMoved(nil, row.Place{Space: 1 << 20, Seq: 1}))
		}, "which is not there"},
		{"message that has not moved", in(auditDead, row.KindMessage), inMeta(func(m *row.Meta) { m.Away = false }), "and its message row says false"},
		{"owner removed", first("owner"), remove, "the queue has no owner row"},
		{"owner cut", first("owner"), cut, "this owner row cannot be read"},
		{"owner of another queue", first("owner"), func(m rowMap, k string) { m[k] = string(row.EncodeOwner(nil, auditFIFO)) }, "it names queue"},
		{"bucket removed", first("bucket"), remove, "this row is in no bucket of the history"},
		{"bucket cut", first("bucket"), cut, "this history bucket row cannot be read"},
		{"bucket with another count", first("bucket"), inBucket(func(b *row.Bucket) { b.Count++ }), "the bucket counts"},
		{"bucket with another size", first("bucket"), inBucket(func(b *row.Bucket) { b.Bytes-- }), "the bucket counts"},
		{"bucket that ends before its outcomes", first("bucket"), inBucket(func(b *row.Bucket) { b.From, b.Until = b.From-1, b.Until-1 }), "it is outcome"},
		{"bucket that begins before its outcomes", first("bucket"), inBucket(func(b *row.Bucket) { b.From-- }), "and its outcomes are from"},
		{"bucket that ends after the stop", first("bucket"), inBucket(func(b *row.Bucket) { b.Until += 1 << 40 }), "the latest time there can be"},
		{"outcome removed", first("outcome"), remove, "the bucket counts"},
		{"outcome cut", first("outcome"), cut, "cannot be read"},
		{"outcome of another version", first("outcome"), version, "this outcome row cannot be read"},
		{"outcome before another", func(m rowMap) string { return m.ofKind("outcome")[1] }, inOutcome(func(o *row.Outcome) { o.Ended-- }), "and should be number"},
		{"outcome of another group", first("outcome"), inOutcome(func(o *row.Outcome) { o.Group = "other" }), "the bucket counts"},
		{"outcome of another lineage", first("outcome"), inOutcome(func(o *row.Outcome) { o.ID, o.Lineage = row.MessageID{9}, row.MessageID{9} }), "it has no row in the index"},
		{"outcome content removed", first("outcome content"), remove, "and that is not there"},
		{"outcome content with a letter changed", first("outcome content"), func(m rowMap, k string) { m[k] = m[k][:len(m[k])-1] + "?" }, "whose MD5 was noted"},
		{"history index removed", first("history index"), remove, "the bucket counts"},
		{"history index of another version", first("history index"), version, "this history index row cannot be read"},
		{"history index of nobody", first("history index"), func(m rowMap, k string) { m[k[:len(k)-1]+"\x77"] = m[k]; delete(m, k) }, "this row of the index stands for nothing"},
		{"history of a queue without one", first("queue"), func(m rowMap, k string) {
			q, _ := row.DecodeQueue([]byte(m[k]))
			q.Tags = nil
			m[k] = string(q.Encode(nil))
		}, "the history of a queue that keeps none"},
		{"history row of an unknown kind", first("outcome"), func(m rowMap, k string) { m[k[:len(k)-9]+"\x07x"] = "" }, "of no kind that there is"},
		{"history row without a queue", first("outcome"), func(m rowMap, k string) { m["\x11x"] = "" }, "of no kind that there is"},
		{"row of an unknown family", first("system"), func(m rowMap, _ string) { m["\x0fx"] = "" }, "of no kind that there is"},
		{"row of an unknown family behind all", first("system"), func(m rowMap, _ string) { m["\xffx"] = "" }, "of no kind that there is"},
		{"row of an unknown kind", first("state"), func(m rowMap, k string) { m[k[:9]+"\x12"] = "" }, "of no kind that there is"},
		{"space of nobody", first("state"), func(m rowMap, k string) { m[string(row.StateKey(7777))] = m[k] }, "which no queue has"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := maps.Clone(clean)
			tt.harm(m, tt.row(m))
			findings, _ := m.audit()
			var texts []string
			for _, f := range findings {
				texts = append(texts, f.Text)
			}
			if !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, tt.finds) }) {
				t.Errorf("found %q, want one with %q", texts, tt.finds)
			}
		})
	}
}

// A single row is damaged at random, thousands of times. Damage that is not found must be one of
// the few values that no other row confirms. [DUR-29]
func TestAuditFindsRandomDamage(t *testing.T) {
	seed := proof.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	clean := everyKind(t)
	keys := slices.Sorted(maps.Keys(clean))
	trials := 6000
	if testing.Short() {
		trials = 600
	}
	tried, found, missed := map[string]int{}, map[string]int{}, map[string]int{}
	for range trials {
		m := maps.Clone(clean)
		k := keys[rng.IntN(len(keys))]
		var what string
		switch v := []byte(m[k]); rng.IntN(3) {
		case 0:
			what = "row deleted"
			delete(m, k)
		case 1:
			what = "byte changed"
			v[rng.IntN(len(v))] ^= byte(1 + rng.IntN(255))
			m[k] = string(v)
		case 2:
			what = "row under another key"
			at := rng.IntN(len(k))
			other := []byte(k)
			other[at] ^= byte(1 + rng.IntN(255))
			if other[0] == 0 || m[string(other)] != "" {
				continue
			}
			m[string(other)] = m[k]
		}
		tried[what]++
		if findings, _ := m.audit(); len(findings) > 0 {
			found[what]++
			continue
		}
		missed[what+", "+kindOf(k)]++
		if what == "row deleted" && !slices.Contains([]string{"secret", "task", "dedup", "again", "queue", "elder", "system", "document", "record", "action"}, kindOf(k)) {
			t.Errorf("a %s row was deleted and nobody misses it: %x", kindOf(k), k)
		}
		if what == "row under another key" && !slices.Contains([]string{"dedup", "again", "task", "queue", "document", "record"}, kindOf(k)) {
			t.Errorf("a second %s row of the same contents as %x is nothing to anybody", kindOf(k), k)
		}
	}
	t.Logf("tried %v, found %v, missed %v", tried, found, missed)
	for what, n := range tried {
		if found[what]*10 < n*7 {
			t.Errorf("%s: found %d of %d", what, found[what], n)
		}
	}
}

// Findings show keys and what is wrong with a row, but never the content of messages.
func TestAuditShowsNoBodies(t *testing.T) {
	clean := everyKind(t)
	for _, k := range slices.Sorted(maps.Keys(clean)) {
		for at := range min(len(clean[k]), 200) {
			m := maps.Clone(clean)
			v := bytes.Clone([]byte(m[k]))
			v[at] ^= 0x11
			m[k] = string(v)
			findings, _ := m.audit()
			for _, f := range findings {
				if strings.Contains(f.Text, "xxxx") || strings.Contains(f.Text, fmt.Sprintf("%x", "xxxx")) {
					t.Fatalf("byte %d of a %s row: %s", at, kindOf(k), f.Text)
				}
			}
		}
	}
}
