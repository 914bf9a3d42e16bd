package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Limits of the labels of a record.
const (
	// LabelsMax is the maximum number of labels of a record.
	LabelsMax = 16

	// LabelsBytes is the maximum size of all names and values of the labels of a record, in bytes.
	LabelsBytes = 16 << 10
)

// labelsTaken are the names of a backend's own attributes.
var labelsTaken = []string{"Key", "Value", "Version", "Expires", "TTL", "Nonce", "DueShard",
	"DueAt"}

// isLabelName reports whether a label can have the name: a capital letter and up to 39 letters and
// digits. It is no regular expression because each claim checks many names.
func isLabelName(name string) bool {
	for i, c := range []byte(name) {
		switch {
		case 'A' <= c && c <= 'Z':
		case i > 0 && ('a' <= c && c <= 'z' || '0' <= c && c <= '9'):
		default:
			return false
		}
	}
	return 0 < len(name) && len(name) <= 40
}

// checkLabels returns an error if the labels of w exceed the limits.
func (w *Write) checkLabels() error {
	if len(w.Labels) > LabelsMax {
		return fmt.Errorf("record %q has %d labels, and %d are allowed: leave some out", w.Key, len(w.Labels),
			LabelsMax)
	}
	bytes := 0
	for name, value := range w.Labels {
		bytes += len(name) + len(value)
		switch {
		case !isLabelName(name):
			return fmt.Errorf("the label %q of record %q has an invalid name: use a capital letter and up to 39 letters and digits", name, w.Key)
		case slices.Contains(labelsTaken, name):
			return fmt.Errorf("the label %q of record %q has a reserved name: use another one",
				name, w.Key)
		case !utf8.ValidString(value):
			return fmt.Errorf("the label %q of record %q is not UTF-8", name, w.Key)
		}
	}
	if bytes > LabelsBytes {
		return fmt.Errorf("the labels of record %q have %d bytes, and %d are allowed: shorten their values", w.Key, bytes, LabelsBytes)
	}
	return nil
}

// A DueLister is a Store with an index of Write.Due. Not every Store is one.
type DueLister interface {
	// ListDue returns up to limit records whose keys begin with prefix and whose Due is not after
	// until, the earliest first. It reads only those records. It may miss writes of the last
	// second. A limit below one or above ListMax means ListMax. It returns ErrNoIndex if it can use
	// no index.
	ListDue(ctx context.Context, prefix string, until time.Time, limit int) ([]Record, error)
}

// ErrNoIndex is the error of ListDue if there is no index, or none that the caller may use.
var ErrNoIndex = errors.New("there is no index of what is due")
