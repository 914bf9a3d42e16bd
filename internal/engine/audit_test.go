package engine

import (
	"fmt"

	"tenaq/internal/kv"
)

// Audit returns what an Auditor finds first.
func Audit(store kv.Store) error {
	var first error
	n := 0
	Auditor{Store: store, Found: func(f Finding) {
		if n++; first == nil {
			first = fmt.Errorf("queue %s, row %x: %s", f.Queue.Name, f.Key, f.Text)
		}
	}}.Run()
	if n > 1 {
		return fmt.Errorf("%w; and %d more", first, n-1)
	}
	return first
}
