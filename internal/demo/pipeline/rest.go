package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"tenaq/claims"
)

// A rest is what is left when the batch is done.
type rest struct {
	messages int // in the queue
	letters  map[string]letter
	held     int // claims
	entries  int
}

// A letter is what a dead letter says about itself.
type letter struct {
	attempts int
	reason   string
}

// count looks at what is left.
func (d *demo) count(ctx context.Context) (err error) {
	if d.rest.messages, err = d.queues.left(ctx, d.Client); err != nil {
		return err
	}
	_, failed := d.plan.fates()
	trails, err := d.queues.letters(ctx, d.Client, failed)
	if err != nil {
		return err
	}
	d.rest.letters = make(map[string]letter)
	for key, t := range trails {
		d.rest.letters[key] = letter{t.Attempts, t.Reason}
	}
	if d.ledger == nil {
		return nil
	}
	entries, err := d.ledger.List(ctx, "", "", 0)
	if err != nil {
		return err
	}
	d.rest.entries = len(entries)
	for _, e := range entries {
		if e.State == claims.Held {
			d.rest.held++
		}
	}
	return nil
}

// written compares what was written with what was to be downloaded.
func (d *demo) written() (identical, others int, err error) {
	names, err := os.ReadDir(d.settings.outFile(""))
	if err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		text, err := os.ReadFile(d.settings.outFile(name.Name()))
		if err != nil {
			return 0, 0, fmt.Errorf("compare what was written: %w", err)
		}
		if original, ok := d.source.texts[name.Name()]; ok && bytes.Equal(text, original) {
			identical++
		} else {
			others++
		}
	}
	return identical, others, nil
}
