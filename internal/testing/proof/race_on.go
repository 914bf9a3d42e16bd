//go:build race

package proof

// Race reports whether the race detector watches.
const Race = true
