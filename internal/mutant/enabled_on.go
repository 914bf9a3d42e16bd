//go:build mutant

package mutant

import (
	"os"
	"strings"
)

// Enabled says whether this program can be a mutant.
const Enabled = true

var active = chosen(os.Getenv("TENAQ_MUTANT"))

// Is reports whether this program is the mutant m.
func Is(m Mutant) bool { return m == active }

// chosen returns the mutant of that name, which is none when the name is empty. A misspelt name would be a
// program without a bug, and a test that passes with it a wrong conclusion.
func chosen(name string) Mutant {
	if name == "" {
		return ""
	}
	var known []string
	for _, e := range Table {
		if string(e.Mutant) == name {
			return e.Mutant
		}
		known = append(known, string(e.Mutant))
	}
	panic("TENAQ_MUTANT is " + name + ", which is no mutant; there are:\n" + strings.Join(known, "\n"))
}
