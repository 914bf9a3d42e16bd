// Command pipeline downloads each file of a batch once, even if processes run twice or die
// half-way.
//
//	pipeline send BATCH FILE...        registers files by their names and enqueues them
//	pipeline work SOURCE DIRECTORY     downloads SOURCE/NAME into the directory, until it is interrupted
//
// It finds the queue data-download-queue.fifo as every AWS SDK program does. Producers and workers
// share records.db, or the SQLite file that PIPELINE_RECORDS names.
//
// Package download is the program.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"tenaq/examples/pipeline/download"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := download.Run(ctx, os.Args[1:]); err != nil {
		log.Fatal("pipeline: ", err)
	}
}
