package engine

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"
)

// A sample is a row whose bytes are kept in testdata/formats. What is in that file was written by some
// version of this program and has to be readable for ever: lines are added to it, never changed.
type sample struct {
	name  string
	key   []byte
	value []byte // nil for an encoding that is read and no longer written
	read  func(k, v []byte) (any, bool)
	want  any
}

var (
	sampleID       = [16]byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x46, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	sampleIncarned = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	sampleName     = QueueName{Account: "000000000000", Name: "orders"}
	sampleSpace    = uint64(0x0102030405060708)
	sampleTime     = int64(1767225600123)
)

type namedQueue struct {
	name QueueName
	row  queueRow
}

type readMeta struct {
	meta   meta
	inline string
}

func samples() []sample {
	queue := queueRow{
		incarnation: sampleIncarned,
		space:       sampleSpace,
		created:     sampleTime,
		modified:    sampleTime + 1,
		purged:      sampleTime + 2,
		attributes: Attributes{
			DelaySeconds:                  5,
			MaximumMessageSize:            1 << 20,
			MessageRetentionPeriod:        345600,
			ReceiveMessageWaitTimeSeconds: 20,
			VisibilityTimeout:             30,
			KmsMasterKeyID:                "alias/a",
			KmsDataKeyReusePeriodSeconds:  300,
			SqsManagedSseEnabled:          true,
		},
		tags: []Tag{{Key: "cost", Value: ""}, {Key: "team", Value: "größer"}},
	}
	grave := queueRow{deleted: sampleTime}
	fifo := queue
	fifo.attributes.FIFO, fifo.attributes.ContentBasedDeduplication = true, true
	fifo.attributes.GroupScope, fifo.attributes.GroupLimit = true, true
	fifo.attributes.Redrive = Redrive{Target: QueueName{Account: "000000000000", Name: "dead.fifo"}, MaxReceives: 1000}
	fifo.attributes.RedriveAllow = `{"redrivePermission":"denyAll"}`
	guarded := fifo
	guarded.attributes.Policy = `{"Statement":{"Effect":"Allow","Principal":"*","Action":"sqs:SendMessage"}}`
	st := state{
		nextSeq:   300,
		lastFresh: 298,
		cursor:    200,
		mixed:     210,
		segment:   1,
		dueLow:    pos{at: sampleTime, seq: 17},
		settled:   lastAt(sampleTime),
		boot:      3,
		live:      100,
		delayed:   7,
		inFlight:  -1, // never, but the sign has its bit
	}
	fifoState := st
	fifoState.originLow = pos{at: sampleTime, seq: 18}
	fifoState.headLow = [2]pos{{at: sampleTime, seq: 19}, {at: sampleTime + 1, seq: 20}}
	fifoState.counted = seqRange{290, 300}
	fifoState.buckets = []int64{sampleTime/dedupBucket - 1, sampleTime / dedupBucket}
	elders := fifoState
	elders.elderLow = pos{at: sampleTime - 7, seq: 21}
	sys := system{nextSpace: 9, boot: 3, clean: true, stamp: sampleTime, hidden: sampleTime + 43200000, graceFrom: 1, graceUntil: 2}
	held := sys
	sys.nextTask = 1 // what a row of version 1 does not have
	held.heldFrom, held.nextTask, held.heldUntil = sampleTime-3, 17, maxTime
	noted := held
	noted.heldUntil = sampleTime + 600000
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
	plain := newMeta(17, sampleID, sampleTime, 11)
	plain.flags = flagInline
	moved := meta{
		seq:        18,
		flags:      flagScheduled | flagBase | flagLineage | flagHistory | flagGroup | flagDedup | flagSource,
		id:         sampleID,
		sent:       sampleTime,
		size:       1 << 20,
		base:       sampleTime - 1000,
		arrived:    sampleTime - 1000,
		lineage:    sampleIncarned,
		generation: 2,
		redrives:   3,
		firstSent:  sampleTime - 2000,
		group:      "customer-7",
		dedup:      "d1",
		source:     "arn:aws:sqs:us-east-1:000000000000:orders",
	}
	arrived := moved
	arrived.arrived = sampleTime + 3000
	flight := delivery{at: sampleTime, kind: dueInFlight, receives: 300, generation: 301,
		firstReceive: sampleTime - 2, lastReceive: sampleTime - 1, apart: true}
	dead := delivery{at: sampleTime, kind: dueReturned, receives: 3, firstReceive: sampleTime - 2,
		lastReceive: sampleTime - 1, origin: true, changed: true}
	elder := flight
	elder.elder = true
	line1 := groupRow{count: 3, first: line{seq: 17, sent: sampleTime}, class: headPlaced, at: sampleTime + 1, last: line{seq: 19, sent: sampleTime + 2}, founder: 16, placed: 18}
	sent := dedupEntry{at: sampleTime, id: sampleID, sequence: 17}
	received := dedupEntry{at: sampleTime, deliveries: []attempted{{seq: 17, generation: 1}, {seq: 18, generation: 300}}}
	moves := task{number: 5, source: sampleName, id: sampleID, destination: QueueName{Account: "000000000000", Name: "jobs"}, rate: 10,
		started: sampleTime, status: taskFailed, failure: failureTimeout, moved: 7, toMove: 9, limit: 12, due: sampleTime * 1000, stepped: sampleTime + 1}
	seg := segment{first: 4097, sent: sampleTime, live: 4095}
	p := pos{at: sampleTime, seq: 17}

	message := func(k, v []byte) (any, bool) {
		m, inline, ok := decodeMeta(seqOf(k), v)
		return readMeta{m, string(inline)}, ok
	}
	queueOf := func(k, v []byte) (any, bool) {
		name, ok := queueNameOf(k)
		row, known := decodeQueueRow(v)
		return namedQueue{name, row}, ok && known
	}
	return []sample{
		{"system", systemKey(), nil, readSystem, sys},
		{"system-2", systemKey(), nil, readSystem, held},
		{"system-3", systemKey(), nil, readSystem, held},
		{"system-4", systemKey(), nil, readSystem, held},
		{"system-5", systemKey(), noted.encode(nil), readSystem, noted},
		{"queue", queueKey(sampleName), nil, queueOf, namedQueue{sampleName, queue}},
		{"queue-2", queueKey(sampleName), nil, queueOf, namedQueue{sampleName, fifo}},
		{"queue-3", queueKey(sampleName), guarded.encode(nil), queueOf, namedQueue{sampleName, guarded}},
		{"grave", queueKey(sampleName), nil, queueOf, namedQueue{sampleName, grave}},
		{"grave-2", queueKey(sampleName), nil, queueOf, namedQueue{sampleName, grave}},
		{"grave-3", queueKey(sampleName), grave.encode(nil), queueOf, namedQueue{sampleName, grave}},
		{"state", stateKey(sampleSpace), nil, readState, st},
		{"state-2", stateKey(sampleSpace), nil, readState, fifoState},
		{"state-3", stateKey(sampleSpace), elders.encode(nil), readState, elders},
		{"message", seqKey(sampleSpace, kindMessage, 17), plain.encode(nil, []byte("content")), message, readMeta{plain, "content"}},
		{"message-moved", seqKey(sampleSpace, kindMessage, 18), moved.encode(nil, nil), message, readMeta{moved, ""}},
		{"message-arrived", seqKey(sampleSpace, kindMessage, 18), arrived.encode(nil, nil), message, readMeta{arrived, ""}},
		{"content", seqKey(sampleSpace, kindContent, 18), content.encode(),
			func(_, v []byte) (any, bool) { return any2(decodeContent(v)) }, content},
		{"delivery", seqKey(sampleSpace, kindDelivery, 17), flight.encode(nil),
			func(_, v []byte) (any, bool) { return any2(decodeDelivery(v)) }, flight},
		{"due", dueIndex.key(sampleSpace, p), []byte{byte(dueReturned)}, func(k, v []byte) (any, bool) {
			return entry[dueKind]{posOf(k[spacePrefixLen:]), dueKind(v[0])}, dueKind(v[0]).known()
		}, entry[dueKind]{p, dueReturned}},
		{"segment", seqKey(sampleSpace, kindSegment, 1), seg.encode(nil),
			func(_, v []byte) (any, bool) { return any2(decodeSegment(v)) }, seg},
		{"delivery-dead", seqKey(sampleSpace, kindDelivery, 18), dead.encode(nil),
			func(_, v []byte) (any, bool) { return any2(decodeDelivery(v)) }, dead},
		{"delivery-elder", seqKey(sampleSpace, kindDelivery, 17), elder.encode(nil),
			func(_, v []byte) (any, bool) { return any2(decodeDelivery(v)) }, elder},
		{"group", groupKey(sampleSpace, "customer-7"), line1.encode(nil),
			func(_, v []byte) (any, bool) { return any2(decodeGroupRow(v)) }, line1},
		{"line", lineKey(sampleSpace, "customer-7", 18), encodeLine(nil, sampleTime), func(k, v []byte) (any, bool) {
			sent, ok := decodeLine(v)
			return line{lineSeq(k), sent}, ok
		}, line{18, sampleTime}},
		{"head", headIndexes[headPlaced].key(sampleSpace, p), encodeHead(nil, "customer-7"), func(k, v []byte) (any, bool) {
			group, ok := decodeHead(v)
			return entry[string]{posOf(k[spacePrefixLen+1:]), group}, ok
		}, entry[string]{p, "customer-7"}},
		{"dedup-send", dedupKey(sampleSpace, sampleTime/dedupBucket, dedupHash(sampleID)), sent.encode(nil),
			func(_, v []byte) (any, bool) { return any2(decodeDedup(v)) }, sent},
		{"dedup-receive", dedupKey(sampleSpace, sampleTime/dedupBucket, dedupHash(sampleID)), received.encode(nil),
			func(_, v []byte) (any, bool) { return any2(decodeDedup(v)) }, received},
		{"origin", originIndex.key(sampleSpace, p), []byte{rowVersion}, func(k, v []byte) (any, bool) {
			_, ok := originIndex.read(v)
			return posOf(k[spacePrefixLen:]), ok
		}, p},
		{"elder", elderIndex.key(sampleSpace, p), []byte{rowVersion}, func(k, v []byte) (any, bool) {
			_, ok := elderIndex.read(v)
			return posOf(k[spacePrefixLen:]), ok
		}, p},
		{"source", sourceKey(sampleName, "jobs"), []byte{rowVersion}, func(k, _ []byte) (any, bool) {
			return any2(sourceOf(k))
		}, QueueName{Account: "000000000000", Name: "jobs"}},
		{"task", taskKey(sampleName, 5), moves.encode(nil), func(k, v []byte) (any, bool) {
			t, ok := decodeTask(v)
			number, known := taskNumber(k)
			t.number, t.source = number, sampleName
			return t, ok && known
		}, moves},
		{"active", activeKey(5), encodeActive(nil, sampleName), func(k, v []byte) (any, bool) {
			_, source, ok := decodeActive(k, v)
			return source, ok
		}, sampleName},
	}
}

func readSystem(_, v []byte) (any, bool) { return any2(decodeSystem(v)) }
func readState(_, v []byte) (any, bool)  { return any2(decodeState(v)) }

func any2[T any](v T, ok bool) (any, bool) { return v, ok }

// TestFormats reads every row of testdata/formats/rows.txt as it was meant, and writes it as it was written
// if that encoding is still written.
func TestFormats(t *testing.T) {
	kept := readFormats(t, "testdata/formats/rows.txt")
	for _, s := range samples() {
		line := s.name + " " + hex.EncodeToString(s.key) + " " + hex.EncodeToString(s.value)
		row, ok := kept[s.name]
		if !ok {
			t.Errorf("%s is not among the kept rows; it would be\n%s", s.name, line)
			continue
		}
		delete(kept, s.name)
		if !bytes.Equal(s.key, row[0]) || s.value != nil && !bytes.Equal(s.value, row[1]) {
			t.Errorf("got  %s\nwant %s %x %x", line, s.name, row[0], row[1])
		}
		got, ok := s.read(row[0], row[1])
		if !ok || !reflect.DeepEqual(got, s.want) {
			t.Errorf("%s reads as %+v, %v, want %+v", s.name, got, ok, s.want)
		}
		for n := range row[1] {
			if s.name == "source" {
				break // everything is in its key
			}
			if s.name == "message" && n >= len(row[1])-len("content") {
				break // a message row ends with its content, whatever that is
			}
			if short, ok := tryRead(s, row[0], row[1][:n]); ok {
				t.Errorf("%s cut to %d bytes reads as %+v, want a refusal", s.name, n, short)
			}
		}
	}
	for name := range kept { // order does not matter: there should be none
		t.Errorf("nobody reads the kept row %s", name)
	}
}

// tryRead reads a value that may be too short for what has a fixed length.
func tryRead(s sample, k, v []byte) (any, bool) {
	if s.name == "due" {
		return nil, len(v) == 1
	}
	return s.read(k, v)
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
			if s.name == name {
				f.Add(s.value)
			}
		}
	}
	f.Add([]byte{})
	f.Add([]byte{rowVersion})
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Add(append([]byte{rowVersion}, bytes.Repeat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 4)...))
}

// again fails when what was decoded from bytes does not decode to the same from its own encoding.
func again[T any](t *testing.T, v T, encode func(T) []byte, decode func([]byte) (T, bool)) {
	t.Helper()
	if w, ok := decode(encode(v)); !ok || !reflect.DeepEqual(v, w) {
		t.Errorf("%+v encodes to what reads as %+v, %v", v, w, ok)
	}
}

func FuzzSystem(f *testing.F) {
	seed(f, "system", "system-2", "system-3", "system-4", "system-5")
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := decodeSystem(b); ok {
			again(t, s, func(s system) []byte { return s.encode(nil) }, decodeSystem)
		}
	})
}

func FuzzQueueRow(f *testing.F) {
	seed(f, "queue", "queue-2", "queue-3", "grave-2", "grave-3")
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := decodeQueueRow(b)
		if len(r.tags) > len(b)+1 {
			t.Errorf("%d tags from %d bytes", len(r.tags), len(b))
		}
		if ok {
			again(t, r, func(r queueRow) []byte { return r.encode(nil) }, decodeQueueRow)
		}
	})
}

func FuzzState(f *testing.F) {
	seed(f, "state", "state-2", "state-3")
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := decodeState(b); ok {
			again(t, s, func(s state) []byte { return s.encode(nil) }, decodeState)
		}
	})
}

func FuzzMessage(f *testing.F) {
	seed(f, "message", "message-moved", "message-arrived")
	f.Fuzz(func(t *testing.T, b []byte) {
		m, inline, ok := decodeMeta(17, b)
		if len(m.group)+len(m.dedup)+len(m.source)+len(inline) > len(b) {
			t.Errorf("%d bytes decode to more", len(b))
		}
		if !ok {
			return
		}
		// Flags of parts that have their default values are not written again.
		flags := m.flags
		again(t, m, func(m meta) []byte { return m.encode(nil, inline) }, func(b []byte) (meta, bool) {
			m, rest, ok := decodeMeta(17, b)
			m.flags = flags
			return m, ok && bytes.Equal(rest, inline)
		})
	})
}

func FuzzContent(f *testing.F) {
	seed(f, "content")
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok := decodeContent(b)
		if len(c.Attributes) > len(b)+1 || len(c.Body) > len(b) {
			t.Errorf("%d attributes and a body of %d bytes from %d bytes", len(c.Attributes), len(c.Body), len(b))
		}
		if ok {
			again(t, c, func(c Content) []byte { return c.encode() }, decodeContent)
		}
	})
}

func FuzzDelivery(f *testing.F) {
	seed(f, "delivery", "delivery-dead", "delivery-elder")
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := decodeDelivery(b); ok {
			again(t, v, func(v delivery) []byte { return v.encode(nil) }, decodeDelivery)
		}
	})
}

func FuzzSegment(f *testing.F) {
	seed(f, "segment")
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := decodeSegment(b); ok {
			again(t, s, func(s segment) []byte { return s.encode(nil) }, decodeSegment)
		}
	})
}

func FuzzKeys(f *testing.F) {
	for _, s := range samples() {
		f.Add(s.key)
	}
	f.Fuzz(func(t *testing.T, k []byte) {
		if name, ok := queueNameOf(k); ok && !bytes.Equal(queueKey(name), k) {
			t.Errorf("%x is the key of %+v, whose key is %x", k, name, queueKey(name))
		}
		seqOf(k)
		posOf(k)
	})
}

func FuzzToken(f *testing.F) {
	f.Add(sealToken("orders"))
	f.Add("garbage")
	f.Fuzz(func(t *testing.T, token string) {
		name, ok := openToken(token)
		if !ok || token == "" {
			return
		}
		if back, ok := openToken(sealToken(name)); !ok || back != name {
			t.Errorf("token %q means %q, whose token means %q", token, name, back)
		}
	})
}

func FuzzDraft(f *testing.F) {
	f.Add("hello", "color", "String", "red", []byte(nil))
	f.Add("h\xff", "a..b", "Binary.x", "", []byte{0})
	f.Add("h", "n", "Number", "-1.5e-10", []byte(nil))
	f.Fuzz(func(t *testing.T, body, name, kind, text string, raw []byte) {
		entry := Entry{
			Body: Text{Value: body, Set: true},
			Attributes: []EntryAttribute{{
				Name: name, Type: Text{Value: kind, Set: kind != ""},
				String: Text{Value: text, Set: text != ""}, Binary: raw, HasBinary: raw != nil,
			}},
		}
		d := NewDraft(entry)
		if d.noBody || d.attributes != nil || d.letters != nil {
			return
		}
		c, ok := decodeContent(d.content)
		if !ok || c.Body != body || c.Attributes[0].Name != name || c.Attributes[0].Type != kind ||
			c.Attributes[0].String != text || !bytes.Equal(c.Attributes[0].Binary, raw) {
			t.Errorf("%+v was accepted and reads as %+v, %v", entry, c, ok)
		}
		if want := int64(len(body) + len(name) + len(kind) + len(text) + len(raw)); d.Size() != want {
			t.Errorf("size %d, want %d", d.Size(), want)
		}
	})
}
