package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/server/backup"
	"tenaq/internal/testing/proof"
)

// askBackup asks a server for a backup.
func askBackup(s *Server, query string, sign func(*http.Request)) (*http.Response, error) {
	req, err := http.NewRequest("POST", "http://"+s.Addr()+"/v1/backup"+query, http.NoBody)
	if err != nil {
		return nil, err
	}
	if sign != nil {
		sign(req)
	}
	return client.Do(req)
}

func takeBackup(t *testing.T, s *Server) []byte {
	t.Helper()
	resp, err := askBackup(s, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("backup: status %d, %v: %.200s", resp.StatusCode, err, b)
	}
	return b
}

// restored restores a backup into a new directory and starts a server on it.
func restored(t *testing.T, b []byte) (s *Server, stop func() error) {
	t.Helper()
	cfg := config(t)
	if _, err := Restore(t.Context(), bytes.NewReader(b), cfg.DataDir, nil); err != nil {
		t.Fatal(err)
	}
	return run(t, cfg)
}

// bodies looks at all messages of a queue without receiving them.
func bodies(t *testing.T, s *Server, queue string) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for after := ""; ; {
		code, body := get(t, "http://"+s.Addr()+"/v1/queues/"+queue+"/messages?body=5000&limit=100&after="+url.QueryEscape(after))
		var page struct {
			Messages []struct{ Body string }
			Next     string
		}
		if err := json.Unmarshal([]byte(body), &page); code != 200 || err != nil {
			t.Fatalf("peek: %d %.300s", code, body)
		}
		for _, m := range page.Messages {
			all[m.Body]++
		}
		if after = page.Next; after == "" {
			return all
		}
	}
}

// mustVerify verifies the directory of a server that has stopped.
func mustVerify(t *testing.T, dir string) Verified {
	t.Helper()
	v, err := Verify(dir, func(f Finding) { t.Errorf("found: %s", f) }, nil)
	if err != nil {
		t.Error(err)
	}
	return v
}

// A record is what is known of messages under way, by their bodies.
type record struct {
	mu      sync.Mutex
	sending map[string]bool // begun
	sent    map[string]bool // answered
	leaving map[string]bool // a delete has begun
	left    map[string]bool // and was answered
}

func (r *record) note(m map[string]bool, body string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m[body] = true
}

// copyOf copies one of the sets.
func (r *record) copyOf(m map[string]bool) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := make(map[string]bool, len(m))
	for k := range m {
		c[k] = true
	}
	return c
}

// ask makes a request of the SQS API from a goroutine that cannot fail a test.
func ask(s *Server, action string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequest("POST", "http://"+s.Addr(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", "AmazonSQS."+action)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != 200 {
		err = fmt.Errorf("%s: %d %s", action, resp.StatusCode, answer)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(answer, out)
	}
	return err
}

// work sends, receives and deletes until it is stopped.
func (r *record) work(s *Server, who int, stop chan struct{}) error {
	rng := rand.New(rand.NewPCG(uint64(who), 1))
	queue := "http://" + s.Addr() + "/000000000000/orders"
	for i := 0; i < 3000; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		body := fmt.Sprintf("%d-%d-%s", who, i, strings.Repeat("x", rng.IntN(3)*700))
		r.note(r.sending, body)
		if err := ask(s, "SendMessage", map[string]any{"QueueUrl": queue, "MessageBody": body}, nil); err != nil {
			return err
		}
		r.note(r.sent, body)
		if rng.IntN(2) == 0 {
			continue
		}
		var got struct {
			Messages []struct{ Body, ReceiptHandle string }
		}
		if err := ask(s, "ReceiveMessage", map[string]any{"QueueUrl": queue, "MaxNumberOfMessages": 2, "VisibilityTimeout": 600}, &got); err != nil {
			return err
		}
		for _, m := range got.Messages {
			if rng.IntN(3) == 0 {
				continue // it stays in flight
			}
			r.note(r.leaving, m.Body)
			if err := ask(s, "DeleteMessage", map[string]any{"QueueUrl": queue, "ReceiptHandle": m.ReceiptHandle}, nil); err != nil {
				return err
			}
			r.note(r.left, m.Body)
		}
	}
	return nil
}

// A server is backed up while it works. Each backup has every message that was answered before it
// began and not deleted, none twice, and none that was deleted or never sent. [DUR-30, DUR-32]
func TestBackupUnderLoad(t *testing.T) {
	s, stopServer := run(t, config(t))
	call(t, s, "CreateQueue", `{"QueueName":"orders"}`)
	queue := "http://" + s.Addr() + "/000000000000/orders"
	if err := ask(s, "SendMessage", map[string]any{"QueueUrl": queue, "MessageBody": "first"}, nil); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Messages []struct{ ReceiptHandle string }
	}
	if err := ask(s, "ReceiveMessage", map[string]any{"QueueUrl": queue, "VisibilityTimeout": 600}, &got); err != nil || len(got.Messages) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	old := got.Messages[0].ReceiptHandle

	r := &record{sending: map[string]bool{"first": true}, sent: map[string]bool{"first": true}, leaving: map[string]bool{}, left: map[string]bool{}}
	stop, ended := make(chan struct{}), make(chan error, 4)
	for who := range 4 {
		go func() { ended <- r.work(s, who, stop) }()
	}
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	type taken struct {
		backup              []byte
		sent, leaving, left map[string]bool // before, after, before
		sending             map[string]bool // after
	}
	var backups []taken
	for range rounds {
		for before := len(r.copyOf(r.sent)); len(r.copyOf(r.sent)) < before+40; {
			time.Sleep(5 * time.Millisecond) // a real server is at work
		}
		b := taken{sent: r.copyOf(r.sent), left: r.copyOf(r.left)}
		b.backup = takeBackup(t, s)
		b.sending, b.leaving = r.copyOf(r.sending), r.copyOf(r.leaving)
		backups = append(backups, b)
	}
	close(stop)
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := stopServer(); err != nil {
		t.Error(err)
	}
	mustVerify(t, s.cfg.DataDir)
	for i, b := range backups {
		copied, stop := restored(t, b.backup)
		there := bodies(t, copied, "orders")
		for body := range b.sent {
			if there[body] == 0 && !b.leaving[body] {
				t.Errorf("backup %d: %.12s was sent before and is not there", i, body)
			}
		}
		for body, n := range there {
			switch {
			case n > 1:
				t.Errorf("backup %d: %.12s is there %d times", i, body, n)
			case !b.sending[body]:
				t.Errorf("backup %d: %.12s was never sent", i, body)
			case b.left[body]:
				t.Errorf("backup %d: %.12s was deleted before", i, body)
			}
		}
		err := ask(copied, "DeleteMessage", map[string]any{"QueueUrl": queue, "ReceiptHandle": old}, nil)
		if err == nil || !strings.Contains(err.Error(), "ReceiptHandleIsInvalid") {
			t.Errorf("a handle of before: got %v, want that it is not valid", err)
		}
		if err := ask(copied, "ReceiveMessage", map[string]any{"QueueUrl": queue}, &got); err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		mustVerify(t, copied.cfg.DataDir)
		t.Logf("backup %d: %d bytes, %d messages", i, len(b.backup), len(there))
	}
}

// smallBackup is a backup of a few messages.
func smallBackup(t *testing.T) []byte {
	t.Helper()
	s, stop := run(t, config(t))
	call(t, s, "CreateQueue", `{"QueueName":"orders"}`)
	for i := range 5 {
		body := fmt.Sprintf(`{"QueueUrl":"http://%s/000000000000/orders","MessageBody":"m%d %s"}`, s.Addr(), i, strings.Repeat("x", 500*i))
		if code, answer := call(t, s, "SendMessage", body); code != 200 {
			t.Fatal(answer)
		}
	}
	b := takeBackup(t, s)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return b
}

// A backup that was cut off or changed is refused, and leaves nothing. [DUR-31]
func TestRestoreRefuses(t *testing.T) {
	b := smallBackup(t)
	seed := proof.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := filepath.Join(t.TempDir(), "new")
	refused := func(what string, bad []byte) {
		t.Helper()
		_, err := Restore(t.Context(), bytes.NewReader(bad), dir, nil)
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %v, want that it is damaged", what, err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s: the directory is still there", what)
		}
	}
	trials := 40
	if testing.Short() {
		trials = 10
	}
	for range trials {
		n := rng.IntN(len(b))
		refused(fmt.Sprintf("cut to %d of %d bytes", n, len(b)), b[:n])
	}
	for range trials {
		at, bad := rng.IntN(len(b)), bytes.Clone(b)
		bad[at] ^= byte(1 + rng.IntN(255))
		refused(fmt.Sprintf("byte %d of %d changed", at, len(b)), bad)
	}
	refused("twice", append(bytes.Clone(b), b...))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Restore(ctx, bytes.NewReader(b), dir, nil); err == nil {
		t.Error("an interrupted restore says nothing")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), bytes.NewReader(b), dir, nil); err != nil {
		t.Errorf("into an empty directory: %v", err)
	}
	if _, err := Restore(t.Context(), bytes.NewReader(b), dir, nil); !errors.Is(err, ErrInUse) {
		t.Errorf("into one that is not empty: got %v, want %v", err, ErrInUse)
	}
	if v := mustVerify(t, dir); v.Messages != 5 {
		t.Errorf("restored %d messages, want 5", v.Messages)
	}
}

// A backup that is whole, of a store that was not, is not restored. [DUR-31]
func TestRestoreVerifies(t *testing.T) {
	dir := t.TempDir()
	if _, err := Restore(t.Context(), bytes.NewReader(smallBackup(t)), dir, nil); err != nil {
		t.Fatal(err)
	}
	store, err := pebblekv.Open(pebblekv.Options{Dir: dir, Fatal: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	for k := range store.Scan([]byte{0x10}, []byte{0x11}) {
		if k[9] == 0x06 { // a segment
			b := store.NewBatch()
			b.Delete(k)
			b.Force()()
		}
	}
	c, err := store.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	going := &backups{stopping: func() bool { return false }}
	taken := &runningBackup{backups: going, ctx: t.Context(), checkpoint: c, close: c.Remove}
	taken.manifest = backup.Manifest{Store: c.ID.String(), Commit: c.Commit}
	if _, err := taken.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(taken.Close(), store.Close()); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "new")
	_, err = Restore(t.Context(), &b, elsewhere, nil)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "no segment row") {
		t.Errorf("got %v, want what is wrong", err)
	}
	if _, err := os.Stat(elsewhere); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
	if v, err := Verify(dir, func(Finding) {}, nil); err != nil || v.Findings != 1 {
		t.Errorf("verified %+v, %v, want one finding", v, err)
	}
}

// One backup is taken at a time, none is asked for by GET or with parameters, and one whose reader
// goes away ends.
func TestBackupRefusals(t *testing.T) {
	s, _ := run(t, config(t))
	if code, body := get(t, "http://"+s.Addr()+"/v1/backup"); code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d %s", code, body)
	}
	resp, err := askBackup(s, "?file=/tmp/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("with a parameter: status %d, want 400", resp.StatusCode)
	}
	first, err := s.backups.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if resp, err = askBackup(s, "", nil); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("beside another one: status %d, want 429", resp.StatusCode)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	second, err := s.backups.begin(gone)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := second.WriteTo(io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("for nobody: got %v, want %v", err, context.Canceled)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(s.cfg.DataDir, "checkpoint")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was to be read is still there: %v", err)
	}
	takeBackup(t, s)
}

// A key that may take backups need not be able to do anything else, and must be one of the server's
// account. [DUR-30]
func TestBackupKeys(t *testing.T) {
	file := `{"credentials": [
		{"id": "TQBACK01", "secret": "canary-of-backups", "account": "000000000000", "allow": ["tenaq:Backup"]},
		{"id": "TQSEND01", "secret": "canary-of-the-sender", "account": "000000000000", "allow": ["sqs:*", "tenaq:Peek*"]},
		{"id": "TQOTHER1", "secret": "canary-of-the-other-account", "account": "444455556666", "allow": ["*"]}]}`
	cfg := config(t)
	cfg.Credentials = keysOf(t, file)
	s, _ := run(t, cfg)
	for _, tt := range []struct {
		id, secret string
		want       int
	}{
		{"TQBACK01", "canary-of-backups", 200},
		{"TQSEND01", "canary-of-the-sender", 403},
		{"TQOTHER1", "canary-of-the-other-account", 403},
		{"TQBACK01", "another", 403},
		{"", "", 403},
	} {
		resp, err := askBackup(s, "", func(req *http.Request) {
			if tt.id == "" {
				return
			}
			sum := sha256.Sum256(nil)
			keys := aws.Credentials{AccessKeyID: tt.id, SecretAccessKey: tt.secret}
			if err := v4.NewSigner().SignHTTP(t.Context(), keys, req, hex.EncodeToString(sum[:]), "sqs", "us-east-1", time.Now()); err != nil {
				t.Fatal(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.want || err != nil {
			t.Errorf("%s with %q: status %d, want %d: %v %.200s", tt.id, tt.secret, resp.StatusCode, tt.want, err, body)
		}
	}
}
