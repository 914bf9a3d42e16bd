// Package download is a program to start from: it registers the files of a batch and downloads each
// of them once. "tenaq demo pipeline" runs it too, with a slow source and workers and tasks that
// are killed.
package download

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/records/sqliterecords"
	"tenaq/worker"
)

const queueName = "data-download-queue.fifo"

// Run is the program.
func Run(ctx context.Context, args []string) error {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	client := sqs.NewFromConfig(cfg)
	queue, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(queueName)})
	if err != nil {
		return fmt.Errorf("find the queue: %w", err)
	}
	store, err := sqliterecords.New(sqliterecords.Config{Path: cmp.Or(os.Getenv("PIPELINE_RECORDS"),
		"records.db")})
	if err != nil {
		return err
	}
	defer store.Close()
	switch {
	case len(args) > 2 && args[0] == "send":
		return send(ctx, client, *queue.QueueUrl, store, args[1], args[2:])
	case len(args) == 3 && args[0] == "work":
		return work(ctx, client, *queue.QueueUrl, store, args[1], args[2])
	}
	return errors.New("usage: pipeline send BATCH FILE... | pipeline work SOURCE DIRECTORY")
}

// A File is the body of a message.
type File struct{ FileID, BatchID, SHA256 string }

// send registers each file once, under its name. Running the batch again, even the next day, sends
// nothing.
func send(
	ctx context.Context, client producer.SQS, queueURL string, store records.Store, batch string,
	paths []string,
) error {
	p, err := producer.New(producer.Config{Client: client, Store: store, QueueURL: queueURL})
	if err != nil {
		return err
	}
	var messages []producer.Message
	for _, path := range paths {
		m, err := Message(batch, path)
		if err != nil {
			return err
		}
		messages = append(messages, m)
	}
	var failed []error
	for _, r := range p.SendAll(ctx, messages) {
		switch {
		case errors.Is(r.Err, producer.ErrDiffers) &&
			r.MessageID != "": // of another batch, or with another checksum
			log.Printf("%s: registered before with another body, as message %s: this one was not sent", r.Key, r.MessageID)
		case r.Err != nil:
			failed = append(failed, r.Err)
		case r.New:
			log.Printf("%s: sent", r.Key)
		default:
			log.Printf("%s: sent before, %v ago, as message %s", r.Key, r.Age.Round(time.Second),
				r.MessageID)
		}
	}
	return errors.Join(failed...) // run it again then: what was sent is not sent again
}

// Message is how a file is registered: once, under its name.
func Message(batch, path string) (m producer.Message, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	sum := sha256.Sum256(text)
	name := filepath.Base(path)
	body, err := json.Marshal(File{name, batch, hex.EncodeToString(sum[:])})
	// Messages of one group are handled in order, and wait for the one before. These files need no
	// order.
	return producer.Message{Key: name, Body: string(body), Group: name}, err
}

// work downloads files until ctx ends.
func work(
	ctx context.Context, client worker.SQS, queueURL string, store records.Store, source,
	directory string,
) error {
	ledger, err := claims.New(claims.Config{Store: store})
	if err != nil {
		return err
	}
	d, err := NewDownloader(source, directory)
	if err != nil {
		return err
	}
	defer d.Close()
	w, err := worker.New(worker.Config{
		Client: client, QueueURL: queueURL, Claims: ledger, Handler: worker.JSON(d.handle),
		Concurrency: 4,
		Events: worker.Events{Outcome: func(m *worker.Message, o worker.Outcome) {
			log.Printf("%s: attempt %d: %v", m.Key, m.Attempt(), o)
		}},
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// A Downloader puts files of a source into a directory.
type Downloader struct {
	client http.Client
	source string
	dir    *os.Root
}

// NewDownloader opens the directory.
func NewDownloader(source, directory string) (*Downloader, error) {
	dir, err := os.OpenRoot(directory) // names come from messages, and no name leads out of a root
	if err != nil {
		return nil, err
	}
	// So that a source can be a directory, too: file:///srv/files
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.RegisterProtocol("file", http.NewFileTransport(http.Dir("/")))
	return &Downloader{http.Client{Transport: transport}, source, dir}, nil
}

// Close closes the directory.
func (d *Downloader) Close() error { return d.dir.Close() }

// Errors that a source may return.
var (
	ErrNotYet    = errors.New("it is not there yet")
	ErrWithdrawn = errors.New("it was withdrawn")
)

// handle is the handler of the worker.
func (d *Downloader) handle(ctx context.Context, f File, m *worker.Message) error {
	_, err := d.Download(ctx, f, m.EffectKey())
	switch {
	case errors.Is(err, ErrNotYet):
		return worker.Later(5*time.Minute, err.Error()) // no attempt is counted
	case errors.Is(err, ErrWithdrawn):
		return worker.Poison(err)
	}
	return err
}

// Download puts a file into the directory, whole or not at all. Its name there is the effect key.
// If an earlier attempt wrote the file and died before it was recorded, this one finds the file in
// its place.
func (d *Downloader) Download(
	ctx context.Context, f File, effectKey string,
) (written bool, err error) {
	part := ".part-" + rand.Text()
	out, err := d.dir.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return false, err
	}
	defer d.dir.Remove(part)
	err = errors.Join(d.fetch(ctx, f, out), out.Sync(), out.Close())
	if err != nil {
		return false, err
	}
	err = d.dir.Link(part, effectKey)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// fetch copies a file from the source to out and compares its checksum. Encrypted files would be
// decrypted here.
func (d *Downloader) fetch(ctx context.Context, f File, out io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		d.source+"/"+url.PathEscape(f.FileID), nil)
	if err != nil {
		return worker.Poison(err)
	}
	resp, err := d.client.Do(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return ErrNotYet
	case http.StatusGone:
		return ErrWithdrawn
	default:
		return fmt.Errorf("%s: %s", request.URL, resp.Status)
	}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, sum), resp.Body); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("its checksum is %s, not the %s that was announced", got, f.SHA256)
	}
	return nil
}
