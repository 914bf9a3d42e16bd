//go:build mutant

package mutant

import "os"

// Enabled says whether this program can be a mutant.
const Enabled = true

var active = chosen(os.Getenv("TENAQ_MUTANT"))

// Is reports whether this program is the mutant m.
func Is(m Mutant) bool { return m == active }
