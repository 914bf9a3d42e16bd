package enginetest

import (
	"fmt"

	"tenaq/internal/engine/verify"
	"tenaq/internal/kv"
)

// Audit verifies the rows of a store. It returns the first finding as an error, with the number of
// further ones.
func Audit(store kv.Store) error {
	var first error
	n := 0
	verify.Verifier{Store: store, Found: func(f verify.Finding) {
		if n++; first == nil {
			first = fmt.Errorf("queue %s, row %x: %s", f.Queue.Name, f.Key, f.Text)
		}
	}}.Run()
	if n > 1 {
		return fmt.Errorf("%w; and %d more", first, n-1)
	}
	return first
}
