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
	// LabelsMax is how many labels a record may have.
	LabelsMax = 16

	// LabelsBytes is how long the names and values of all labels of a record may be together, in
	// bytes.
	LabelsBytes = 16 << 10
)

// labelName is what a label may be called. Names of a backend's own attributes are taken.
var (
	labelName   = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,39}$`)
	labelsTaken = []string{"Key", "Value", "Version", "Expires", "TTL", "Nonce", "DueShard",
		"DueAt"}
)

// checkLabels returns an error when the labels of w are beyond the limits.
func (w *Write) checkLabels() error {
	if len(w.Labels) > LabelsMax {
		return fmt.Errorf("record %q has %d labels, %d are allowed", w.Key, len(w.Labels),
			LabelsMax)
	}
	bytes := 0
	for name, value := range w.Labels {
		bytes += len(name) + len(value)
		switch {
		case !labelName.MatchString(name):
			return fmt.Errorf("the label %q of record %q has no plain name: use a capital letter and up to 39 letters and digits", name, w.Key)
		case slices.Contains(labelsTaken, name):
			return fmt.Errorf("the label %q of record %q has a name that is taken: use another one",
				name, w.Key)
		case !utf8.ValidString(value):
			return fmt.Errorf("the label %q of record %q is not UTF-8", name, w.Key)
		}
	}
	if bytes > LabelsBytes {
		return fmt.Errorf("the labels of record %q have %d bytes, %d are allowed: shorten their values", w.Key, bytes, LabelsBytes)
	}
	return nil
}

// A DueLister is a Store with an index of Write.Due. Not every Store is one.
type DueLister interface {
	// ListDue returns up to limit records whose keys begin with prefix and whose Due is not after
	// until, the earliest first. It reads those and no others. It may miss what was written within
	// the last second. A limit below one, or above ListMax, is ListMax. ErrNoIndex says that there
	// is no index to use.
	ListDue(ctx context.Context, prefix string, until time.Time, limit int) ([]Record, error)
}

// ErrNoIndex is what ListDue answers where there is no index, or none that the caller may use.
var ErrNoIndex = errors.New("there is no index of what is due")
