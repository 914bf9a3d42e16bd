package outboxtest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/outbox"
)

// Cases of a history. Rows have words as in the other cases.

func (e *env) open() outbox.History {
	e.Helper()
	h, ok := e.Open(e).(outbox.History)
	if !ok {
		e.Fatal("the box is no outbox.History")
	}
	return h
}

// sentAlready commits rows, has them sent, and says between which times that was.
func (e *env) sentAlready(h outbox.History, words string) (from, to time.Time) {
	e.Helper()
	e.put(words)
	e.ask(h, outbox.Claim{Relay: "r"})
	from = time.Now().Add(e.jumped - slack)
	e.sent(h, "r", words)
	e.sleep(2*slack + 2*time.Millisecond)
	return from, time.Now().Add(e.jumped - slack)
}

func wordsOf[T any](all []T, word func(T) string) string {
	var words []string
	for _, one := range all {
		words = append(words, word(one))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// look checks what a source has, in the order of the alphabet.
func (e *env) look(h outbox.History, s outbox.Source, want string) []outbox.Past {
	e.Helper()
	count, all, err := h.Look(e.ctx, s, 1000)
	if err != nil {
		e.Fatalf("look: %v", err)
	}
	if got := wordsOf(all, func(p outbox.Past) string {
		return p.Body
	}); got != want || count != len(all) {
		e.Fatalf("Look found %q, and counts %d; want %q", got, count, want)
	}
	var walked []outbox.Past
	if err := h.Walk(e.ctx, s, func(p outbox.Past) error {
		walked = append(walked, p)
		return nil
	}); err != nil || !reflect.DeepEqual(walked, all) {
		e.Fatalf("Walk goes to %+v, %v; want what Look found, %+v", walked, err, all)
	}
	if err := h.Walk(e.ctx, s, func(outbox.Past) error {
		return errEnough
	}); len(all) > 0 && !errors.Is(err, errEnough) {
		e.Fatalf("Walk returns %v, want the error that ended it", err)
	}
	return all
}

var errEnough = errors.New("enough")

func (e *env) begin(h outbox.History, s outbox.Source) outbox.Replay {
	e.Helper()
	r, err := h.BeginReplay(e.ctx,
		outbox.Replay{State: outbox.Preparing, Source: s, Rate: 10, Runner: "me"})
	if err != nil {
		e.Fatalf("begin: %v", err)
	}
	return r
}

func (e *env) stage(h outbox.History, number int64, found int) outbox.Replay {
	e.Helper()
	r, err := h.StageReplay(e.ctx, number)
	if err != nil {
		e.Fatalf("stage: %v", err)
	}
	if r.State != outbox.Running || r.Found != found {
		e.Fatalf("the replay is %s with %d messages, want it running with %d", r.State, r.Found,
			found)
	}
	return r
}

// staged checks what is staged behind a place, in its order.
func (e *env) staged(
	h outbox.History, number, place int64, limit int, want string,
) []outbox.Staged {
	e.Helper()
	all, err := h.Staged(e.ctx, number, place, limit)
	if err != nil {
		e.Fatalf("staged: %v", err)
	}
	var words []string
	for _, s := range all {
		switch word := e.words[s.ID]; {
		case s.Gone:
			words = append(words, "-"+word)
		case s.Body != word:
			e.Errorf("what is staged has the ID of %q and the body %q", word, s.Body)
		default:
			words = append(words, word)
		}
		if s.Place <= place {
			e.Errorf("the place %d is not behind %d", s.Place, place)
		}
		place = s.Place
	}
	if got := strings.Join(words, " "); got != want {
		e.Fatalf("staged is %q, want %q", got, want)
	}
	return all
}

func (e *env) step(h outbox.History, r outbox.Replay, rows ...outbox.Message) outbox.Replay {
	e.Helper()
	next, err := h.StepReplay(e.ctx, r, rows)
	if err != nil {
		e.Fatalf("step: %v", err)
	}
	return next
}

// A source has what was sent within its time, and of that what its filters let through.
func testLook(e *env) {
	h, other := e.open(), e.open()
	m := e.message("x")
	m.Headers, m.Type, m.Dedup, m.Key, m.Generation = map[string]string{"h": "é"}, "t", "d", "17", 3
	m2 := e.message("w")
	m2.Type, m2.Group = "u", "g"
	e.enqueue(true, m, m2)
	from, to := e.sentAlready(h, "a1 a2 y")
	from2, to2 := e.sentAlready(h, "z b1")
	e.put("later a3 never")
	e.claim(h, outbox.Claim{Relay: "r2"}, "a3, later, never")
	e.park(h, "r2", "never")
	e.look(h, outbox.Source{From: from, To: to}, "a1 a2 y")
	e.look(h, outbox.Source{From: from2, To: to2}, "b1 z")
	e.look(other, outbox.Source{From: from, To: to2}, "a1 a2 b1 y z")
	e.look(h, outbox.Source{From: from, To: from}, "")

	e.sent(h, "r", "x w")
	e.sleep(2 * slack)
	end := time.Now().Add(e.jumped)
	s := outbox.Source{From: to2, To: end}
	all := e.look(other, s, "w x")
	i := slices.IndexFunc(all, func(p outbox.Past) bool { return p.Body == "x" })
	e.same(outbox.Row{Message: all[i].Message}, m)
	if p := all[i]; p.SentTo != "the-queue" || p.MessageID != "m-x" || p.SentAt.Before(s.From) ||
		!p.SentAt.Before(s.To) {
		e.Errorf("it was sent to %q as %q at %v", p.SentTo, p.MessageID, p.SentAt)
	}
	s.From = from
	for _, tt := range []struct {
		s    outbox.Source
		want string
	}{
		{outbox.Source{Queues: []string{fifoQueue}}, "a1 a2 b1"},
		{outbox.Source{Queues: []string{fifoQueue, plainQueue}}, "a1 a2 b1 w x y z"},
		{outbox.Source{Queues: []string{"the-queue"}}, ""},
		{outbox.Source{Types: []string{"t", "u"}}, "w x"},
		{outbox.Source{Types: []string{""}}, "a1 a2 b1 y z"},
		{outbox.Source{Keys: []string{"a", "17"}}, "a1 a2 x"},
		{outbox.Source{Keys: []string{"a", "k"}, Queues: []string{plainQueue},
			Types: []string{"", "u"}}, "w y z"},
	} {
		tt.s.From, tt.s.To = from, end
		e.look(h, tt.s, tt.want)
	}
	count, first, err := h.Look(e.ctx, s, 3)
	if err != nil || count != 7 || len(first) != 3 {
		e.Errorf("Look for 3 samples counts %d and returns %d, with error %v; want 7 and 3", count,
			len(first), err)
	}
	if _, first, err := h.Look(e.ctx, s, 0); err != nil || len(first) != 0 {
		e.Errorf("Look for no samples returns %d, with error %v", len(first), err)
	}
}

// Nothing is there, nothing is found.
func testLookNowhere(e *env) {
	h := e.open()
	e.look(h, outbox.Source{From: time.Unix(0, 0), To: time.Now().Add(e.jumped + long)}, "")
	for _, number := range []int64{-1, 0, 1, 1 << 40} {
		if _, err := h.Replay(e.ctx, number); !errors.Is(err, outbox.ErrNoReplay) {
			e.Errorf("replay %d: %v, want ErrNoReplay", number, err)
		}
		if _, err := h.StageReplay(e.ctx, number); !errors.Is(err, outbox.ErrNoReplay) {
			e.Errorf("stage replay %d: %v, want ErrNoReplay", number, err)
		}
		if _, err := h.StepReplay(e.ctx, outbox.Replay{Number: number, Version: 1},
			nil); !errors.Is(err, outbox.ErrNoReplay) {
			e.Errorf("step of replay %d: %v, want ErrNoReplay", number, err)
		}
	}
	if all, err := h.Replays(e.ctx, 10); err != nil || len(all) != 0 {
		e.Errorf("Replays of an empty outbox: %v, %v", all, err)
	}
}

// A replay is written down as it is, under a number of its own, and found again.
func testBegin(e *env) {
	h, other := e.open(), e.open()
	want := outbox.Replay{
		State: outbox.Preparing, MissingOnly: true, Lane: "lane", Rate: 2.5, Generation: 7, By: "é",
		Note: "it's \"why\"", Runner: "me",
		Source: outbox.Source{
			From: time.Unix(1, 5000).UTC(), To: time.Unix(2, 0).UTC(),
			Queues: []string{"a", "b"}, Types: []string{""}, Keys: []string{"k"}, Where: "1 = 1",
		},
	}
	from := time.Now().Add(e.jumped - slack)
	first, err := h.BeginReplay(e.ctx, want)
	if err != nil {
		e.Fatal(err)
	}
	if first.Created.Before(from) || first.Created.After(time.Now().Add(e.jumped+slack)) ||
		first.Number < 1 || first.Version < 1 {
		e.Errorf("replay %d has version %d and was made at %v", first.Number, first.Version,
			first.Created)
	}
	second := e.begin(other, outbox.Source{From: time.Unix(1, 0), To: time.Unix(2, 0)})
	if second.Number <= first.Number {
		e.Errorf("replay %d comes after replay %d", second.Number, first.Number)
	}
	got, err := other.Replay(e.ctx, first.Number)
	if err != nil {
		e.Fatal(err)
	}
	if !got.Created.Equal(first.Created) || !got.Updated.Equal(first.Updated) ||
		!got.Source.From.Equal(want.Source.From) {
		e.Errorf("found %+v, want %+v", got, first)
	}
	want.Number, want.Version = first.Number, first.Version
	got.Created, got.Updated = time.Time{}, time.Time{}
	got.Source.From, got.Source.To = got.Source.From.UTC(), got.Source.To.UTC()
	if g, w := show(got), show(want); g != w {
		e.Errorf("found %s, want %s", g, w)
	}
	all, err := h.Replays(e.ctx, 10)
	if err != nil || len(all) != 2 || all[0].Number != second.Number ||
		all[1].Number != first.Number {
		e.Errorf("Replays are %v, %v; want the newest first", all, err)
	}
	if all, err := h.Replays(e.ctx, 1); err != nil || len(all) != 1 ||
		all[0].Number != second.Number {
		e.Errorf("the newest of Replays is %v, %v", all, err)
	}
}

// Staged rows stay, whatever is sent afterwards, and are read a page at a time.
func testStage(e *env) {
	h, other := e.open(), e.open()
	from, _ := e.sentAlready(h, "a1 a2 x")
	e.sentAlready(h, "y")
	s := outbox.Source{From: from, To: time.Now().Add(e.jumped + long)}
	r := e.begin(h, s)
	e.staged(h, r.Number, 0, 10, "")
	staged := e.stage(h, r.Number, 4)
	if staged.Version <= r.Version || staged.Source.From.UnixMilli() != from.UnixMilli() ||
		staged.Runner != "me" {
		e.Errorf("the replay is now %+v, it was %+v", staged, r)
	}
	e.sentAlready(h, "z")
	e.look(h, s, "a1 a2 x y z")
	all, err := other.Staged(e.ctx, r.Number, 0, 10)
	if got := wordsOf(all, func(s outbox.Staged) string {
		return s.Body
	}); err != nil || got != "a1 a2 x y" {
		e.Fatalf("staged is %q, %v", got, err)
	}
	e.staged(other, r.Number, all[0].Place, 2, all[1].Body+" "+all[2].Body)
	e.staged(other, r.Number, all[2].Place, 2, all[3].Body)
	e.staged(other, r.Number, all[3].Place, 2, "")
	another := e.begin(h, s)
	e.stage(other, another.Number, 5)
	e.staged(h, r.Number, all[3].Place, 2, "")
}

// The order of a stream is that of its commits, though all of it was sent in a moment.
func testStageOrder(e *env) {
	h := e.open()
	var words []string
	for _, word := range e.rng.Perm(proof.Few(100)) {
		words = append(words, "a"+string(rune('0'+word%10))+strings.Repeat("0", word/10))
	}
	for part := range slices.Chunk(words, 7) {
		e.put(strings.Join(part, " "))
	}
	e.ask(h, outbox.Claim{Relay: "r"})
	from := time.Now().Add(e.jumped - slack)
	shuffled := slices.Clone(words)
	e.rng.Shuffle(len(shuffled), func(i, j int) {
		shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
	})
	e.sent(h, "r", strings.Join(shuffled, " "))
	r := e.begin(h, outbox.Source{From: from, To: time.Now().Add(e.jumped + long)})
	e.stage(h, r.Number, len(words))
	e.staged(h, r.Number, 0, 1000, strings.Join(words, " "))
}

// To stage a replay again that is under way, or at its end, changes nothing.
func testStageAgain(e *env) {
	h := e.open()
	from, _ := e.sentAlready(h, "x y")
	r := e.begin(h, outbox.Source{From: from, To: time.Now().Add(e.jumped + long)})
	r = e.stage(h, r.Number, 2)
	e.sentAlready(h, "z")
	if again := e.stage(h, r.Number, 2); again.Version != r.Version {
		e.Errorf("the version is %d, it was %d", again.Version, r.Version)
	}
	e.staged(h, r.Number, 0, 10, "x y")
	r.State = outbox.Cancelled
	r = e.step(h, r)
	if again, err := h.StageReplay(e.ctx, r.Number); err != nil ||
		again.State != outbox.Cancelled || again.Version != r.Version {
		e.Errorf("a replay that was cancelled is %s, with version %d, error %v", again.State,
			again.Version, err)
	}
	e.staged(h, r.Number, 0, 10, "")
}

// A step writes rows and what became of the replay, and those rows go their way like all others.
func testStep(e *env) {
	h, other := e.open(), e.open()
	from, _ := e.sentAlready(h, "a1 x")
	r := e.begin(h, outbox.Source{From: from, To: time.Now().Add(e.jumped + long)})
	r = e.stage(h, r.Number, 2)
	e.put("a2")
	a3, a4, y := e.message("a3"), e.message("a4"), e.message("y")
	y.Headers, y.Generation, y.Dedup, y.Type = map[string]string{outbox.ReplayHeader: "1"}, 4,
		"d", "t"
	r.Place, r.Read, r.Completed, r.Gone, r.Rate, r.Ended = 2, 3, 4, 5, 6, "because"
	version, before := r.Version, r.Updated
	e.sleep(2 * time.Millisecond)
	r = e.step(h, r, y, a3, a4)
	if r.Version <= version || r.Written != 3 || !r.Updated.After(before) {
		e.Errorf("after a step there are %d rows written, version %d and time %v; it was version %d at %v", r.Written, r.Version, r.Updated, version, before)
	}
	found, err := other.Replay(e.ctx, r.Number)
	if err != nil || show(found) != show(r) {
		e.Errorf("the replay is %s, %v; want %s", show(found), err, show(r))
	}

	// Rows that are there are left out, whether they wait, were sent, or are given twice.
	z := e.message("z")
	x := e.message("x")
	x.ID = outbox.NewID()
	e.know(x)
	was := outbox.Message{ID: a3.ID, Queue: fifoQueue, Key: "a", Body: "other"}
	sent := outbox.Message{ID: e.ids["a1"], Queue: fifoQueue, Key: "a", Body: "other"}
	again := z
	again.Body = "other"
	if r = e.step(other, r, was, z, e.message("w"), sent, again); r.Written != 5 {
		e.Errorf("of two rows that are new, one of these again and two that are there %d were written, want 2", r.Written-3)
	}
	rows, _ := e.claim(h, outbox.Claim{Relay: "r3"}, "a2 a3 a4, w, y, z")
	i := slices.IndexFunc(rows, func(r outbox.Row) bool { return r.Body == "y" })
	e.same(rows[i], y)
	if r = e.step(h, r, z); r.Written != 5 {
		e.Error("a row was written again while a relay had it")
	}
}

// A process that comes too late writes nothing.
func testStepMoved(e *env) {
	h, other := e.open(), e.open()
	r := e.begin(h, outbox.Source{From: time.Unix(1, 0), To: time.Unix(2, 0)})
	r = e.stage(h, r.Number, 0)
	mine, theirs := r, r
	theirs.Runner = "they"
	theirs = e.step(other, theirs, e.message("x"))
	mine.Read = 7
	if _, err := h.StepReplay(e.ctx, mine,
		[]outbox.Message{e.message("y"), e.message("a1")}); !errors.Is(err, outbox.ErrMoved) {
		e.Fatalf("a step after another: %v, want ErrMoved", err)
	}
	found, err := h.Replay(e.ctx, r.Number)
	if err != nil || show(found) != show(theirs) {
		e.Errorf("the replay is %s, %v; want %s", show(found), err, show(theirs))
	}
	e.claim(h, outbox.Claim{Relay: "r"}, "x")

	// Of many at once one does it.
	const many = 5
	errs := make(chan error, many)
	for i := range many {
		go func() {
			r := theirs
			_, err := h.StepReplay(e.ctx, r,
				[]outbox.Message{{ID: outbox.NewID(), Queue: plainQueue, Key: "k",
					Body: "of " + string(rune('a'+i))}})
			errs <- err
		}()
	}
	did := 0
	for range many {
		switch err := <-errs; {
		case err == nil:
			did++
		case !errors.Is(err, outbox.ErrMoved):
			e.Errorf("a step among others: %v", err)
		}
	}
	if rows, _ := e.ask(h, outbox.Claim{Relay: "r"}); did != 1 || len(rows) != 1 {
		e.Errorf("of %d steps at once %d were made, with %d rows; want one", many, did, len(rows))
	}
}

// At its end a replay has nothing staged any more, and is remembered.
func testStepEnds(e *env) {
	h := e.open()
	from, _ := e.sentAlready(h, "a1 a2 x")
	for _, end := range []outbox.ReplayState{outbox.Done, outbox.Cancelled} {
		r := e.begin(h, outbox.Source{From: from, To: time.Now().Add(e.jumped + long)})
		r = e.stage(h, r.Number, 3)
		r.State = end
		r = e.step(h, r)
		e.staged(h, r.Number, 0, 10, "")
		if found, err := h.Replay(e.ctx, r.Number); err != nil || found.State != end ||
			found.Found != 3 {
			e.Errorf("the replay is %s, %v", show(found), err)
		}
	}
	e.look(h, outbox.Source{From: from, To: time.Now().Add(e.jumped + long)}, "a1 a2 x")
}

// Of what was swept since it was staged only the ID is known.
func testSwept(e *env) {
	h := e.open()
	from, _ := e.sentAlready(h, "x")
	e.sentAlready(h, "y")
	r := e.begin(h, outbox.Source{From: from, To: time.Now().Add(e.jumped + long)})
	e.stage(h, r.Number, 2)
	if n, err := h.Sweep(e.ctx, 0, 1); err != nil || n != 1 {
		e.Fatalf("Sweep removed %d, %v", n, err)
	}
	e.staged(h, r.Number, 0, 10, "-x y")
}

// Conditions are about columns of the row, and about when it was sent, and where to.
func testWhere(e *env) {
	h := e.sql()
	m := e.message("x")
	m.Headers, m.Type = map[string]string{"tenant": "t1"}, "it's"
	e.enqueue(true, m)
	from, _ := e.sentAlready(h, "a1 a2 b1 y")
	e.sent(h, "r", "x")
	s := outbox.Source{From: from, To: time.Now().Add(e.jumped + long)}
	for where, want := range map[string]string{
		"aggregateid = 'a'":                           "a1 a2",
		"aggregateid = 'a' OR payload = 'y'":          "a1 a2 y",
		"type = 'it''s'":                              "x",
		"headers LIKE '%t1%' -- of one tenant":        "x",
		"message_id = 'm-b1' AND sent_to='the-queue'": "b1",
		"sent_at > '2001-01-01' AND sent_to <> 'q'":   "a1 a2 b1 x y",
		"sent_at < '2001-01-01'":                      "",
		"generation IS NULL AND payload > 'b'":        "b1 x y",
	} {
		if strings.HasPrefix(where, "headers") {
			where = "CAST(headers AS text) LIKE '%t1%' -- of one tenant"
		}
		s.Where = where
		e.look(h, s, want)
	}
	s.Where, s.Queues = "aggregateid = 'a' OR payload = 'y'", []string{plainQueue}
	e.look(h, s, "y")
	s.Queues = nil
	r := e.begin(h, s)
	e.stage(h, r.Number, 3)
}

// A query makes messages up, which are kept as they were.
func testQuery(e *env) {
	h := e.sql()
	e.put("x y a1")
	query := outbox.Source{Query: "SELECT id, aggregatetype, aggregateid, payload, 'again' AS type, generation FROM " + e.Table +
		" WHERE payload <> 'y' ORDER BY payload DESC -- all but one"}
	all := e.look(h, query, "a1 x")
	if all[0].Body != "x" || all[0].ID != e.ids["x"] || all[0].Type != "again" ||
		all[1].Queue != fifoQueue || all[1].Key != "a" || !all[0].SentAt.IsZero() {
		e.Errorf("Look returns %+v", all)
	}
	r := e.begin(h, query)
	e.stage(h, r.Number, 2)
	e.claim(h, outbox.Claim{Relay: "r"}, "a1, x, y")
	e.sent(h, "r", "x y a1")
	e.sleep(2 * slack)
	if _, err := h.Sweep(e.ctx, 0, 10); err != nil {
		e.Fatal(err)
	}
	staged := e.staged(h, r.Number, 0, 10, "x a1")
	if staged[0].Type != "again" || staged[1].Queue != fifoQueue {
		e.Errorf("staged is %+v", staged)
	}

	none := outbox.Source{Query: "SELECT 'q' AS aggregatetype, 17 AS aggregateid, 'b' AS payload, 'd' AS dedup_id, NULL AS group_id WHERE 1 = 2"}
	e.look(h, none, "")
	none.Query = strings.ReplaceAll(none.Query, "1 = 2", "2 = 2")
	one := e.look(h, none, "b")
	if m := one[0]; m.Key != "17" || m.Dedup != "d" || m.Queue != "q" || m.Group != "" {
		e.Errorf("a row of constants is %+v", m)
	}
}

// SQL that does not work is told apart from a database that does not, and SQL that writes does not.
func testBadSQL(e *env) {
	h := e.sql()
	e.sentAlready(h, "x")
	e.put("y")
	s := outbox.Source{From: time.Unix(1, 0), To: time.Now().Add(e.jumped + long)}
	var bad []outbox.Source
	for _, where := range []string{"nonsense", "aggregateid =", "1 = 1) UNION SELECT (1",
		"1 = 1; DELETE FROM " + e.Table, "no_such_column = 1"} {
		s.Where = where
		bad = append(bad, s)
	}
	for _, query := range []string{
		"SELECT", "DELETE FROM " + e.Table, "DELETE FROM " + e.Table + " RETURNING *",
		"UPDATE " + e.Table + " SET payload = 'z' RETURNING *",
		"SELECT 1; DELETE FROM " + e.Table, "SELECT 1 AS payload) q; DELETE FROM " + e.Table +
			"; --", "WITH d AS (DELETE FROM " + e.Table + " RETURNING *) SELECT * FROM d",
		"SELECT 'q' AS aggregatetype, 'k' AS aggregateid, 'b' AS payload", // names no work
		// has another column
		"SELECT 'q' AS aggregatetype, 'd' AS dedup_id, 'b' AS payload, 1 AS x1",
	} {
		bad = append(bad, outbox.Source{Query: query})
	}
	for _, source := range bad {
		_, _, err := h.Look(e.ctx, source, 10)
		if !errors.Is(err, outbox.ErrSource) {
			e.Errorf("look for %q%q: %v, want ErrSource", source.Where, source.Query, err)
		}
		if err := h.Walk(e.ctx, source, func(outbox.Past) error {
			return nil
		}); !errors.Is(err, outbox.ErrSource) {
			e.Errorf("walk over %q%q: %v, want ErrSource", source.Where, source.Query, err)
		}
		r := e.begin(h, source)
		if r, err = h.StageReplay(e.ctx, r.Number); err == nil {
			_, err = h.Staged(e.ctx, r.Number, 0, 10)
		}
		if !errors.Is(err, outbox.ErrSource) {
			e.Errorf("stage %q%q: %v, want ErrSource", source.Where, source.Query, err)
		}
	}
	s.Where = ""
	e.look(h, s, "x")
	e.claim(h, outbox.Claim{Relay: "r"}, "y")
}

// sql opens a box that knows SQL, or skips the case.
func (e *env) sql() outbox.History {
	e.Helper()
	if e.Table == "" {
		e.Skip("the box knows no SQL")
	}
	return e.open()
}

// show writes a replay so that two can be compared, whatever the places of their times.
func show(r outbox.Replay) string {
	for _, at := range []*time.Time{&r.Created, &r.Updated, &r.Source.From, &r.Source.To} {
		*at = at.UTC().Round(0)
	}
	return fmt.Sprintf("%+v", r)
}
