package trail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/records"
)

// A message with ten attributes of its own has no room for its trail. Then the trail is a record,
// under the id of the message; on FIFO queues under its deduplication id, which is known before it
// is sent.

// AsideKept is how long such a record is kept: longer than a message can be in a queue.
const AsideKept = 15 * 24 * time.Hour

func asideKey(id string) string { return "trail/" + id }

// MayBeAside reports whether the trail of a message would be a record.
func MayBeAside(attributes map[string]types.MessageAttributeValue) bool {
	_, has := attributes[Attribute]
	return !has && len(attributes) >= AttributesMax
}

// PutAside writes the trail of a message down, over what was there.
func (t Trail) PutAside(ctx context.Context, store records.Store, id string) error {
	w := records.Write{Key: asideKey(id), Value: []byte(t.String()), TTL: AsideKept}
	for {
		_, err := store.Put(ctx, w)
		var conflict *records.Conflict
		if !errors.As(err, &conflict) {
			return err
		}
		if w.If = conflict.Current.Version; string(conflict.Current.Value) == string(w.Value) {
			return nil
		}
	}
}

// Aside reads the trail that was written down for a message; that of one without a trail if there
// is none.
func Aside(ctx context.Context, store records.Store, id string) (Trail, error) {
	found, err := store.Get(ctx, asideKey(id))
	if errors.Is(err, records.ErrNotFound) {
		return Trail{}, nil
	}
	if err != nil {
		return Trail{}, fmt.Errorf("look up what work message %s is: %w", id, err)
	}
	return parse(string(found.Value))
}
