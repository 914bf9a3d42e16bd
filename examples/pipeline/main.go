// Command pipeline downloads the files of a batch, each of them once, whatever is run twice or dies half-way.
//
//	pipeline send BATCH FILE...        registers files by their names and enqueues them
//	pipeline work SOURCE DIRECTORY     downloads SOURCE/NAME into the directory, until it is interrupted
//
// It finds the queue data-download-queue.fifo as every AWS SDK program does, and what producers and workers have to
// know of each other in records.db, or in the SQLite file that PIPELINE_RECORDS names.
package main

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
	"os/signal"
	"path/filepath"
	"syscall"
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal("pipeline: ", err)
	}
}

func run(ctx context.Context, args []string) error {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	client := sqs.NewFromConfig(cfg)
	queue, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(queueName)})
	if err != nil {
		return fmt.Errorf("find the queue: %w", err)
	}
	store, err := sqliterecords.New(sqliterecords.Config{Path: cmp.Or(os.Getenv("PIPELINE_RECORDS"), "records.db")})
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

// A file is the body of a message.
type file struct{ FileID, BatchID, SHA256 string }

// send registers each file once, under its name: who runs the batch again, the next day too, sends nothing.
func send(ctx context.Context, client producer.SQS, queueURL string, store records.Store, batch string, paths []string) error {
	p, err := producer.New(producer.Config{Client: client, Store: store, QueueURL: queueURL})
	if err != nil {
		return err
	}
	var messages []producer.Message
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		name := filepath.Base(path)
		body, err := json.Marshal(file{name, batch, hex.EncodeToString(sum[:])})
		if err != nil {
			return err
		}
		// What shares a group is done in order, and waits for what is before it. These files need no order.
		messages = append(messages, producer.Message{Key: name, Body: string(body), Group: name})
	}
	var failed []error
	for _, r := range p.SendAll(ctx, messages) {
		switch {
		case errors.Is(r.Err, producer.ErrDiffers) && r.MessageID != "": // of another batch, or with another checksum
			log.Printf("%s: registered before with another body, as message %s: this one was not sent", r.Key, r.MessageID)
		case r.Err != nil:
			failed = append(failed, r.Err)
		case r.New:
			log.Printf("%s: sent", r.Key)
		default:
			log.Printf("%s: sent before, %v ago, as message %s", r.Key, r.Age.Round(time.Second), r.MessageID)
		}
	}
	return errors.Join(failed...) // run it again then: what was sent is not sent again
}

// work downloads files until ctx ends.
func work(ctx context.Context, client worker.SQS, queueURL string, store records.Store, source, directory string) error {
	ledger, err := claims.New(store, claims.Config{})
	if err != nil {
		return err
	}
	// Names come from messages, and no name leads out of a root.
	dir, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer dir.Close()
	// So that a source can be a directory, too: file:///srv/files
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.RegisterProtocol("file", http.NewFileTransport(http.Dir("/")))
	d := &downloader{http.Client{Transport: transport}, source, dir}
	w, err := worker.New(worker.Config{
		Client: client, QueueURL: queueURL, Claims: ledger, Handler: worker.JSON(d.download), Concurrency: 4,
		Events: worker.Events{
			Done: func(m *worker.Message, took time.Duration) { log.Printf("%s: done in %v", m.Key, took) },
			Failed: func(m *worker.Message, err error, _ time.Duration) {
				log.Printf("%s: attempt %d: %v", m.Key, m.Attempt(), err)
			},
			Duplicate:    func(m *worker.Message, _ *claims.Done) { log.Printf("%s: was done before", m.Key) },
			DeadLettered: func(m *worker.Message, reason, _ string) { log.Printf("%s: dead-lettered: %s", m.Key, reason) },
		},
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// A downloader is the handler of the worker.
type downloader struct {
	client http.Client
	source string
	dir    *os.Root
}

// download puts a file into the directory, whole or not at all. Its name there is the effect key: an attempt that
// follows one which wrote the file and did not live to say so comes to the same place, and finds it.
func (d *downloader) download(ctx context.Context, f file, m *worker.Message) error {
	part := ".part-" + rand.Text()
	out, err := d.dir.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer d.dir.Remove(part)
	err = errors.Join(d.fetch(ctx, f, out), out.Sync(), out.Close())
	if err != nil {
		return err
	}
	err = d.dir.Link(part, m.EffectKey())
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// fetch writes what the source has to out, if it is what was announced. Encrypted files would be decrypted here.
func (d *downloader) fetch(ctx context.Context, f file, out io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.source+"/"+url.PathEscape(f.FileID), nil)
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
		return worker.Later(5*time.Minute, "it is not there yet") // no attempt is counted
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
