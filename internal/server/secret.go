package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"

	"tenaq/internal/api/handle"
	"tenaq/internal/kv"
)

// secretKey is the row with the key that seals receipt handles. Handles stay valid across restarts
// because the key stays with the messages. [HND-18]
var secretKey = []byte{0x03}

const secretVersion = 1

// sealKey returns the key that seals receipt handles, drawn when the store is new. Only the writer
// of the store may ask for it.
func sealKey(store kv.Store) ([]byte, error) {
	if value, ok := store.Get(nil, secretKey); ok {
		if len(value) != 1+handle.KeySize || value[0] != secretVersion {
			return nil, &Error{ErrDamaged, errors.New("cannot read the key of receipt handles in the store: " +
				"use the version of tenaq that wrote it, or restore the last backup")}
		}
		return value[1:], nil
	}
	value := newSecret()
	batch := store.NewBatch()
	batch.Set(secretKey, value)
	if err := batch.Force()(); err != nil {
		return nil, &Error{ErrStorage, err}
	}
	return value[1:], nil
}

// tokenSecret derives the secret of bearer tokens from the key of receipt handles. So tokens stay
// valid across restarts as well, and on every node that may lead. [V1-6]
func tokenSecret(key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("tenaq bearer tokens"))
	return mac.Sum(nil)
}

func newSecret() []byte {
	value := make([]byte, 1+handle.KeySize)
	value[0] = secretVersion
	rand.Read(value[1:])
	return value
}
