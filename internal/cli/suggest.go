package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Nearest returns the candidate that was probably meant by word, or "" when none is close.
func Nearest(word string, candidates []string) string {
	best, distance := "", 3 // two slips of the finger, not more
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(word), strings.ToLower(c)); d < distance &&
			d < len(c)/2 {
			best, distance = c, d
		}
	}
	return best
}

// DidYouMean returns the nearest candidate as the end of a sentence, or "".
func DidYouMean(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// listMax is how many commands are listed in an error.
const listMax = 8

// SuggestCommand says which command of a group was probably meant, or which there are.
func SuggestCommand(group *cobra.Command, word string) string {
	var names []string
	for _, c := range group.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	switch near := DidYouMean(word, names); {
	case near != "":
		return near
	case len(names) <= listMax:
		return "; there are: " + strings.Join(names, ", ")
	}
	return "; see: " + group.CommandPath() + " --help"
}

// SuggestFlag says which flag was probably meant by one that err says is unknown, or "".
func SuggestFlag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			names = append(names, "--"+flag.Name)
		}
	})
	return DidYouMean("--"+unknown.GetSpecifiedName(), names)
}

// editDistance counts the insertions, deletions and replacements of bytes, and the exchanges of
// neighbours, that turn a into b.
func editDistance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, above, row = above, row, before
		row[0] = i + 1
		for j := range len(b) {
			replace := above[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
