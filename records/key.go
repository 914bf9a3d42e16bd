package records

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckKey returns an error if key cannot be the key of a record, because it is empty, longer than
// KeyMax, not UTF-8, or has a zero byte, which PostgreSQL cannot store. Every method of a Store
// checks its keys.
func CheckKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key of a record is empty: name what the record is about")
	case len(key) > KeyMax:
		return fmt.Errorf("a key has %d bytes, and %d are allowed: use a hash of it", len(key), KeyMax)
	case !utf8.ValidString(key):
		return fmt.Errorf("the key %q is not UTF-8: encode it, in base64 for example", key)
	case strings.ContainsRune(key, 0):
		return fmt.Errorf("the key %q has a zero byte: encode it, in base64 for example", key)
	}
	return nil
}

// CheckList returns the limit of a List or a ListDue of a Store, or an error if a bound that is not
// empty cannot be a key.
func CheckList(limit int, bounds ...string) (int, error) {
	for _, bound := range bounds {
		if bound != "" {
			if err := CheckKey(bound); err != nil {
				return 0, err
			}
		}
	}
	if limit < 1 || limit > ListMax {
		limit = ListMax
	}
	return limit, nil
}
