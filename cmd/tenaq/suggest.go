package main

import "strings"

// nearest returns the candidate that was probably meant by word, or "" when none is close.
func nearest(word string, candidates []string) string {
	best, distance := "", 3 // two slips of the finger, not more
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(word), strings.ToLower(c)); d < distance && d < len(c)/2 {
			best, distance = c, d
		}
	}
	return best
}

// didYouMean returns the nearest candidate as the end of a sentence, or "".
func didYouMean(word string, candidates []string) string {
	if near := nearest(word, candidates); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// editDistance counts the insertions, deletions and replacements of bytes that turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
