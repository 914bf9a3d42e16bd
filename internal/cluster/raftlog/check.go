package raftlog

import (
	"bytes"
	"fmt"
	"iter"
)

// Check reads the rows of a log of one group, in the order of their keys. It calls found for each
// row that is not in the expected form, and for each gap between entries. It returns the indexes of
// the oldest and the newest entry, zero when there is none.
func Check(
	rows iter.Seq2[[]byte, []byte], found func(key []byte, text string),
) (first, last uint64) {
	for key, value := range rows {
		entry := bytes.HasPrefix(key, []byte{familyEntry})
		switch {
		case len(value) == 0 || value[0] != rowFormat,
			entry && (len(key) != 13 || len(value) < 10),
			!entry && (key[0] != familyStable || len(key) < 5):
			found(key, "the row is not in the expected form, or is of a newer version of this program")
		case entry && first == 0:
			first, last = indexOf(key), indexOf(key)
		case entry:
			index := indexOf(key)
			if index != last+1 {
				found(key, fmt.Sprintf("entry %d of the log follows entry %d, and those between are missing",
					index, last))
			}
			last = index
		}
	}
	return first, last
}
