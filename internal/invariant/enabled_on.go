//go:build invariants

package invariant

// Enabled says whether Costly checks run. Code that must prepare something for a costly check asks it
// first; it is a constant, so that the preparation vanishes with the check.
const Enabled = true
