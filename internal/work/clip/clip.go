// Package clip shortens texts to the length that a store or a protocol accepts. It counts bytes,
// because all limits of SQS and of the record stores are in bytes.
package clip

import (
	"strings"
	"unicode/utf8"
)

// To returns at most the first n bytes of s and cuts no character in half. Bytes that are not UTF-8
// become a question mark, because SQS and several stores refuse them.
func To(s string, n int) string {
	if len(s) > n {
		s = s[:n]
		for i := n - 1; i >= max(0, n-utf8.UTFMax); i-- {
			if utf8.RuneStart(s[i]) {
				if !utf8.FullRuneInString(s[i:]) {
					s = s[:i]
				}
				break
			}
		}
	}
	return strings.ToValidUTF8(s, "?")
}
