package shop

import (
	"context"
	"errors"
	"log"
	"time"

	"tenaq/claims"
)

// SendMails sends the mails in the outbox until ctx ends. Each mail is claimed, so several programs
// may do this, and no transaction stays open. Mail knows no idempotency key: if the program dies
// between sending and recording, that one mail is sent again, with the same Message-ID.
func (s *Shop) SendMails(ctx context.Context, mail func(key, text string)) error {
	ledger, err := claims.New(claims.Config{Store: s.Store, Prefix: "mail/"})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := s.sendWaiting(ctx, ledger, mail); err != nil && ctx.Err() == nil {
			log.Printf("send mails: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// sendWaiting sends the mails that wait.
func (s *Shop) sendWaiting(
	ctx context.Context, ledger *claims.Ledger, mail func(key, text string),
) error {
	waiting, err := s.Books.mails(ctx)
	if err != nil {
		return err
	}
	for key, text := range waiting {
		claim, err := ledger.Acquire(ctx, key)
		switch {
		case errors.Is(err, claims.Busy):
			continue // another program sends it
		case errors.Is(err, claims.Done):
		case err != nil:
			return err
		default:
			mail(key, text) // here the mail server is talked to
			if err := claim.Complete(ctx, nil); err != nil {
				return err
			}
		}
		if err := s.Books.mailed(ctx, key); err != nil {
			return err
		}
	}
	return nil
}
