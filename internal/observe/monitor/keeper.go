package monitor

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"

	"tenaq/internal/engine"
)

// A Keeper stores the alarms with their states as one document. Errors end with what to do.
type Keeper interface {
	// Load returns the document, nil if there is none.
	Load() ([]byte, error)

	// Store replaces the document. Once it returns nil, the document survives a crash.
	Store(document []byte) error

	// SetAside keeps a document that cannot be decoded from being replaced, and logs where it is
	// found from now on.
	SetAside(*slog.Logger) error
}

// Documents is what Rows needs of a broker.
type Documents interface {
	Do(ctx context.Context, op engine.Op) error
	Document(name string) ([]byte, bool)
}

// Names of the documents in a store.
const (
	rowName   = "alarms"
	asideName = "alarms.unreadable"
)

// rows keeps the document, compressed, as a row of the store of a cluster. Every node has it, and
// the one that leads uses it.
type rows struct {
	store Documents
	aside []byte // a row that could not be read, until it is stored under its other name
}

// Rows returns the Keeper of a node that leads a cluster.
func Rows(store Documents) Keeper { return &rows{store: store} }

func (r *rows) Load() ([]byte, error) {
	row, ok := r.store.Document(rowName)
	if !ok {
		return nil, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(row))
	if err != nil {
		return row, nil // which is no document either
	}
	document, err := io.ReadAll(z)
	if err != nil {
		return row, nil
	}
	return document, nil
}

func (r *rows) Store(document []byte) error {
	if r.aside != nil {
		if err := r.put(asideName, r.aside); err != nil {
			return err
		}
		r.aside = nil
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(document) // into memory
	_ = z.Close()
	if b.Len() > engine.DocumentMax {
		return fmt.Errorf("they take %d bytes, and a cluster stores at most %d: delete some alarms, or remove notes",
			b.Len(), engine.DocumentMax)
	}
	return r.put(rowName, b.Bytes())
}

func (r *rows) put(name string, value []byte) error {
	return r.store.Do(context.Background(), &engine.PutDocument{Name: name, Value: value})
}

// SetAside is carried out by the next Store, because nothing can be written before the broker runs.
func (r *rows) SetAside(logger *slog.Logger) error {
	r.aside, _ = r.store.Document(rowName)
	logger.Error("cannot read the stored alarms: they are damaged or from another version, and are kept as another document; create the alarms again", "document", asideName)
	return nil
}
