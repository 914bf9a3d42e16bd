package producer

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// deduplicationMax is how long a deduplication id may be. [DEDUP-1]
const deduplicationMax = 128

// hashed begins the deduplication ids of keys that are none themselves.
const hashed = "sha256-"

// deduplicationID is the deduplication id of an effect key: the key itself where SQS allows that, so that
// people recognise it, else its hash. Different keys have different ids.
func deduplicationID(key string) string {
	legal := len(key) <= deduplicationMax && !strings.HasPrefix(key, hashed)
	for i := 0; legal && i < len(key); i++ {
		legal = key[i] > ' ' && key[i] <= '~' // letters, digits and punctuation of ASCII
	}
	if legal {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hashed + hex.EncodeToString(sum[:])
}
