package outboxtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"tenaq/outbox"
)

// A memoryReplay is a replay with what was staged for it.
type memoryReplay struct {
	outbox.Replay
	staged []string // ids
}

// look finds what a source names, in order.
func (b *Memory) look(s *outbox.Source) (found []outbox.Past, err error) {
	if s.Where != "" || s.Query != "" {
		return nil, fmt.Errorf("%w: a box in memory knows no SQL", outbox.ErrSource)
	}
	sent := slices.SortedFunc(maps.Values(b.sent), func(x, y memorySent) int {
		return cmp.Compare(x.seq, y.seq)
	})
	for _, row := range sent {
		past := outbox.Past{Message: row.Message, SentAt: row.at, SentTo: row.SentTo,
			MessageID: row.MessageID}
		if has(s, &past) {
			found = append(found, past)
		}
	}
	return found, nil
}

// Look implements outbox.History.
func (b *Memory) Look(
	ctx context.Context, s outbox.Source, few int,
) (count int, first []outbox.Past, err error) {
	err = b.call(ctx, "Look", func(time.Time) error {
		found, err := b.look(&s)
		count, first = len(found), found[:min(few, len(found))]
		return err
	})
	return count, first, err
}

// Walk implements outbox.History.
func (b *Memory) Walk(ctx context.Context, s outbox.Source, each func(outbox.Past) error) error {
	return b.call(ctx, "Walk", func(time.Time) error {
		found, err := b.look(&s)
		if err != nil {
			return err
		}
		for _, past := range found {
			if err := each(past); err != nil {
				return err
			}
		}
		return nil
	})
}

// BeginReplay implements outbox.History.
func (b *Memory) BeginReplay(ctx context.Context, r outbox.Replay) (outbox.Replay, error) {
	err := b.call(ctx, "BeginReplay", func(now time.Time) error {
		r.Number, r.Version, r.Created, r.Updated = int64(len(b.books))+1, 1, now, now
		b.books = append(b.books, &memoryReplay{Replay: r})
		return nil
	})
	return r, err
}

// book finds a replay.
func (b *Memory) book(number int64) (*memoryReplay, error) {
	if number < 1 || number > int64(len(b.books)) {
		return nil, outbox.ErrNoReplay
	}
	return b.books[number-1], nil
}

// StageReplay implements outbox.History.
func (b *Memory) StageReplay(ctx context.Context, number int64) (r outbox.Replay, err error) {
	err = b.call(ctx, "StageReplay", func(now time.Time) error {
		book, err := b.book(number)
		if err != nil {
			return err
		}
		if book.State == outbox.Preparing {
			found, err := b.look(&book.Source)
			if err != nil {
				return err
			}
			for _, past := range found {
				book.staged = append(book.staged, past.ID)
			}
			book.State, book.Found, book.Updated = outbox.Running, len(found), now
			book.Version++
		}
		r = book.Replay
		return nil
	})
	return r, err
}

// Staged implements outbox.History.
func (b *Memory) Staged(
	ctx context.Context, number, place int64, limit int,
) (staged []outbox.Staged, err error) {
	err = b.call(ctx, "Staged", func(time.Time) error {
		book, err := b.book(number)
		if err != nil {
			return err
		}
		for ; int(place) < len(book.staged) && len(staged) < limit; place++ {
			s := outbox.Staged{Place: place + 1, Message: outbox.Message{ID: book.staged[place]}}
			if row, ok := b.sent[s.ID]; ok {
				s.Message = row.Message
			} else {
				s.Gone = true
			}
			staged = append(staged, s)
		}
		return nil
	})
	return staged, err
}

// StepReplay implements outbox.History.
func (b *Memory) StepReplay(
	ctx context.Context, r outbox.Replay, rows []outbox.Message,
) (outbox.Replay, error) {
	err := b.call(ctx, "StepReplay", func(now time.Time) error {
		book, err := b.book(r.Number)
		switch {
		case err != nil:
			return err
		case book.Version != r.Version:
			return outbox.ErrMoved
		}
		before := len(b.rows)
		for _, m := range rows {
			if !b.has(m.ID) {
				b.insert([]outbox.Message{m})
			}
		}
		r.Version, r.Updated, r.Written = r.Version+1, now, r.Written+len(b.rows)-before
		book.Replay = r
		if r.AtEnd() {
			book.staged = nil
		}
		return nil
	})
	return r, err
}

// Replay implements outbox.History.
func (b *Memory) Replay(ctx context.Context, number int64) (r outbox.Replay, err error) {
	err = b.call(ctx, "Replay", func(time.Time) error {
		book, err := b.book(number)
		if err == nil {
			r = book.Replay
		}
		return err
	})
	return r, err
}

// Replays implements outbox.History.
func (b *Memory) Replays(ctx context.Context, limit int) (newest []outbox.Replay, err error) {
	err = b.call(ctx, "Replays", func(time.Time) error {
		for i := len(b.books) - 1; i >= 0 && len(newest) < limit; i-- {
			newest = append(newest, b.books[i].Replay)
		}
		return nil
	})
	return newest, err
}

// has reports whether a source without SQL includes a message.
func has(s *outbox.Source, p *outbox.Past) bool {
	in := func(values []string, value string) bool {
		return len(values) == 0 || slices.Contains(values, value)
	}
	return !p.SentAt.Before(s.From) && p.SentAt.Before(s.To) && in(s.Queues, p.Queue) &&
		in(s.Types, p.Type) && in(s.Keys, p.Key)
}
