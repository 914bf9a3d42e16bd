package engine

import (
	"fmt"

	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// DocumentMax is the size of the largest document, in bytes.
const DocumentMax = 1 << 20

// PutDocument stores something small that the server keeps beside the queues, such as its alarms,
// and replaces what had the same name.
type PutDocument struct {
	Name  string
	Value []byte // at most DocumentMax
}

// Class is the last to be refused under overload: documents are few, and written rarely.
func (op *PutDocument) Class() Class { return ClassDelete }

func (op *PutDocument) apply(e *Engine, _ *Command) *Error {
	switch n := len(op.Value); {
	case op.Name == "":
		return errMissing("Name")
	case n > DocumentMax:
		return refuse(CodeOverLimit, fmt.Sprintf(
			"The document %s has %d bytes, and at most %d can be stored.", op.Name, n, DocumentMax))
	}
	e.rows.set(row.DocumentKey(op.Name), row.EncodeDocument(e.rows.scratch(), op.Value))
	return nil
}

// ReadDocument reads a document; false if there is none. It may be called on any goroutine, and
// sees every turn that was committed before. It reports a row that does not decode to fault, which
// must not return.
func ReadDocument(store kv.Store, name string, fault func(string)) (document []byte, ok bool) {
	r := rows{store: store, fault: fault}
	return read(&r, "document", row.DocumentKey(name), row.DecodeDocument)
}

// DropDocuments removes all documents from a copy of a store. A single server, which the copy is
// for, keeps them in files.
func DropDocuments(b kv.Batch) {
	b.DeleteRange([]byte{row.FamilyDocument}, []byte{row.FamilyDocument + 1})
}
