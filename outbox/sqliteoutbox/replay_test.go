package sqliteoutbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/outbox"
)

// everything is a source of all that was sent.
var everything = outbox.Source{From: time.Unix(0, 0), To: time.Unix(1<<33, 0)}

// fillSent writes n rows that were sent, a second after another from the beginning of 2026.
func fillSent(t testing.TB, db *sql.DB, n int) {
	t.Helper()
	b, err := New(Config{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		`DROP TRIGGER outbox_insert`, // which takes its time
		`INSERT INTO outbox (id, aggregatetype, aggregateid, payload)
			SELECT printf('00000000-0000-7000-8000-%012x', value), CASE WHEN value % 2 THEN 'orders.fifo' ELSE 'mails' END, value % 100, 'body ' || value FROM generate`,
		`INSERT INTO outbox_sent (id, sent_at, queue, message_id, attempts, seq)
			SELECT id, 1767225600000 + rowid * 1000, aggregatetype, 'm-' || rowid, 0, rowid FROM outbox`,
		`INSERT INTO sqlite_sequence (name, seq) SELECT 'outbox_pending', max(rowid) FROM outbox`,
		b.names.Replace(schemaSQL),
	} {
		s = strings.Replace(s, "generate", fmt.Sprintf("(WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < %d) SELECT value FROM n)", n), 1)
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func begin(t testing.TB, b *Box, s outbox.Source) outbox.Replay {
	t.Helper()
	r, err := b.BeginReplay(t.Context(), outbox.Replay{State: outbox.Preparing, Source: s, Rate: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// count is what a SELECT count(*) says.
func count(t testing.TB, db *sql.DB, from string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT count(*) FROM "+from, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", from, err)
	}
	return n
}

// A replay of messages with all that they may have says the same as the claim did, in Look and in
// Staged.
func TestReplayedContent(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	run(t, db, `INSERT INTO outbox (aggregatetype, aggregateid, payload, type, headers, group_id, dedup_id, generation, deliver_after, created_at) VALUES
		('m', 17, 42.5, 't', '{"n": 1.50, "s": "é", "l": [1, 2]}', 'g', 'd', '7', '2026-01-02 03:04:05+01:00', NULL),
		('m.fifo', '', char(10) || '"', '', '{}', '', '', NULL, julianday('now', '-1 hour'), 'some day'),
		('m', 'k', '{"a": 1}', '', NULL, NULL, NULL, 0, CURRENT_TIMESTAMP, 1)`)
	rows, _ := claimed(t, b, "r")
	if len(rows) != 3 {
		t.Fatalf("%d rows, want 3", len(rows))
	}
	want := make(map[string]outbox.Message)
	for _, r := range rows {
		want[r.ID] = r.Message
	}
	settle(t, b, "r", outbox.Sent, rows...)
	n, past, err := b.Look(t.Context(), everything, 10)
	if err != nil || n != 3 || len(past) != 3 {
		t.Fatalf("Look counts %d and returns %+v, %v", n, past, err)
	}
	r := begin(t, b, everything)
	if _, err := b.StageReplay(t.Context(), r.Number); err != nil {
		t.Fatal(err)
	}
	staged, err := b.Staged(t.Context(), r.Number, 0, 10)
	if err != nil || len(staged) != 3 {
		t.Fatalf("staged is %+v, %v", staged, err)
	}
	for i := range past {
		if got := past[i].Message; !reflect.DeepEqual(got, want[got.ID]) {
			t.Errorf("Look returns %+v, want %+v", got, want[got.ID])
		}
		if got := staged[i].Message; got.ID != past[i].ID || !reflect.DeepEqual(got, want[got.ID]) {
			t.Errorf("Staged returns %+v, want %+v", got, want[got.ID])
		}
	}
}

// A time of a source is by the millisecond, as the table has it, and not within when it is the end.
func TestBounds(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	fillSent(t, db, 3) // at :01, :02 and :03
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		from, to time.Duration
		want     int
	}{
		{time.Second, 3 * time.Second, 2},
		{time.Second, 3*time.Second + 1, 3},
		{time.Second + 1, 3*time.Second + time.Millisecond, 2},
		{time.Second - 1, 3*time.Second - 1, 2},
		{2 * time.Second, 2*time.Second + 1, 1},
		{2*time.Second + 1, 2*time.Second + 2, 0},
		{-100 * 365 * 24 * time.Hour, time.Second, 0},
	} {
		n, all, err := b.Look(t.Context(), outbox.Source{From: at.Add(tt.from), To: at.Add(tt.to)}, 10)
		if err != nil || n != tt.want || len(all) != n {
			t.Errorf("from %v to %v: %d, %v, want %d", tt.from, tt.to, n, err, tt.want)
		}
	}
	where := outbox.Source{From: at, To: at.Add(time.Hour), Where: "sent_at = '2026-01-01T00:00:02.000Z' AND sent_to = 'mails' AND message_id = 'm-2'"}
	if n, _, err := b.Look(t.Context(), where, 0); err != nil || n != 1 {
		t.Errorf("a condition about the time finds %d, %v, want 1", n, err)
	}
}

// Rows sent before rows were numbered come first, by time.
func TestOrderWithoutNumbers(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	fillSent(t, db, 6)
	run(t, db, `UPDATE outbox_sent SET seq = NULL, sent_at = sent_at + 100000 * (4 - seq) WHERE seq > 3`, `UPDATE outbox_sent SET sent_at = 1767225600000 WHERE seq < 3`)
	const want = "6 5 4 1 2 3"
	var got []string
	_, all, err := b.Look(t.Context(), everything, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		got = append(got, strings.TrimPrefix(p.Body, "body "))
	}
	r := begin(t, b, everything)
	if _, err := b.StageReplay(t.Context(), r.Number); err != nil {
		t.Fatal(err)
	}
	staged, err := b.Staged(t.Context(), r.Number, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	var noted []string
	for _, s := range staged {
		noted = append(noted, strings.TrimPrefix(s.Body, "body "))
	}
	if strings.Join(got, " ") != want || strings.Join(noted, " ") != want {
		t.Errorf("the order is %v and %v, want %s", got, noted, want)
	}
}

// Of 200,000 sent rows, a replay reads only those in its time span, with statistics and without,
// whatever the condition. Replays are found by their numbers, and the messages they send by their
// places.
func TestReplayPlans(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	rows := proof.Count(2_000, 200_000, 200_000, 200_000)
	fillSent(t, db, rows)
	for range 2 {
		for name, statement := range map[string]string{"windowCount": windowCount, "windowIDs": windowIDs, "windowFirst": windowFirst} {
			for _, where := range []string{"", "payload = 'body 17'", "id IN (SELECT id FROM outbox WHERE aggregateid = '3')", "sent_at > '2026' OR r.sent_to IS NULL"} {
				s := outbox.Source{From: everything.From, To: everything.To, Where: where, Keys: []string{"3"}}
				text, args := b.within(statement, &s)
				if name == "windowFirst" {
					args = append(args, 10)
				}
				plan := planOf(t, db, text, args...)
				if !strings.Contains(plan, "INDEX outbox_sent_at (sent_at>? AND sent_at<?)") || !strings.Contains(plan, "SEARCH o USING ") ||
					strings.Contains(plan, "SCAN o\n") || strings.Contains(plan, "SCAN s") {
					t.Errorf("%s with %q:\n%s", name, where, plan)
				}
			}
		}
		run(t, db, "ANALYZE")
	}
	rows = min(rows, 10_000)
	r := begin(t, b, outbox.Source{From: everything.From, To: time.Date(2026, 1, 1, 0, 0, rows+1, 0, time.UTC)})
	if r, err := b.StageReplay(t.Context(), r.Number); err != nil || r.Found != rows {
		t.Fatalf("%d rows are staged, %v, want %d", r.Found, err, rows)
	}
	run(t, db, "ANALYZE")
	for _, statement := range []string{oneReplay, newestOnes, stagedPlaces, unstage, untidy} {
		plan := planOf(t, db, b.sql(statement), 1, 1, 1)
		if strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "SCAN outbox_replay_rows") || strings.Contains(plan, "SCAN r") {
			t.Errorf("%s:\n%s", statement, plan)
		}
	}
	for _, place := range []int64{0, int64(rows) / 2, int64(rows) - 100} {
		staged, err := b.Staged(t.Context(), r.Number, place, 100)
		if err != nil || len(staged) != 100 || staged[0].Place != place+1 || staged[99].Body != fmt.Sprint("body ", place+100) {
			t.Errorf("behind place %d: %d rows, %v", place, len(staged), err)
		}
	}
}

func planOf(t testing.TB, db *sql.DB, statement string, args ...any) (plan string) {
	t.Helper()
	rows, err := db.Query("EXPLAIN QUERY PLAN "+statement, args[:min(len(args), max(strings.Count(statement, "?"), 0))]...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan += detail + "\n"
	}
	return plan
}

// Look and StageReplay see one moment, while rows are sent; and others write while a replay is
// staged.
func TestOneMoment(t *testing.T) {
	path := newFile(t)
	db, b, sender := connect(t, path), open(t, path), open(t, path)
	const long = 3 * stageRows
	fillSent(t, db, long)
	fill(t, path, 1500, "mails", "i")
	rows, _, err := sender.Claim(t.Context(), outbox.Claim{Relay: "r", Lease: time.Hour, Rows: 1500, Bytes: 1 << 30, Stream: 1})
	if err != nil || len(rows) != 1500 {
		t.Fatal(len(rows), err)
	}
	var sent, stop atomic.Int64
	var group sync.WaitGroup
	group.Go(func() {
		for len(rows) >= 3 && stop.Load() == 0 {
			settle(t, sender, "r", outbox.Sent, rows[0], rows[1], rows[2])
			rows = rows[3:]
			sent.Add(3)
		}
	})
	during := int64(0)
	for range 3 {
		n, all, err := b.Look(t.Context(), everything, 100_000)
		if err != nil || n != len(all) || n%3 != long%3 {
			t.Fatalf("Look counts %d and returns %d, %v", n, len(all), err)
		}
		r := begin(t, b, everything)
		before := sent.Load()
		if r, err = b.StageReplay(t.Context(), r.Number); err != nil || r.Found%3 != long%3 || r.Found < n {
			t.Fatalf("staged are %d, %v", r.Found, err)
		}
		during += (sent.Load() - before) / 3
		if got := count(t, db, "outbox_replay_rows WHERE number = ? AND id IS NOT NULL AND row IS NULL AND place BETWEEN 1 AND ?", r.Number, r.Found); got != r.Found {
			t.Fatalf("%d rows are staged, want %d", got, r.Found)
		}
	}
	stop.Store(1)
	group.Wait()
	if during < 5 && sent.Load() < 1500 {
		t.Errorf("during three stagings of %d transactions or more others wrote %d times", long/stageRows, during)
	}
}

// If many processes stage a replay at once, it sends the rows of one of them, and all of them know
// that.
func TestStageTogether(t *testing.T) {
	path := newFile(t)
	db := connect(t, path)
	fillSent(t, db, 3*stageRows)
	r := begin(t, open(t, path), everything)
	var group sync.WaitGroup
	for range 5 {
		b := open(t, path)
		group.Go(func() {
			got, err := b.StageReplay(t.Context(), r.Number)
			if err != nil || got.State != outbox.Running || got.Found != 3*stageRows || got.Version != r.Version+1 {
				t.Errorf("one of many who stage gets %+v, %v", got, err)
			}
		})
	}
	group.Wait()
	if n := count(t, db, "outbox_replay_rows AS r JOIN outbox_sent AS s USING (id) WHERE r.place = s.seq"); n != 3*stageRows || n != count(t, db, "outbox_replay_rows") {
		t.Errorf("%d rows are staged in order, want %d", n, 3*stageRows)
	}
}

// A process that was overtaken writes nothing more, and the remains of an attempt do not enter the
// next one.
func TestStageOvertaken(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	fillSent(t, db, 2*stageRows+10)
	r := begin(t, b, everything)
	late := &staging{Replay: r}
	if err := b.beginStaging(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	part := slices.Repeat([]string{"left over"}, 5*stageRows+7)
	add := func(c *sql.Conn, _ int64) error { return b.stagePart(t.Context(), c, late, part, 0) }
	if err := b.stageWrite(t.Context(), late, add); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db, "outbox_replay_rows"); n != len(part) {
		t.Fatalf("%d rows are left over, want %d", n, len(part))
	}
	got, err := open(t, path).StageReplay(t.Context(), r.Number)
	if err != nil || got.Found != 2*stageRows+10 {
		t.Fatalf("the replay is %+v, %v", got, err)
	}
	part = part[:1]
	if err := b.stageWrite(t.Context(), late, add); !errors.Is(err, outbox.ErrMoved) {
		t.Errorf("who was overtaken writes: %v, want ErrMoved", err)
	}
	if n := count(t, db, "outbox_replay_rows WHERE id <> 'left over'"); n != 2*stageRows+10 || n != count(t, db, "outbox_replay_rows") {
		t.Errorf("%d rows are staged, want %d", n, 2*stageRows+10)
	}

	// A process that continues a replay takes it over, and cancelling a replay ends its staging.
	r = begin(t, b, everything)
	late = &staging{Replay: r}
	if err := b.beginStaging(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	next, err := b.StepReplay(t.Context(), r, nil)
	if err != nil || next.State != outbox.Preparing {
		t.Fatal(next, err)
	}
	if err := b.stageWrite(t.Context(), late, add); !errors.Is(err, outbox.ErrMoved) {
		t.Errorf("who was taken over writes: %v, want ErrMoved", err)
	}
	if _, err := b.overtaken(t.Context(), r); !errors.Is(err, outbox.ErrMoved) {
		t.Errorf("who was taken over is told %v, want ErrMoved", err)
	}
	if got, err := b.StageReplay(t.Context(), next.Number); err != nil || got.State != outbox.Running || got.Version != next.Version+1 {
		t.Errorf("the replay is %+v, %v", got, err)
	}
}

// The staged rows of a replay are gone at its end, however many they are. Sweep removes those of a
// process that ended early, and leaves those of other replays.
func TestTidy(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	fillSent(t, db, 2*stageRows+10)
	other := begin(t, b, outbox.Source{Query: "SELECT 'q' AS aggregatetype, 'b' AS payload, 'd' AS dedup_id"})
	if _, err := b.StageReplay(t.Context(), other.Number); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(r outbox.Replay){
		func(r outbox.Replay) {
			r.State = outbox.Done
			if _, err := b.StepReplay(t.Context(), r, nil); err != nil {
				t.Fatal(err)
			}
		},
		func(r outbox.Replay) {
			run(t, db, fmt.Sprintf("UPDATE outbox_replays SET record = json_set(record, '$.state', 'cancelled') WHERE number = %d", r.Number))
			if n, err := b.Sweep(t.Context(), 1<<62, 1); err != nil || n != 0 {
				t.Fatal(n, err)
			}
		},
		func(r outbox.Replay) {
			run(t, db, fmt.Sprintf("DELETE FROM outbox_replays WHERE number = %d", r.Number))
			if n, err := b.Sweep(t.Context(), 1<<62, 1); err != nil || n != 0 {
				t.Fatal(n, err)
			}
			if next := begin(t, b, everything); next.Number <= r.Number {
				t.Errorf("replay %d has a number that was used", next.Number)
			}
		},
	} {
		r := begin(t, b, everything)
		r, err := b.StageReplay(t.Context(), r.Number)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := b.Sweep(t.Context(), 1<<62, 1); err != nil || n != 0 || count(t, db, "outbox_replay_rows") != 2*stageRows+11 {
			t.Fatalf("Sweep removed %d or what is staged, %v", n, err)
		}
		end(r)
		if n := count(t, db, "outbox_replay_rows"); n != 1 {
			t.Errorf("%d rows are staged after the end, want that of the other replay", n)
		}
	}
}

// A row that cannot be written takes the whole step with it.
func TestStepRefused(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	r := begin(t, b, everything)
	run(t, db, `CREATE TRIGGER no BEFORE INSERT ON outbox WHEN NEW.payload = 'bad' BEGIN SELECT RAISE(ABORT, 'not that one'); END`)
	_, err := b.StepReplay(t.Context(), r, []outbox.Message{{Queue: "q", Body: "good"}, {Queue: "q", Body: "bad"}})
	says(t, "a step with a bad row", err, "not that one")
	_, err = b.StepReplay(t.Context(), r, []outbox.Message{{Queue: "q", Body: "good"}, {Queue: "q"}})
	says(t, "a step with a row without a body", err, "message 2 of 2")
	if got, err := b.Replay(t.Context(), r.Number); err != nil || got.Version != r.Version || got.Written != 0 || count(t, db, "outbox") != 0 {
		t.Errorf("the replay is %+v, %v, want %+v and no row", got, err, r)
	}
	// Ids of which there are only traces would make the trigger complain.
	const traced = "018f0000-0000-7000-8000-00000000000"
	run(t, db, `INSERT INTO outbox_pending (id, queue, head, bytes, due) VALUES ('`+traced+`1', 'q', 0, 0, 0)`,
		`INSERT INTO outbox_sent (id, sent_at, attempts) VALUES ('`+traced+`2', 0, 0)`)
	r, err = b.StepReplay(t.Context(), r, []outbox.Message{{ID: traced + "1", Queue: "q", Body: "b"}, {ID: traced + "2", Queue: "q", Body: "b"}})
	if err != nil || r.Written != 0 {
		t.Fatalf("a step with ids that were there writes %d rows, %v", r.Written, err)
	}
	run(t, db, "DELETE FROM outbox_pending")
	// A relay that waits wakes up for what is written.
	if _, _, err := b.Claim(t.Context(), outbox.Claim{Relay: "r", Rows: 1, Bytes: 1, Stream: 1}); err != nil {
		t.Fatal(err)
	}
	if r, err = open(t, path).StepReplay(t.Context(), r, []outbox.Message{{Queue: "q.fifo", Key: "k", Body: "good"}}); err != nil || r.Written != 1 {
		t.Fatal(r, err)
	}
	if err := b.Wait(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, bodies := claimed(t, b, "r"); bodies != "good" {
		t.Errorf("%q was claimed, want the row of the replay", bodies)
	}
}

// A stager that is killed leaves a replay that is staged by the next.
func TestStagersKilled(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	rows := 4*stageRows + rand.IntN(stageRows)
	fillSent(t, db, rows)
	r := begin(t, b, everything)
	if r.Number != 1 {
		t.Fatalf("the first replay is %d", r.Number)
	}
	kills := proof.Count(2, 5, 5, 50)
	for range kills {
		c := start(t, "stager", path)
		time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond)
		c.kill(t)
		if n := count(t, db, "outbox_replay_rows"); n%stageRows != 0 && n != rows {
			t.Errorf("a stager that was killed left %d of %d rows", n, rows)
		}
	}
	r, err := b.StageReplay(t.Context(), r.Number)
	if err != nil || r.State != outbox.Running || r.Found != rows {
		t.Errorf("the replay is %+v, %v", r, err)
	}
	if n := count(t, db, "outbox_replay_rows AS r JOIN outbox_sent AS s USING (id) WHERE r.place = s.seq"); n != rows || n != count(t, db, "outbox_replay_rows") {
		t.Errorf("%d rows are staged in order, want %d", n, rows)
	}
}

// beStager stages the first replay.
func beStager(path string) error {
	b, err := New(Config{Path: path})
	if err != nil {
		return err
	}
	defer b.Close()
	_, err = b.StageReplay(context.Background(), 1)
	return err
}

// version1 makes an outbox as it was before there were replays, with rows that wait and rows that
// were sent.
func version1(t *testing.T) (path string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "schema1.sql"))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "business.db")
	db := connect(t, path)
	n, err := namesOf("")
	if err != nil {
		t.Fatal(err)
	}
	run(t, db, n.replacer().Replace(strings.ReplaceAll(string(text), "{{schema}}", "1")),
		`INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('q.fifo', 'k', 'one'), ('q.fifo', 'k', 'two'), ('q.fifo', 'k', 'three'), ('q.fifo', 'k', 'four')`,
		`INSERT INTO outbox_sent (id, sent_at, queue, message_id, attempts) SELECT id, 1767225600000 - seq, 'q.fifo', 'm', 0 FROM outbox_pending WHERE seq < 3`,
		`DELETE FROM outbox_pending WHERE seq < 3`)
	return path
}

// An outbox of version 1 is upgraded with its rows, by one of many processes, and by hand.
func TestMigrateVersion1(t *testing.T) {
	for _, how := range []string{"Migrate", "Schema"} {
		t.Run(how, func(t *testing.T) {
			path := version1(t)
			db, b := connect(t, path), open(t, path)
			for name, err := range calls(t.Context(), b) {
				if !errors.Is(err, outbox.ErrSchema) {
					t.Errorf("%s with tables of version 1: %v", name, err)
				}
			}
			if how == "Migrate" {
				var group sync.WaitGroup
				for range 8 {
					b := open(t, path)
					group.Go(func() {
						if err := b.Migrate(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				group.Wait()
			} else {
				_, err := db.Exec(b.names.Replace(schemaSQL))
				says(t, "Schema over tables of version 1", err, "no such column: seq")
				if v, err := b.version(t.Context(), db); err != nil || v != 1 {
					t.Fatalf("after that the version is %d, %v", v, err)
				}
				run(t, db, "BEGIN; ALTER TABLE outbox_sent ADD COLUMN seq INTEGER; "+b.names.Replace(schemaSQL)+"COMMIT", b.names.Replace(schemaSQL))
			}
			// A relay of version 1 that still runs sends the next row.
			run(t, db, `INSERT OR REPLACE INTO outbox_sent (id, sent_at, queue, message_id, attempts)
				SELECT id, 1767225600000 + 17, 'q.fifo', 'm', attempts FROM outbox_pending WHERE seq = 3`, `DELETE FROM outbox_pending WHERE seq = 3`)
			rows, bodies := claimed(t, b, "r")
			if bodies != "four" {
				t.Fatalf("%q was claimed, want four", bodies)
			}
			settle(t, b, "r", outbox.Sent, rows...)
			_, all, err := b.Look(t.Context(), everything, 10)
			var got []string
			for _, p := range all {
				got = append(got, p.Body)
			}
			if err != nil || strings.Join(got, " ") != "two one three four" { // two was sent before one, by the times
				t.Errorf("Look finds %v, %v, want two, one, three and four", got, err)
			}
		})
	}
}
