// Package dedupid makes deduplication ids of the names of work. Every name has one, the same each
// time, and no two names share one.
package dedupid

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Max is how long a deduplication id may be. [DEDUP-1]
const Max = 128

// hashed begins the deduplication ids of keys that are none themselves.
const hashed = "sha256-"

// Of is the deduplication id of an effect key: the key itself where SQS allows that, so that
// people recognise it, else its hash. Different keys have different ids.
func Of(key string) string {
	legal := len(key) <= Max && !strings.HasPrefix(key, hashed)
	for i := 0; legal && i < len(key); i++ {
		legal = key[i] > ' ' && key[i] <= '~' // letters, digits and punctuation of ASCII
	}
	if legal {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hashed + hex.EncodeToString(sum[:])
}
