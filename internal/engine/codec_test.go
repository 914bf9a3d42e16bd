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
	value []byte
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
	st := state{
		nextSeq:   300,
		lastFresh: 298,
		cursor:    200,
		mixed:     210,
		segment:   1,
		dueLow:    duePos{at: sampleTime, seq: 17},
		settled:   lastAt(sampleTime),
		boot:      3,
		live:      100,
		delayed:   7,
		inFlight:  -1, // never, but the sign has its bit
	}
	sys := system{nextSpace: 9, boot: 3, clean: true, stamp: sampleTime, hidden: sampleTime + 43200000, graceFrom: 1, graceUntil: 2}
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
		lineage:    sampleIncarned,
		generation: 2,
		redrives:   3,
		firstSent:  sampleTime - 2000,
		group:      "customer-7",
		dedup:      "d1",
		source:     "arn:aws:sqs:us-east-1:000000000000:orders",
	}
	flight := delivery{at: sampleTime, kind: dueInFlight, receives: 300, generation: 301,
		firstReceive: sampleTime - 2, lastReceive: sampleTime - 1, apart: true}
	seg := segment{first: 4097, sent: sampleTime, live: 4095}
	p := duePos{at: sampleTime, seq: 17}

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
		{"system", systemKey(), sys.encode(nil), func(_, v []byte) (any, bool) {
			return any2(decodeSystem(v))
		}, sys},
		{"queue", queueKey(sampleName), queue.encode(nil), queueOf, namedQueue{sampleName, queue}},
		{"grave", queueKey(sampleName), grave.encode(nil), queueOf, namedQueue{sampleName, grave}},
		{"state", stateKey(sampleSpace), st.encode(nil), func(_, v []byte) (any, bool) { return any2(decodeState(v)) }, st},
		{"message", seqKey(sampleSpace, kindMessage, 17), plain.encode(nil, []byte("content")), message, readMeta{plain, "content"}},
		{"message-moved", seqKey(sampleSpace, kindMessage, 18), moved.encode(nil, nil), message, readMeta{moved, ""}},
		{"content", seqKey(sampleSpace, kindContent, 18), content.encode(),
			func(_, v []byte) (any, bool) { return any2(decodeContent(v)) }, content},
		{"delivery", seqKey(sampleSpace, kindDelivery, 17), flight.encode(nil),
			func(_, v []byte) (any, bool) { return any2(decodeDelivery(v)) }, flight},
		{"due", dueKey(sampleSpace, p), []byte{byte(dueReturned)}, func(k, v []byte) (any, bool) {
			return dueEntry{duePosOf(k), dueKind(v[0])}, dueKind(v[0]).known()
		}, dueEntry{p, dueReturned}},
		{"segment", seqKey(sampleSpace, kindSegment, 1), seg.encode(nil),
			func(_, v []byte) (any, bool) { return any2(decodeSegment(v)) }, seg},
	}
}

func any2[T any](v T, ok bool) (any, bool) { return v, ok }

// TestFormats reads every row of testdata/formats/v1.txt as it was meant, and writes it as it was written.
func TestFormats(t *testing.T) {
	kept := readFormats(t, "testdata/formats/v1.txt")
	for _, s := range samples() {
		line := s.name + " " + hex.EncodeToString(s.key) + " " + hex.EncodeToString(s.value)
		row, ok := kept[s.name]
		if !ok {
			t.Errorf("%s is not among the kept rows; it would be\n%s", s.name, line)
			continue
		}
		delete(kept, s.name)
		if !bytes.Equal(s.key, row[0]) || !bytes.Equal(s.value, row[1]) {
			t.Errorf("got  %s\nwant %s %x %x", line, s.name, row[0], row[1])
		}
		got, ok := s.read(row[0], row[1])
		if !ok || !reflect.DeepEqual(got, s.want) {
			t.Errorf("%s reads as %+v, %v, want %+v", s.name, got, ok, s.want)
		}
		for n := range row[1] {
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
	seed(f, "system")
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := decodeSystem(b); ok {
			again(t, s, func(s system) []byte { return s.encode(nil) }, decodeSystem)
		}
	})
}

func FuzzQueueRow(f *testing.F) {
	seed(f, "queue", "grave")
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
	seed(f, "state")
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := decodeState(b); ok {
			again(t, s, func(s state) []byte { return s.encode(nil) }, decodeState)
		}
	})
}

func FuzzMessage(f *testing.F) {
	seed(f, "message", "message-moved")
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
	seed(f, "delivery")
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
		duePosOf(k)
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
