// Package studio is a program to start from: it writes a job and its message in one transaction,
// sends the message with a relay, and transcodes. "tenaq demo outbox" runs it too, with processes
// that are killed at every step.
package studio

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/outbox"
	"tenaq/worker"
)

// Run is the program.
func Run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("outbox", flag.ContinueOnError)
	address := flags.String("db", "sqlite:studio.db",
		"where the jobs are: sqlite:PATH or postgres://...")
	quality := flags.String("quality", "good", "the quality of what is transcoded")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	client := sqs.NewFromConfig(cfg)
	s, err := Open(ctx, *address)
	if err != nil {
		return err
	}
	defer s.Close()
	switch args := flags.Args(); {
	case len(args) > 1 && args[0] == "upload":
		return upload(ctx, s, args[1:])
	case len(args) == 1 && args[0] == "relay":
		return relay(ctx, s, client)
	case len(args) == 2 && args[0] == "work":
		return work(ctx, s, client, args[1], *quality)
	}
	return errors.New("usage: outbox [-db ADDRESS] [-quality WORD] upload VIDEO... | relay | work DIRECTORY")
}

// QueueName is the queue that rows of the outbox name.
const QueueName = "transcode"

// A Job is the body of a message. It contains all that a worker needs, because rows in the database
// may change before the worker reads them.
type Job struct {
	ID    string
	Video string
}

// upload writes a job for each video. A video that was uploaded before is known.
func upload(ctx context.Context, s *Studio, videos []string) error {
	for _, video := range videos {
		j := Job{ID: "job-of-" + video, Video: video}
		isNew, err := s.Upload(ctx, j, j.Message())
		switch {
		case err != nil:
			return err
		case isNew:
			log.Printf("%s: uploaded", video)
		default:
			log.Printf("%s: was uploaded before", video)
		}
	}
	return nil
}

// Message is the message about a job. Workers know the job again by its deduplication id.
func (j Job) Message() outbox.Message {
	body, _ := json.Marshal(j) // nothing in it can fail to be encoded
	return outbox.Message{Queue: QueueName, Key: j.Video, Type: "transcode_requested",
		Body: string(body), Dedup: j.ID}
}

// relay sends what is in the outbox. Any number of programs may do that; "tenaq outbox relay" is
// another one.
func relay(ctx context.Context, s *Studio, client outbox.SQS) error {
	r, err := outbox.New(outbox.Config{
		Box: s.Box, Client: client,
		Events: outbox.Events{
			Sent: func(r outbox.Row, messageID string) {
				log.Printf("%s: sent as message %s", r.Key, messageID)
			},
		},
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// lease is how long after the death of a worker its jobs come back. It does not depend on how long
// the work takes. The claim ends a little before the message comes back, so that the message does
// not find its job busy.
const lease = 30 * time.Second

// work transcodes until ctx ends.
func work(ctx context.Context, s *Studio, client *sqs.Client, directory, quality string) error {
	queue, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(QueueName)})
	if err != nil {
		return fmt.Errorf("find the queue: %w", err)
	}
	ledger, err := claims.New(claims.Config{Store: s.Records, Lease: lease * 2 / 3})
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{
		Client: client, QueueURL: *queue.QueueUrl, Claims: ledger, Lease: lease,
		Timeout: 10 * time.Minute, // a handler that hangs is alive, and renews its lease
		Handler: worker.JSON(func(ctx context.Context, j Job, m *worker.Message) error {
			if err := Write(filepath.Join(directory, j.Video+".txt"),
				Transcode(j.Video, quality)); err != nil {
				return err
			}
			return s.Done(ctx, j, m)
		}),
		Events: worker.Events{Outcome: func(m *worker.Message, o worker.Outcome) {
			log.Printf("%s, generation %d: attempt %d: %v", m.Key, m.Generation, m.Attempt(), o)
		}},
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// Transcode stands for what your program does.
func Transcode(video, quality string) []byte {
	return fmt.Appendf(nil, "%s in %s quality\n", video, quality)
}

// Write writes a file as a whole or not at all, as often as it likes.
func Write(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".part-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // which is not there any more when all went well
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
