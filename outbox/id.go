package outbox

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// NewID returns an ID for a Message: a UUID of version 7. It begins with the time in milliseconds,
// so rows that are written together are stored together.
func NewID() string {
	var id [16]byte
	_, _ = rand.Read(id[6:]) // which never fails
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x70
	return uuidText(id)
}

// uuidText formats an id, with the variant of RFC 9562.
func uuidText(id [16]byte) string {
	id[8] = id[8]&0x3f | 0x80
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
