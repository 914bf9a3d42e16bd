package sqliteoutbox

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tenaq/outbox"
)

// childRole and childPath tell the test binary to be another program instead of running tests.
const (
	childRole = "SQLITEOUTBOX_TEST_ROLE"
	childPath = "SQLITEOUTBOX_TEST_PATH"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		err := map[string]func(string) error{"writer": beWriter, "relay": beRelay, "stager": beStager}[role](os.Getenv(childPath))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// patience is how long a child waits for the lock of the file, which the others take again and
// again. SQLite has no queue for it, so on a busy machine one may wait for long.
const patience = 2 * time.Minute

// transactions is how many a writer commits or rolls back, if it is not killed.
const transactions = 150

// beWriter writes orders and the messages about them, and rolls some back.
func beWriter(path string) error {
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?_pragma=busy_timeout(%d)&_txlock=immediate", path, patience.Milliseconds()))
	if err != nil {
		return err
	}
	defer db.Close()
	for i := range transactions {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		var messages []outbox.Message
		for j := range 1 + rand.IntN(3) {
			body, stream := fmt.Sprintf("%d-%d-%d", os.Getpid(), i, j), string(rune('a'+rand.IntN(3)))
			if _, err := tx.Exec("INSERT INTO orders (stream, body) VALUES (?, ?)", stream, body); err != nil {
				return err
			}
			messages = append(messages, outbox.Message{Queue: "orders.fifo", Key: stream, Body: body})
		}
		if err := Enqueue(context.Background(), tx, messages...); err != nil {
			return err
		}
		if rand.IntN(4) == 0 {
			err = tx.Rollback()
		} else {
			err = tx.Commit()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// beRelay sends messages to a file, a line for each, until it is killed.
func beRelay(path string) error {
	b, err := New(Config{Path: path, Wait: patience})
	if err != nil {
		return err
	}
	queue, err := os.OpenFile(path+".queue", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	ctx, relay, lease := context.Background(), fmt.Sprint("relay ", os.Getpid()), 500*time.Millisecond
	for {
		began := time.Now()
		rows, next, err := b.Claim(ctx, outbox.Claim{Relay: relay, Lease: lease, Rows: 20, Bytes: 1 << 20, Stream: 5})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			if err := b.Wait(ctx, min(max(next, 10*time.Millisecond), lease/2)); err != nil {
				return err
			}
			continue
		}
		var outcomes []outbox.Outcome
		for _, r := range rows {
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
			// One that was stopped between this and the line would be late. The margin is for that.
			if time.Since(began) > lease/2 {
				outcomes = append(outcomes, outbox.Outcome{ID: r.ID, Fate: outbox.Back})
				continue
			}
			if _, err := fmt.Fprintf(queue, "%s %s\n", r.Key, r.Body); err != nil {
				return err
			}
			outcomes = append(outcomes, outbox.Outcome{ID: r.ID, Fate: outbox.Sent, SentTo: "orders.fifo"})
		}
		if err := b.Settle(ctx, relay, outcomes); err != nil {
			return err
		}
	}
}

// A child is another process.
type child struct {
	cmd    *exec.Cmd
	stderr strings.Builder
	done   chan error
}

func start(t *testing.T, role, path string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0]), done: make(chan error, 1)}
	c.cmd.Env = append(os.Environ(), childRole+"="+role, childPath+"="+path)
	c.cmd.Stderr = &c.stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.done <- c.cmd.Wait() }()
	return c
}

// kill ends a child with SIGKILL, and complains if it has ended by itself with an error.
func (c *child) kill(t *testing.T) {
	t.Helper()
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.done
	if s := c.stderr.String(); s != "" {
		t.Errorf("a child said: %s", s)
	}
}

// Writers and relays are processes, and some are killed in their midst. Each message whose order is
// there is sent, no other, and those of a stream in the order of the orders.
func TestProcesses(t *testing.T) {
	path := newFile(t)
	db := connect(t, path)
	if _, err := db.Exec("CREATE TABLE orders (n INTEGER PRIMARY KEY, stream TEXT, body TEXT)"); err != nil {
		t.Fatal(err)
	}
	writers := []*child{start(t, "writer", path), start(t, "writer", path), start(t, "writer", path)}
	relays := []*child{start(t, "relay", path), start(t, "relay", path)}
	defer func() {
		for _, c := range relays {
			c.kill(t)
		}
	}()
	kills := 8
	if testing.Short() {
		kills = 2
	}
	for i := range kills {
		time.Sleep(time.Duration(100+rand.IntN(200)) * time.Millisecond)
		if i == 1 {
			writers[0].kill(t)
		}
		victim := i % len(relays)
		relays[victim].kill(t)
		relays[victim] = start(t, "relay", path)
	}
	for _, c := range writers[1:] {
		if err := <-c.done; err != nil {
			t.Fatalf("a writer: %v: %s", err, c.stderr.String())
		}
	}
	b := open(t, path)
	for deadline := time.Now().Add(2 * patience); ; time.Sleep(20 * time.Millisecond) {
		s, err := b.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Pending == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v later there are %+v", 2*patience, s)
		}
	}
	compare(t, db, path+".queue")
}

// compare holds what was sent against the orders.
func compare(t *testing.T, db *sql.DB, queue string) {
	t.Helper()
	rows, err := db.Query("SELECT stream, group_concat(body, ' ') FROM (SELECT * FROM orders ORDER BY n) GROUP BY stream")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	want := make(map[string]string)
	for rows.Next() {
		var stream, bodies string
		if err := rows.Scan(&stream, &bodies); err != nil {
			t.Fatal(err)
		}
		want[stream] = bodies
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(queue)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, seen, twice := make(map[string]string), make(map[string]bool), 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		stream, body, _ := strings.Cut(lines.Text(), " ")
		if seen[body] {
			twice++
			continue
		}
		seen[body] = true
		got[stream] = strings.TrimSpace(got[stream] + " " + body)
	}
	for stream := range want {
		if got[stream] != want[stream] {
			t.Errorf("of %s was sent\n%s\nwant\n%s", stream, got[stream], want[stream])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d streams were sent, want %d", len(got), len(want))
	}
	t.Logf("%d messages, %d sent twice, from %s", len(seen), twice, filepath.Base(queue))
}
