// Package dedupid derives deduplication ids from effect keys. A key always has the same id, and no
// two keys share one.
package dedupid

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"tenaq/internal/work/sqslimits"
)

// hashed begins the deduplication ids of keys that SQS does not allow as ids.
const hashed = "sha256-"

// Of returns the deduplication id of an effect key: the key itself if SQS allows it, so that people
// recognize it, otherwise its hash.
func Of(key string) string {
	legal := len(key) <= sqslimits.IDMax && !strings.HasPrefix(key, hashed)
	for i := 0; legal && i < len(key); i++ {
		legal = key[i] > ' ' && key[i] <= '~' // letters, digits and punctuation of ASCII
	}
	if legal {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hashed + hex.EncodeToString(sum[:])
}
