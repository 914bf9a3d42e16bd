package records

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckKey returns an error when key cannot be the key of a record: it is empty, longer than
// KeyMax, not UTF-8, or holds a zero byte, which PostgreSQL cannot store. Get and Delete answer
// with that error.
func CheckKey(key string) error {
	switch {
	case key == "":
		return errors.New("a record needs a key")
	case len(key) > KeyMax:
		return fmt.Errorf("a key of %d bytes, %d are allowed", len(key), KeyMax)
	case !utf8.ValidString(key):
		return fmt.Errorf("the key %q is not UTF-8", key)
	case strings.ContainsRune(key, 0):
		return fmt.Errorf("the key %q has a zero byte", key)
	}
	return nil
}
