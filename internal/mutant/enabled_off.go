//go:build !mutant

package mutant

// Enabled says whether this program can be a mutant.
const Enabled = false

// Is reports whether this program is the mutant m.
func Is(m Mutant) bool { return false }
