package verify

import (
	"fmt"

	"tenaq/internal/kv"
)

// Check returns the first finding as an error, with the number of further ones.
func Check(store kv.Store) error {
	var first error
	n := 0
	Verifier{Store: store, Found: func(f Finding) {
		if n++; first == nil {
			first = fmt.Errorf("queue %s, row %x: %s", f.Queue.Name, f.Key, f.Text)
		}
	}}.Run()
	if n > 1 {
		return fmt.Errorf("%w; and %d more", first, n-1)
	}
	return first
}
