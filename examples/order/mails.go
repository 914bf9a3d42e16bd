package main

import (
	"context"
	"errors"
	"log"
	"time"

	"tenaq/claims"
)

// sendMails sends what is in the outbox until ctx ends. Each mail is claimed, so that several programs may do this,
// and no transaction is open meanwhile. Mail knows no idempotency key: should the program die between sending and
// saying so, that one mail is sent again, with the same Message-ID.
func sendMails(ctx context.Context, b *books, ledger *claims.Ledger) {
	for ctx.Err() == nil {
		if err := sendWaiting(ctx, b, ledger); err != nil && ctx.Err() == nil {
			log.Printf("send mails: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// sendWaiting sends the mails that wait.
func sendWaiting(ctx context.Context, b *books, ledger *claims.Ledger) error {
	waiting, err := b.mails(ctx)
	if err != nil {
		return err
	}
	for key, mail := range waiting {
		claim, err := ledger.Acquire(ctx, key)
		var busy *claims.Busy
		var done *claims.Done
		switch {
		case errors.As(err, &busy):
			continue // somebody else is at it
		case errors.As(err, &done):
		case err != nil:
			return err
		default:
			log.Printf("mail <%s@shop.example>: %s", key, mail) // here the mail server is talked to
			if err := claim.Complete(ctx, nil); err != nil {
				return err
			}
		}
		if err := b.mailed(ctx, key); err != nil {
			return err
		}
	}
	return nil
}
