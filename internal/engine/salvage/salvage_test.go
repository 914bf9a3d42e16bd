package salvage_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/engine/enginetest"
	"tenaq/internal/engine/row"
	"tenaq/internal/engine/salvage"
	"tenaq/internal/engine/verify"
	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
)

// scriptSteps is the length of one random script.
const scriptSteps = 400

// A memoryDisk loses what was not forced when it stops.
type memoryDisk struct{ store *kv.Memory }

func (d *memoryDisk) Open() kv.Store { return d.store }

func (d *memoryDisk) Stop(clean bool) {
	if !clean {
		d.store = d.store.Crash(0)
	}
}

// A rowSet is the rows of a store.
type rowSet map[string]string

func rowsIn(store kv.Store) rowSet {
	rows := rowSet{}
	for k, v := range store.Scan(nil, nil) {
		rows[string(k)] = string(v)
	}
	return rows
}

// salvage makes a store of those rows that Salvage wants, and completes it.
func (r rowSet) salvage() (kv.Store, salvage.Result) {
	store := kv.NewMemory()
	b := store.NewBatch()
	for k, v := range r {
		if salvage.Takes([]byte(k)) {
			b.Set([]byte(k), []byte(v))
		}
	}
	b.Force()()
	return store, salvage.Complete(store)
}

// A loss is a way in which rows may be missing, or be older than they were.
type loss struct {
	name string
	do   func(rng *rand.Rand, rows, earlier rowSet)
}

// run picks neighbours among the keys.
func run(rng *rand.Rand, keys []string) []string {
	if len(keys) == 0 {
		return nil
	}
	from := rng.IntN(len(keys))
	return keys[from:min(len(keys), from+1+rng.IntN(max(1, len(keys)/4)))]
}

func keysOf(rows rowSet, prefix string) (keys []string) {
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	return keys
}

var losses = []loss{
	{"nothing", func(*rand.Rand, rowSet, rowSet) {}},
	{"neighbours", func(rng *rand.Rand, rows, _ rowSet) {
		for _, k := range run(rng, keysOf(rows, "")) {
			delete(rows, k)
		}
	}},
	{"single rows", func(rng *rand.Rand, rows, _ rowSet) {
		for _, k := range keysOf(rows, "") {
			if rng.IntN(10) == 0 {
				delete(rows, k)
			}
		}
	}},
	{"older versions", func(rng *rand.Rand, rows, earlier rowSet) {
		all := maps.Clone(rows)
		maps.Copy(all, earlier)
		for _, k := range run(rng, keysOf(all, "")) {
			if v, ok := earlier[k]; ok {
				rows[k] = v // what was removed since is back
			} else {
				delete(rows, k)
			}
		}
	}},
	{"the newest of everything", func(_ *rand.Rand, rows, earlier rowSet) {
		clear(rows)
		maps.Copy(rows, earlier)
	}},
	{"the row of the store", func(_ *rand.Rand, rows, _ rowSet) { delete(rows, "\x01") }},
	{"the catalogue", func(_ *rand.Rand, rows, _ rowSet) {
		for _, k := range keysOf(rows, "\x02") {
			delete(rows, k)
		}
	}},
	{"states", func(_ *rand.Rand, rows, _ rowSet) {
		for k := range rows {
			if len(k) == 10 && k[0] == 0x10 && k[9] == 1 {
				delete(rows, k)
			}
		}
	}},
	{"deliveries", func(_ *rand.Rand, rows, _ rowSet) {
		for k := range rows {
			if len(k) == 18 && k[0] == 0x10 && k[9] == 4 {
				delete(rows, k)
			}
		}
	}},
}

// If any rows are lost or outdated, the rest makes a store without findings, which has every
// message whose rows were all saved. If a store lost nothing, nothing is missing. [DUR-36]
func TestSalvage(t *testing.T) {
	seed, scripts := proof.Seed(t), proof.Count(5, 20, 20, 200)
	messages := 0
	for n := range uint64(scripts) {
		disk := &memoryDisk{store: kv.NewMemory()}
		g := enginetest.NewGenerator(seed + n)
		w := enginetest.NewWorld(enginetest.Variant{Turn: 1 + int(n%7), Disk: func() enginetest.Disk { return disk }})
		p := enginetest.NewPlayer(w)
		var earlier rowSet
		for i := range scriptSteps {
			step := g.Next(p.Receipts())
			if _, err := p.Play(step); err != nil {
				t.Fatalf("seed %d, step %d, %s: %v", seed+n, i, step, err)
			}
			if i == scriptSteps*3/4 {
				earlier = rowsIn(disk.store)
			}
		}
		sound := rowsIn(disk.store)
		w.Close()
		rng := rand.New(rand.NewPCG(seed+n, 1))
		for _, l := range losses {
			rows := maps.Clone(sound)
			l.do(rng, rows, earlier)
			store, out := rows.salvage()
			where := fmt.Sprintf("seed %d, lost %s", seed+n, l.name)
			found := 0
			audited := verify.Verifier{Store: store, Found: func(f verify.Finding) {
				if found++; found <= 3 {
					t.Errorf("%s: queue %v, row %x: %s", where, f.Queue, f.Key, f.Text)
				}
			}}.Run()
			kept, lost := int64(0), int64(0)
			for _, q := range out.Queues {
				kept, lost = kept+q.Kept, lost+q.Lost
			}
			messages += int(kept)
			if kept != audited.Messages || len(out.Queues) != int(audited.Queues) {
				t.Errorf("%s: %d messages in %d queues, and it says %d in %d", where, audited.Messages, audited.Queues, kept, len(out.Queues))
			}
			if l.name == "nothing" && (lost > 0 || out.Lost > 0) {
				t.Errorf("%s: %+v", where, out)
			}
			wantKept(t, where, rows, sound, store)
		}
	}
	if messages == 0 {
		t.Error("there was no message in any store")
	}
}

// Messages with the same deduplication id, which were sent while the scope of deduplication
// changed, are all remembered, whichever of their rows are lost. The rows that are left stay.
// [DUR-36]
func TestSalvageOfScopes(t *testing.T) {
	for _, scope := range []string{"queue", "messageGroup"} {
		disk := &memoryDisk{store: kv.NewMemory()}
		w := enginetest.NewWorld(enginetest.Variant{Disk: func() enginetest.Disk { return disk }})
		p := enginetest.NewPlayer(w)
		for _, step := range []string{
			"create q=f.fifo FifoQueue=true DeduplicationScope=messageGroup",
			"send q=f.fifo body=a group=g2 dedup=d",
			"set q=f.fifo DeduplicationScope=queue",
			"send q=f.fifo body=b group=g1 dedup=d",
			"set q=f.fifo DeduplicationScope=messageGroup",
			"send q=f.fifo body=c group=g1 dedup=d",
			"send q=f.fifo body=d group=g1 dedup=other",
			"set q=f.fifo DeduplicationScope=" + scope,
		} {
			if answer, err := p.Play(enginetest.Step{Text: step}); err != nil || strings.Contains(answer, "duplicate") {
				t.Fatalf("%s: %s%v", step, answer, err)
			}
		}
		sound := rowsIn(disk.store)
		w.Close()
		var remembered []string
		for _, k := range keysOf(sound, string(rune(row.FamilySpace))) {
			if k[row.SpacePrefixLen-1] == byte(row.KindDedup) {
				remembered = append(remembered, k)
			}
		}
		if len(remembered) != 4 {
			t.Fatalf("%d rows remember sends, want 4", len(remembered))
		}
		for lost := range 1 << len(remembered) {
			rows := maps.Clone(sound)
			for i, k := range remembered {
				if lost>>i&1 == 1 {
					delete(rows, k)
				}
			}
			store, _ := rows.salvage()
			where := fmt.Sprintf("scope %s, lost %04b", scope, lost)
			verify.Verifier{Store: store, Found: func(f verify.Finding) {
				t.Errorf("%s: row %x: %s", where, f.Key, f.Text)
			}}.Run()
			for _, k := range remembered {
				if v, ok := rows[k]; ok && rowsIn(store)[k] != v {
					t.Errorf("%s: row %x was replaced", where, k)
				}
			}
		}
	}
}

// A message that was parked behind its own queue entered through due and has no source. It is kept
// on both types of queue, and what the queue remembers of its send stays as it is.
// [NACK-20, DUR-36]
func TestSalvageOfParked(t *testing.T) {
	for _, steps := range [][]string{{
		"create q=f.fifo FifoQueue=true",
		"send q=f.fifo body=a group=g dedup=1",
		"send q=f.fifo body=b group=g dedup=2",
		"receive q=f.fifo",
		"replace q=f.fifo r=r1 body=c park to=f.fifo",
	}, {
		"create q=s", "send q=s body=a", "send q=s body=b", "receive q=s", "replace q=s r=r1 body=c park to=s",
	}} {
		disk := &memoryDisk{store: kv.NewMemory()}
		w := enginetest.NewWorld(enginetest.Variant{Disk: func() enginetest.Disk { return disk }})
		p := enginetest.NewPlayer(w)
		for _, step := range steps {
			if answer, err := p.Play(enginetest.Step{Text: step}); err != nil || strings.Contains(answer, "error") {
				t.Fatalf("%s: %s%v", step, answer, err)
			}
		}
		sound := rowsIn(disk.store)
		w.Close()
		store, out := sound.salvage()
		if q := out.Queues[0]; q.Kept != 2 || q.Lost != 0 || q.Forgotten != 0 {
			t.Errorf("%s: %+v, want two messages kept and nothing lost", steps[0], q)
		}
		if err := enginetest.Audit(store); err != nil {
			t.Errorf("%s: %v", steps[0], err)
		}
		wantKept(t, steps[0], sound, sound, store)
		for k, v := range rowsIn(store) {
			if dedup := k[0] == row.FamilySpace && k[row.SpacePrefixLen-1] == byte(row.KindDedup); dedup && sound[k] != v {
				t.Errorf("%s: row %x remembers another send", steps[0], k)
			}
		}
	}
}

// A salvage ends holds, because dead letters may be lost. A message that has come back keeps its
// place, if it and its group row can be read. [HOLD-11]
func TestSalvageOfHeldGroups(t *testing.T) {
	disk := &memoryDisk{store: kv.NewMemory()}
	w := enginetest.NewWorld(enginetest.Variant{Disk: func() enginetest.Disk { return disk }})
	p := enginetest.NewPlayer(w)
	for _, step := range []string{
		"create q=d.fifo FifoQueue=true",
		"create q=f.fifo FifoQueue=true redrive=(d.fifo, 1) tags=(tenaq:fifo-on-dead-letter=hold-group)",
		"fill q=f.fifo n=9 body=x groups=1 dedups",
		"receive q=f.fifo max=3 vt=0",
		"receive q=f.fifo",
		"replace q=d.fifo m=m1 body=x",
		"receive q=f.fifo vt=0",
		"receive q=f.fifo",
		"replace q=d.fifo m=m10 body=x",
		"fill q=f.fifo n=2 body=x groups=1 dedups",
		"release q=f.fifo group=g1",
	} {
		if answer, err := p.Play(enginetest.Step{Text: step}); err != nil {
			t.Fatalf("%s: %s%v", step, answer, err)
		}
	}
	sound := rowsIn(disk.store)
	w.Close()
	groups := func(rows rowSet) (found []row.Group) {
		for k, v := range rows {
			if len(k) > row.SpacePrefixLen && k[0] == row.FamilySpace && k[row.SpacePrefixLen-1] == byte(row.KindGroup) {
				g, _ := row.DecodeGroup([]byte(v))
				found = append(found, g)
			}
		}
		return found
	}
	if first := groups(sound)[0].First.Seq; first != 11 {
		t.Fatalf("message %d is the first, want 11: the one that came back", first)
	}
	for _, harm := range []string{"nothing", "the group row", "the message in front"} {
		rows, before := maps.Clone(sound), groups(sound)[0]
		want := before.First.Seq
		for k := range rows {
			kind := row.Kind(k[min(len(k), row.SpacePrefixLen)-1])
			switch {
			case k[0] != row.FamilySpace:
			case harm == "the group row" && kind == row.KindGroup, harm == "the message in front" && kind == row.KindMessage && row.SeqOf([]byte(k)) == want:
				delete(rows, k)
			}
		}
		if harm != "nothing" {
			want = 2
		}
		store, _ := rows.salvage()
		if err := enginetest.Audit(store); err != nil {
			t.Errorf("lost %s: %v", harm, err)
		}
		after := groups(rowsIn(store))
		if len(after) != 1 || after[0].IsHeld() || after[0].First.Seq != want {
			t.Errorf("lost %s: before %+v, after %+v, want message %d first, and no hold", harm, before, after, want)
		}
	}
}

// wantKept compares the salvaged messages with those whose rows were all saved.
func wantKept(t *testing.T, where string, rows, sound rowSet, store kv.Store) {
	const messageKind, contentKind = 2, 3
	for k, v := range rows {
		if len(k) != 18 || k[0] != 0x10 || k[9] != messageKind || sound[k] != v {
			continue // it was there at the end, and not only before
		}
		content := []byte(k)
		content[9] = contentKind
		if c, apart := sound[string(content)]; apart && rows[string(content)] != c {
			continue
		}
		got, ok := store.Get(nil, []byte(k))
		if !ok || !bytes.Equal(got, []byte(v)) {
			t.Errorf("%s: message %x is not in the store", where, k)
		}
	}
}

// Records that can be read are kept with their versions and their expiry, and no later write is
// given a version that was given before. [REC-2, DUR-36]
func TestSalvageOfRecords(t *testing.T) {
	disk := &memoryDisk{store: kv.NewMemory()}
	p := enginetest.NewPlayer(enginetest.NewWorld(enginetest.Variant{Window: 16, Disk: func() enginetest.Disk { return disk }}))
	for _, text := range []string{
		"record-put k=kept v=1", "record-put k=short v=1 ttl=1h", "record-put k=damaged v=1 ttl=1h", "record-put k=lost v=1",
	} {
		if _, err := p.Play(enginetest.Step{Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	all := rowsIn(disk.store)
	account := "000000000000"
	read := func(rows kv.Store, key string) (row.Record, bool) {
		v, ok := rows.Get(nil, row.RecordKey(row.RecordName{Account: account, Key: key}))
		r, known := row.DecodeRecord(v)
		return r, ok && known
	}
	last, _ := read(disk.store, "lost")
	delete(all, string(row.RecordKey(row.RecordName{Account: account, Key: "lost"})))
	damaged := string(row.RecordKey(row.RecordName{Account: account, Key: "damaged"}))
	all[damaged] = all[damaged][:3]
	for _, without := range []string{"", string(row.RecordsKey()), "\x01"} {
		rows := maps.Clone(all)
		delete(rows, without)
		store, out := rows.salvage()
		if out.Records != 2 || out.LostRecords != 1 {
			t.Errorf("without %x: %d records kept and %d lost, want 2 and 1", without, out.Records, out.LostRecords)
		}
		if err := enginetest.Audit(store); err != nil {
			t.Errorf("without %x: %v", without, err)
		}
		for _, key := range []string{"kept", "short"} {
			want, _ := read(disk.store, key)
			if got, ok := read(store, key); !ok || got.Version != want.Version || got.Expires != want.Expires {
				t.Errorf("without %x: %s is %+v, want %+v", without, key, got, want)
			}
		}
		v, _ := store.Get(nil, row.RecordsKey())
		if sum, ok := row.DecodeRecords(v); !ok || sum.Last <= last.Version {
			t.Errorf("without %x: the last version is %d, and %d was given", without, sum.Last, last.Version)
		}
	}
}

// A schedule keeps the time at which it is due. One that has lost it is due at its first tick after
// the last time that the store knows. Rows of no schedule are removed. [SCHED-12]
func TestSalvageOfSchedules(t *testing.T) {
	queue := row.QueueName{Account: "000000000000", Name: "jobs"}
	stored := row.Queue{Space: 1, Created: 1, Modified: 1, Attributes: row.DefaultAttributes(),
		Tags: []row.Tag{{Key: "tenaq:schedule", Value: "@every 1m"}, {Key: "tenaq:schedule.lost", Value: "@every 1m"},
			{Key: "tenaq:schedule.wrong", Value: "@every 1m"}}}
	sys := row.System{NextSpace: 2, NextTask: 1, Stamp: 90_000}
	schedule := func(name string, next int64) row.Schedule {
		return row.Schedule{Queue: queue, Name: name, Next: next}
	}
	rows := rowSet{string(row.SystemKey()): string(sys.Encode(nil)),
		string(row.QueueKey(queue)): string(stored.Encode(nil))}
	for _, s := range []row.Schedule{schedule("default", 60_000), schedule("wrong", 60_001),
		schedule("gone", 60_000)} {
		rows[string(s.Key())] = string(s.Encode(nil))
	}
	store, _ := rows.salvage()
	family := row.Family(row.FamilySchedule)
	var got []row.Schedule
	for k, v := range store.Scan(family.Lo, family.Hi) {
		s, ok := row.ScheduleOf(k, v)
		if !ok {
			t.Fatalf("the row %x cannot be read", k)
		}
		got = append(got, s)
	}
	want := []row.Schedule{schedule("default", 60_000), schedule("lost", 120_000), schedule("wrong", 120_000)}
	if !slices.Equal(got, want) {
		t.Errorf("the schedules are %v, want %v", got, want)
	}
}

// Readable answers to earlier sends are kept, so that retries are recognized, even if the state of
// their queue is lost. [AGAIN-4, DUR-36]
func TestSalvageOfRetries(t *testing.T) {
	disk := &memoryDisk{store: kv.NewMemory()}
	w := enginetest.NewWorld(enginetest.Variant{Disk: func() enginetest.Disk { return disk }})
	p := enginetest.NewPlayer(w)
	for _, step := range []string{"create q=s", "send q=s body=a call=1 try=1", "send q=s body=b call=2 try=2",
		"advance 2m", "send q=s body=c call=3 try=1", "advance 2m", "send q=s body=d call=4 try=2"} {
		if answer, err := p.Play(enginetest.Step{Text: step}); err != nil || strings.Contains(answer, "again") {
			t.Fatalf("%s: %s%v", step, answer, err)
		}
	}
	sound := rowsIn(disk.store)
	w.Close()
	var state string
	var answers []string
	for _, k := range keysOf(sound, string(rune(row.FamilySpace))) {
		switch row.Kind(k[row.SpacePrefixLen-1]) {
		case row.KindState:
			state = k
		case row.KindAgain:
			answers = append(answers, k)
		}
	}
	if len(answers) != 4 {
		t.Fatalf("%d rows of answers, want 4", len(answers))
	}
	for name, harm := range map[string]func(rowSet){ // order does not matter: each is for itself
		"nothing": func(rowSet) {},
		"state":   func(rows rowSet) { delete(rows, state) },
		"answer":  func(rows rowSet) { rows[answers[1]] = rows[answers[1]][:9] },
	} {
		rows := maps.Clone(sound)
		harm(rows)
		store, _ := rows.salvage()
		verify.Verifier{Store: store, Found: func(f verify.Finding) {
			t.Errorf("%s lost: row %x: %s", name, f.Key, f.Text)
		}}.Run()
		got := rowsIn(store)
		for _, k := range answers {
			if _, kept := got[k]; kept != (rows[k] == sound[k]) {
				t.Errorf("%s lost: the row %x is kept: %v", name, k, kept)
			}
		}
		st, _ := row.DecodeState([]byte(got[state]))
		if st.AgainLate == 0 || st.AgainTo == 0 {
			t.Errorf("%s lost: first attempts that arrive late are not looked up", name)
		}
	}
}
