// Command outbox takes uploads of videos and has each of them transcoded, once, whoever dies in between; and again
// when somebody asks for it.
//
//	outbox [-db ADDRESS] upload VIDEO...                writes a job for each video, and the message about it
//	outbox [-db ADDRESS] relay                          sends messages until it is interrupted
//	outbox [-db ADDRESS] [-quality WORD] work DIRECTORY transcodes into a directory until it is interrupted
//
// It finds the queue named transcode as every AWS SDK program does. The jobs are at the address: sqlite:PATH, with what
// workers know of each other in records.db beside it, or postgres://..., with both in the same database. The second is
// better: a job and the word that it is done are then one commit.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/outbox"
	"tenaq/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal("outbox: ", err)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("outbox", flag.ContinueOnError)
	address := flags.String("db", "sqlite:studio.db", "where the jobs are: sqlite:PATH or postgres://...")
	quality := flags.String("quality", "good", "the quality of what is transcoded")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	client := sqs.NewFromConfig(cfg)
	s, err := open(ctx, *address)
	if err != nil {
		return err
	}
	defer s.close()
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

// queueName is the queue that rows of the outbox name.
const queueName = "transcode"

// A job is the body of a message: all that a worker needs. What it looked up later might have changed.
type job struct {
	ID    string
	Video string
}

// upload writes a job for each video. A video that was uploaded before is known.
func upload(ctx context.Context, s *studio, videos []string) error {
	for _, video := range videos {
		j := job{ID: "job-of-" + video, Video: video}
		body, err := json.Marshal(j)
		if err != nil {
			return err
		}
		isNew, err := s.upload(ctx, j, outbox.Message{
			Queue: queueName, Key: video, Type: "transcode_requested", Body: string(body),
			Dedup: j.ID, // by which workers know the job again
		})
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

// relay sends what is in the outbox. Any number of programs may do that; "tenaq outbox relay" is another one.
func relay(ctx context.Context, s *studio, client outbox.SQS) error {
	r, err := outbox.NewRelay(outbox.Config{
		Box: s.box, Client: client,
		Events: outbox.Events{
			Sent: func(r outbox.Row, messageID string) { log.Printf("%s: sent as message %s", r.Key, messageID) },
		},
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// lease is how long after the death of a worker its jobs come back, not as long as the work takes. The claim ends a
// little before the message comes back, so that the message does not find its job busy.
const lease = 30 * time.Second

// work transcodes until ctx ends.
func work(ctx context.Context, s *studio, client *sqs.Client, directory, quality string) error {
	queue, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(queueName)})
	if err != nil {
		return fmt.Errorf("find the queue: %w", err)
	}
	ledger, err := claims.New(s.records, claims.Config{Lease: lease * 2 / 3})
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{
		Client: client, QueueURL: *queue.QueueUrl, Claims: ledger, Lease: lease,
		Timeout: 10 * time.Minute, // a handler that hangs is alive, and renews its lease
		Handler: worker.JSON(func(ctx context.Context, j job, m *worker.Message) error {
			if err := write(filepath.Join(directory, j.Video+".txt"), transcode(j.Video, quality)); err != nil {
				return err
			}
			return s.done(ctx, j, m)
		}),
		Events: worker.Events{
			Done: func(m *worker.Message, took time.Duration) {
				log.Printf("%s: done in %v, generation %d", m.Key, took, m.Generation)
			},
			Failed: func(m *worker.Message, err error, _ time.Duration) {
				log.Printf("%s: attempt %d: %v", m.Key, m.Attempt(), err)
			},
			Duplicate: func(m *worker.Message, _ *claims.Done) { log.Printf("%s: was done before", m.Key) },
		},
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// transcode stands for what your program does.
func transcode(video, quality string) []byte {
	return fmt.Appendf(nil, "%s in %s quality\n", video, quality)
}

// write writes a file as a whole or not at all, as often as it likes.
func write(path string, content []byte) error {
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
