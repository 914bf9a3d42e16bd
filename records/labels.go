package records

import (
	"context"
	"errors"
	"fmt"
	"regexp"
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

// labelName is the form of the names of labels. The names of a backend's own attributes are taken.
var (
	labelName   = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,39}$`)
	labelsTaken = []string{"Key", "Value", "Version", "Expires", "TTL", "Nonce", "DueShard",
		"DueAt"}
)

// checkLabels returns an error if the labels of w exceed the limits.
func (w *Write) checkLabels() error {
	if len(w.Labels) > LabelsMax {
		return fmt.Errorf("record %q has %d labels and %d are allowed", w.Key, len(w.Labels),
			LabelsMax)
	}
	bytes := 0
	for name, value := range w.Labels {
		bytes += len(name) + len(value)
		switch {
		case !labelName.MatchString(name):
			return fmt.Errorf("the label %q of record %q has an invalid name: use a capital letter and up to 39 letters and digits", name, w.Key)
		case slices.Contains(labelsTaken, name):
			return fmt.Errorf("the label %q of record %q has a reserved name: use another one",
				name, w.Key)
		case !utf8.ValidString(value):
			return fmt.Errorf("the label %q of record %q is not UTF-8", name, w.Key)
		}
	}
	if bytes > LabelsBytes {
		return fmt.Errorf("the labels of record %q have %d bytes and %d are allowed: shorten their values", w.Key, bytes, LabelsBytes)
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
