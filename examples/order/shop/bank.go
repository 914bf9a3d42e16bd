package shop

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// A bank simulates a slow payment provider. It writes its charges to a file, so that you can kill
// the program and see how often each card was charged.
type bank struct {
	file  string
	takes time.Duration
}

// Find returns the charge that was made with a key, or nothing. At a real provider that is a search
// for the key among the metadata of charges.
func (b bank) Find(_ context.Context, key string) (charge string, err error) {
	text, err := os.ReadFile(b.file)
	if err != nil && !os.IsNotExist(err) {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == key {
			charge = f[1]
		}
	}
	return charge, nil
}

// Charge charges a card. A real provider is given the key twice: as the idempotency key, which is
// an option of the request and no parameter of the charge, and as metadata.
func (b bank) Charge(ctx context.Context, key string, cents int) (charge string, err error) {
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-time.After(b.takes):
	}
	if charge, err = b.Find(ctx, key); charge != "" || err != nil {
		return charge, err // it has seen the key before
	}
	file, err := os.OpenFile(b.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	charge = fmt.Sprintf("ch-%d", time.Now().UnixNano())
	_, err = fmt.Fprintf(file, "%s %s %d\n", key, charge, cents)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return charge, err
}
