// Command outbox accepts uploads of videos. Each video is transcoded once, whichever process dies
// in between, and again when it is replayed.
//
//	outbox [-db ADDRESS] upload VIDEO...                writes a job for each video, and the message about it
//	outbox [-db ADDRESS] relay                          sends messages until it is interrupted
//	outbox [-db ADDRESS] [-quality WORD] work DIRECTORY transcodes into a directory until it is interrupted
//
// It finds the queue named transcode as every AWS SDK program does. The jobs are at the address:
// sqlite:PATH, with records of the workers in records.db beside it, or postgres://..., with both in
// the same database. The second is better: a job and the record that it is done are then one
// commit.
//
// Package studio is the program.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"tenaq/examples/outbox/studio"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := studio.Run(ctx, os.Args[1:]); err != nil {
		log.Fatal("outbox: ", err)
	}
}
