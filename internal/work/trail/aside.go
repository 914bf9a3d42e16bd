package trail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/sqslimits"
	"tenaq/records"
)

// A message with ten attributes of its own has no room for its trail. Its trail is then a record
// under the id of the message, or on FIFO queues under its deduplication id, which is known before
// the message is sent.

// AsideKept is how long the record is kept: longer than a message can stay in a queue.
const AsideKept = 15 * 24 * time.Hour

func asideKey(id string) string { return "trail/" + id }

// MayBeAside reports whether a message has no room for its trail.
func MayBeAside(attributes map[string]types.MessageAttributeValue) bool {
	_, has := attributes[Attribute]
	return !has && len(attributes) >= sqslimits.AttributesMax
}

// PutAside stores the trail of a message and replaces an earlier one.
func (t Trail) PutAside(ctx context.Context, store records.Store, id string) error {
	w := records.Write{Key: asideKey(id), Value: []byte(t.String()), TTL: AsideKept}
	for {
		_, err := store.Put(ctx, w)
		conflict, ok := errors.AsType[*records.Conflict](err)
		if !ok {
			return err
		}
		if w.If = conflict.Current.Version; string(conflict.Current.Value) == string(w.Value) {
			return nil
		}
	}
}

// Aside returns the stored trail of a message, or the zero value.
func Aside(ctx context.Context, store records.Store, id string) (Trail, error) {
	found, err := store.Get(ctx, asideKey(id))
	if errors.Is(err, records.ErrNotFound) {
		return Trail{}, nil
	}
	if err != nil {
		return Trail{}, fmt.Errorf("look up the work of message %s: %w", id, err)
	}
	return parse(string(found.Value))
}
