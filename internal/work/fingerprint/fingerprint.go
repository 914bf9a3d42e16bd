// Package fingerprint groups failures that differ only in ids, numbers and times. Servers and
// libraries use the same function, so a name means the same group to both.
//
// A fingerprint depends on the first line of the reason alone. That begins with the class of the
// error, if there is one. It stays the same across versions of this program, because redrivers keep
// fingerprints in their state.
package fingerprint

import (
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
)

// Unknown is the fingerprint of failures without a reason, such as those of dead letters that SQS
// made.
const Unknown = "unknown"

// variable matches what may differ between two failures of one kind.
var variable = regexp.MustCompile(strings.Join([]string{
	`"[^"]*"`, `'[^']*'`, `https?://\S+`, // quotations and addresses
	`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`, // UUIDs
	`\b0x[0-9a-fA-F]+\b`, `\b[0-9a-fA-F]*[0-9][0-9a-fA-F]{7,}\b`, // hexadecimal
	`[0-9]+([.:,/-][0-9]+)*`, // numbers, times, dates, addresses
}, "|"))

// normalMax is how much of a text counts, in bytes. The rest is usually a stack trace.
const normalMax = 300

// Mask returns a text with # for each variable part.
func Mask(text string) string { return variable.ReplaceAllString(text, "#") }

// Normal returns the first line of a text in lower case, with # for each variable part.
func Normal(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = line[:min(len(line), normalMax)]
	return strings.Join(strings.Fields(strings.ToLower(Mask(line))), " ")
}

// Of returns the fingerprint of a failure with a reason, Unknown if that is empty.
func Of(reason string) string {
	n := Normal(reason)
	if n == "" {
		return Unknown
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(n))
	return strconv.FormatUint(h.Sum64(), 36)
}
