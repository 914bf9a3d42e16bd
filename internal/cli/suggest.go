package cli

import "strings"

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
