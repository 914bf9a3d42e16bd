package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/claims"
	"tenaq/internal/testing/pgtest"
	box "tenaq/outbox"
	"tenaq/outbox/outboxtest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The first version and the mended one are alike, and the wrong one is not.
func TestTranscode(t *testing.T) {
	files := make(map[int][]byte)
	for _, version := range []int{firstVersion, wrongVersion, nextVersion} {
		file, err := transcode(version, tone("film-1", 2))
		must(t, err)
		rate, sound, err := parseWAV(file)
		must(t, err)
		if rate != sampleRate/2 || len(sound) != samples/2 {
			t.Errorf("version %d: %d samples at %d Hz, want %d at %d", version, len(sound), rate, samples/2, sampleRate/2)
		}
		files[version] = file
	}
	if !bytes.Equal(files[firstVersion], files[nextVersion]) || bytes.Equal(files[firstVersion], files[wrongVersion]) {
		t.Error("the wrong version is as good as the others, or those are not alike")
	}
	if bytes.Equal(tone("film-1", 1), tone("film-1", 2)) || bytes.Equal(tone("film-1", 1), tone("film-2", 1)) {
		t.Error("two videos sound alike, and nobody could tell whose file is where")
	}
	for _, bad := range [][]byte{nil, []byte("RIFF"), tone("film-1", 1)[:100]} {
		if _, err := transcode(firstVersion, bad); err == nil {
			t.Errorf("%d bytes of a file are transcoded", len(bad))
		}
	}
}

// Whatever the seed, everything happens in the storm as often as it should.
func TestStormHasAllFates(t *testing.T) {
	for seed := range uint64(200) {
		for _, scale := range []Scale{Full, Small} {
			d := &demo{Config: Config{Seed: seed, Scale: scale}}
			uploads := d.stormy()
			fates, jobs := make(map[fate]int), make(map[string]bool)
			for _, u := range uploads {
				fates[u.Fate]++
				jobs[u.Job] = true
				if u.Worker != plain {
					fates[u.Worker]++
				}
				if u.Fate != plain && u.Worker != plain || u.Ordered && u.Fate != plain && u.Fate != rolledBack {
					t.Errorf("seed %d: nobody can count on %+v", seed, u)
				}
			}
			n := scale.Plain + scale.Films*scale.Versions
			want := map[fate]int{
				diesRow: 1, diesOutbox: 1, diesCommit: 1, late: Lates, rolledBack: rollbacks, diesHalf: 1, diesWritten: 1, diesRecorded: 1,
				plain: n - UploadDeaths - Lates - rollbacks,
			}
			for f, times := range want {
				if fates[f] != times {
					t.Errorf("seed %d: %d times %q, want %d", seed, fates[f], f, times)
				}
			}
			if len(jobs) != n {
				t.Errorf("seed %d: %d jobs, want %d", seed, len(jobs), n)
			}
			if last := slices.IndexFunc(uploads, func(u upload) bool { return u.Fate == late }); last > n/2 {
				t.Errorf("seed %d: the first late upload is number %d of %d", seed, last, n)
			}
		}
	}
}

// open makes a database of either kind.
func open(t *testing.T, server bool) *database {
	t.Helper()
	dir, address := t.TempDir(), ""
	if server {
		address = pgtest.URL(t)
	}
	made, drop, err := makeDatabase(t.Context(), dir, address, t.Logf)
	must(t, err)
	t.Cleanup(func() { must(t, drop(context.Background())) })
	db, err := openDatabase(t.Context(), dir, made)
	must(t, err)
	t.Cleanup(db.close)
	return db
}

// each runs a test on both kinds of database.
func each(t *testing.T, test func(t *testing.T, db *database)) {
	t.Run("SQLite", func(t *testing.T) { test(t, open(t, false)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, open(t, true)) })
}

// An upload writes a job and its row, or neither, and once however often it is asked for.
func TestUploadIsOneTransaction(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		points := &ear{}
		task := &Task{Name: "upload-1", Role: roleUpload, Stage: points.listen(t)}
		for _, u := range []upload{
			{Job: "job-1", Video: "film-1", Ordered: true},
			{Job: "job-2", Video: "film-1", Ordered: true, Fate: rolledBack},
			{Job: "job-1", Video: "film-1", Ordered: true}, // again
			{Job: "job-3", Video: "film-1", Ordered: true},
			{Job: "job-4", Video: "video-of-job-4", Fate: late},
			{Job: "job-5", Video: "video-of-job-5", Fate: diesOutbox},
		} {
			must(t, task.uploadOne(t.Context(), db, u))
		}
		rows, err := db.QueryContext(t.Context(), `SELECT job_id || ' ' || version || ' ' || aggregatetype || ' ' || aggregateid
			FROM jobs FULL JOIN outbox ON dedup_id = job_id ORDER BY job_id`)
		must(t, err)
		defer rows.Close()
		var got []string
		for rows.Next() {
			var s string
			must(t, rows.Scan(&s))
			got = append(got, s)
		}
		must(t, rows.Err())
		want := []string{
			"job-1 1 transcode.fifo film-1", "job-3 2 transcode.fifo film-1",
			"job-4 1 transcode video-of-job-4", "job-5 1 transcode video-of-job-5",
		}
		if !slices.Equal(got, want) {
			t.Errorf("jobs and rows are %q, want %q", got, want)
		}
		if want := []point{pointCommit, pointCommit, pointCommit, pointLate, pointCommit, pointOutbox}; !slices.Equal(points.heard(), want) {
			t.Errorf("the stage heard %q, want %q", points.heard(), want)
		}
	})
}

// A later generation outranks an earlier one, and within one the larger fence does.
func TestRecordKeepsTheLatest(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		ctx := t.Context()
		_, err := db.ExecContext(ctx, `INSERT INTO jobs (job_id, video_id, version, status) VALUES ('job-1', 'video-1', 1, 'pending')`)
		must(t, err)
		w := work{Job: "job-1", Video: "video-1", Version: 1}
		acquire := func(key string) *claims.Claim {
			claim, err := db.ledger.Acquire(ctx, key)
			must(t, err)
			return claim
		}
		late := acquire("elsewhere") // its fence is smaller than the next one
		must(t, db.record(ctx, w, "job-1", 0, firstVersion, acquire("job-1")))
		must(t, db.record(ctx, w, "job-1#1", 1, nextVersion, acquire("job-1#1")))
		for _, generation := range []int{0, 1} {
			if err := db.record(ctx, w, "job-1", generation, wrongVersion, late); !errors.Is(err, errStale) {
				t.Errorf("a late worker of generation %d is told %v, want %v", generation, err, errStale)
			}
		}
		n, err := db.count(ctx, `SELECT count(*) FROM jobs WHERE status = 'done' AND transcoder = $1 AND generation = 1`, nextVersion)
		must(t, err)
		times, err := db.count(ctx, `SELECT count(*) FROM transcodes`)
		must(t, err)
		if n != 1 || times != 2 {
			t.Errorf("%d jobs are as the last generation left them, and %d transcodes; want 1 and 2", n, times)
		}
		if db.server {
			entry, err := db.ledger.Entry(ctx, "job-1#1")
			must(t, err)
			if entry.State != claims.Completed {
				t.Errorf("the claim is %s, want it completed in the transaction", entry.State)
			}
		}
	})
}

// Without leases two relays have the same rows, and what either of them marks is marked.
func TestUnleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := outboxtest.NewMemory()
		must(t, memory.Enqueue(box.Message{ID: box.NewID(), Queue: plainQueue, Key: "video-1", Body: "{}", Dedup: "job-1"}))
		one, two := newUnleased(memory), newUnleased(memory)
		take := func(u *unleased) []box.Row {
			rows, _, err := u.Claim(t.Context(), box.Claim{Relay: "its own name", Lease: time.Hour, Rows: 10, Bytes: 1 << 20, Stream: 1})
			must(t, err)
			return rows
		}
		first := take(one)
		time.Sleep(5 * time.Millisecond) // the lease is over by then
		second := take(two)
		if len(first) != 1 || len(second) != 1 || first[0].ID != second[0].ID {
			t.Fatalf("they have %v and %v, want the same row", first, second)
		}
		time.Sleep(5 * time.Millisecond)
		if again := take(one); len(again) != 0 {
			t.Errorf("the first one takes what it has: %v", again)
		}
		if ids, err := one.Renew(t.Context(), "its own name", time.Hour); err != nil || !slices.Equal(ids, []string{first[0].ID}) {
			t.Errorf("it is told that it has %v, error %v", ids, err)
		}
		must(t, one.Settle(t.Context(), "its own name", []box.Outcome{{ID: first[0].ID, Fate: box.Sent}}))
		stats, err := memory.Stats(t.Context())
		must(t, err)
		if stats.Pending != 0 {
			t.Errorf("%d rows are pending, want none", stats.Pending)
		}
	})
}

// A relay tells of each step, and says which jobs it is about.
func TestWatchedBox(t *testing.T) {
	memory := outboxtest.NewMemory()
	points := &ear{}
	task := &Task{Name: "relay-1", Role: roleRelay, Stage: points.listen(t)}
	b := &watchedBox{Box: memory, t: task, jobs: make(map[string]string)}
	claim := func() []box.Row {
		rows, _, err := b.Claim(t.Context(), box.Claim{Relay: "r", Lease: time.Minute, Rows: 10, Bytes: 1 << 20, Stream: 1})
		must(t, err)
		return rows
	}
	claim()
	must(t, memory.Enqueue(box.Message{ID: box.NewID(), Queue: plainQueue, Key: "video-1", Body: "{}", Dedup: "job-1"}))
	rows := claim()
	must(t, b.Settle(t.Context(), "r", []box.Outcome{{ID: rows[0].ID, Fate: box.Sent}}))
	if want := []point{pointClaiming, pointClaiming, pointClaimed, pointSettled}; !slices.Equal(points.heard(), want) {
		t.Errorf("the stage heard %q, want %q", points.heard(), want)
	}
	for _, r := range points.reports[2:] {
		if !slices.Equal(r.Jobs, []string{"job-1"}) || r.Name != "relay-1" {
			t.Errorf("the stage heard %+v, want it to be about job-1", r)
		}
	}
}

// An ear stands for the stage.
type ear struct {
	mu      sync.Mutex
	reports []report
}

func (e *ear) listen(t *testing.T) (url string) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
		var r report
		if err := json.NewDecoder(in.Body).Decode(&r); err != nil {
			t.Error(err)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.reports = append(e.reports, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func (e *ear) heard() (points []point) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.reports {
		points = append(points, r.Point)
	}
	return points
}
