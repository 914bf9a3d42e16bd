package cli

import (
	"strings"

	"github.com/spf13/pflag"
)

// A Pick chooses among things that await a decision: by the beginnings of their ids, by a shared
// property, or all of them. Unless --run is set, several things are only listed.
type Pick struct {
	Verb string // what the command does: release
	// what the things are called: row, rows; Many is also their member of a JSON document
	One, Many string
	List      string // the command that lists them
	By        string // the flag with the property: queue
	Always    bool   // --run is needed for one thing, too

	value    string // of the property
	all, run bool
	ids      []string
	matches  []int // of each id
}

// PickAll picks everything, for a command that lists.
func PickAll() *Pick { return &Pick{all: true} }

// Register adds the flags. what begins their help: "release".
func (p *Pick) Register(flags *pflag.FlagSet, what string) {
	flags.StringVar(&p.value, p.By, "", what+" all "+p.Many+" of this `"+p.By+"`")
	flags.BoolVar(&p.all, "all", false, what+" all "+p.Many)
	run := "do it; without this flag the " + p.Many + " are only listed"
	if !p.Always {
		run = "needed for more than one " + p.One + "; else they are listed"
	}
	flags.BoolVar(&p.run, "run", false, run)
}

// Choose takes the ids of a command line. There has to be one way of choosing.
func (p *Pick) Choose(ids []string) error {
	p.ids, p.matches = ids, make([]int, len(ids))
	ways := 0
	for _, given := range []bool{len(ids) > 0, p.value != "", p.all} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return Usagef("which %s? Give an id, --%s or --all to %s, and only one of the three",
			p.Many, p.By, p.Verb)
	}
	return nil
}

// Wants reports whether a thing is chosen. Call it once for each.
func (p *Pick) Wants(id, value string) bool {
	wanted := p.all || p.value != "" && value == p.value
	for i, beginning := range p.ids {
		if beginning != "" && strings.HasPrefix(id, beginning) {
			p.matches[i]++
			wanted = true
		}
	}
	return wanted
}

// Check reports ids that were not found or are ambiguous. Wants was asked about all things in a
// place before, and chose found of them. hint ends the sentence about a missing id; the default
// names the command that lists the things.
func (p *Pick) Check(place string, found int, hint string) error {
	if hint == "" {
		hint = "; see: " + p.List
	}
	for i, id := range p.ids {
		switch {
		case p.matches[i] == 0:
			return Codedf(ExitNotFound, "no %s in %s has an id that begins with %q%s", p.One, place,
				id, hint)
		case p.matches[i] > 1:
			return Usagef("the ids of %d %s begin with %q; add more of the id", p.matches[i],
				p.Many, id)
		}
	}
	if found == 0 && p.value != "" {
		return Codedf(ExitNotFound, "no %s in %s has the %s %q; see: %s", p.One, place, p.By,
			p.value, p.List)
	}
	return nil
}

// Previews reports whether the things are only to be listed.
func (p *Pick) Previews(found int) bool { return !p.run && (p.Always || found > 1) }

// NotePreview says what was not done.
func (p *Pick) NotePreview(a *App, found int) {
	a.Note("nothing was done; add --run to %s %s", p.Verb, Counted(found, p.One, p.Many))
}
