package server

import (
	"errors"
	"fmt"
	"io/fs"

	"tenaq/internal/cluster/group"
	"tenaq/internal/cluster/node"
	"tenaq/internal/kv/pebblekv"
)

// Converted describes the first node of a cluster.
type Converted struct {
	Group  string `json:"group"`  // the identity of the store, which all nodes share
	Node   string `json:"node"`   // the id of the node
	Commit uint64 `json:"commit"` // the last one of the rows
}

// Convert makes the data directory of a single server that of the first node of a cluster. Other
// nodes will reach it at the address. Its rows, their identity and receipt handles stay. What the
// server had stays in "store.before-cluster" and "witness.before-cluster". Errors are of type
// *Error, or fs.ErrNotExist if there is no store. After a failure or a power cut the directory is
// that of the server, unchanged, or that of the node, complete.
func Convert(dir, advertise string) (c Converted, err error) {
	if err := checkDataDir(dir); err != nil {
		return c, err
	}
	if isNode(dir) {
		if err := checkKind(dir, true); err != nil {
			return c, err
		}
		return c, &Error{ErrInUse, fmt.Errorf("%s belongs to a node of a cluster already: start it with --cluster-listen", dir)}
	}
	fatal := oneSentence(nil)
	o := pebblekv.Options{Dir: dir, Fatal: func(err error) { fatal(storeError(dir, err)) }}
	done, err := pebblekv.Convert(o, pebblekv.Conversion{
		Log: node.LogDir(dir), Group: node.GroupDir(dir), Position: group.Founded,
		Adopt: func(log *pebblekv.Log, id pebblekv.ID) error {
			return node.Adopt(log, id, advertise)
		},
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, pebblekv.ErrDamaged):
		return c, err
	case errors.Is(err, pebblekv.ErrKept):
		return c, &Error{ErrInUse, err}
	case err != nil:
		return c, storeError(dir, err)
	}
	return Converted{done.Group.String(), done.Node.String(), done.Commit}, nil
}
