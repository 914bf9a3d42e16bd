package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/records/sqliterecords"
)

// Settings are what the processes of a demo are told, in a file.
type Settings struct {
	Dir       string
	QueueURL  string
	Source    string // where the files are
	Secret    []byte // what they are encrypted with
	Plan      plan
	Lease     time.Duration // of messages
	Unclaimed bool
}

func (s *Settings) historyFile() string { return filepath.Join(s.Dir, "history.jsonl") }
func (s *Settings) recordsFile() string { return filepath.Join(s.Dir, "records.db") }
func (s *Settings) outFile(key string) string {
	return filepath.Join(s.Dir, "out", key)
}

// write puts the settings into a file for processes to come.
func (s *Settings) write(name string) (path string, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	path = filepath.Join(s.Dir, name)
	return path, os.WriteFile(path, text, 0o600)
}

// ReadSettings reads the settings from the file that a process of the demo is told.
func ReadSettings(path string) (*Settings, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &Settings{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// The processes of the demo, by the first of their arguments. The second is the file of the settings.
const (
	PartWorker   = "worker"
	PartTask     = "task"
	PartProducer = "producer" // the third is the file to register
)

// openLedger returns the ledger of the work, nil when there is to be none.
func (s *Settings) openLedger(store records.Store) (*claims.Ledger, error) {
	if s.Unclaimed {
		return nil, nil
	}
	return claims.New(store, claims.Config{Lease: lease})
}

// newProducer returns a producer for the queue.
func (s *Settings) newProducer(client producer.SQS, store records.Store, work *claims.Ledger) (*producer.Producer, error) {
	return producer.New(producer.Config{Client: client, Store: store, QueueURL: s.QueueURL, Work: work})
}

// message is how a file is registered.
func (f file) message(batch int) producer.Message {
	return producer.Message{Key: f.ID, Body: f.body(batch), Group: f.Group}
}

// Produce is the process that registers one file and dies before it has sent it.
func (s *Settings) Produce(ctx context.Context, id string) error {
	f, ok := s.Plan.file(id)
	if !ok {
		return fmt.Errorf("there is no file %q", id)
	}
	h, err := openHistory(s.historyFile())
	if err != nil {
		return err
	}
	store, err := sqliterecords.New(sqliterecords.Config{Path: s.recordsFile()})
	if err != nil {
		return err
	}
	p, err := producer.New(producer.Config{Client: &doomed{s, h, id}, Store: store, QueueURL: s.QueueURL, Lease: leaseDoomed})
	if err != nil {
		return err
	}
	_, err = p.SendOnce(ctx, f.message(batchID))
	return fmt.Errorf("the producer of %s is alive: %w", id, err)
}

// A doomed client does not live to send.
type doomed struct {
	settings *Settings
	history  *history
	file     string
}

// SendMessage ends the process.
func (d *doomed) SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	d.settings.dieAt(beforeSend, d.file, d.history)
	return nil, fmt.Errorf("%s is not to die here", d.file)
}

// dieAt ends this process as kill -9 does, if that is what the plan has for the file at this moment. It happens
// once for each file, whichever process comes to it first.
func (s *Settings) dieAt(m moment, id string, h *history) {
	if s.Plan.Deaths[id].Moment != m {
		return
	}
	mark, err := os.OpenFile(filepath.Join(s.Dir, "died", id), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return // somebody has
	}
	mark.Close()
	h.note(event{What: died, File: id, Why: string(m)})
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		_ = self.Kill()
	}
	select {} // the signal is on its way
}

// dies reports whether somebody is still to die at this moment.
func (s *Settings) dies(m moment, id string) bool {
	if s.Plan.Deaths[id].Moment != m {
		return false
	}
	_, err := os.Stat(filepath.Join(s.Dir, "died", id))
	return err != nil
}

// untilEOF ends this process when the one that started it is gone: it holds the other end of standard input.
func untilEOF(stdin io.Reader) {
	_, _ = io.Copy(io.Discard, stdin)
	os.Exit(1)
}
