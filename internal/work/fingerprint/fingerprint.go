// Package fingerprint groups failures that differ only in ids, numbers and times. Servers and
// libraries use the same function, so that both mean the same group by a name.
//
// A fingerprint depends on the class and the first line of the text alone. It stays the same across
// versions of this program, because redrivers keep fingerprints in their state.
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

// Normal returns the first line of a text in lower case, with # for each variable part.
func Normal(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = line[:min(len(line), normalMax)]
	return strings.Join(strings.Fields(strings.ToLower(variable.ReplaceAllString(line, "#"))), " ")
}

// Of returns the fingerprint of a failure. Either argument may be empty.
func Of(class, text string) string {
	n := Normal(text)
	if class != "" {
		n = class + ": " + n
	}
	if n == "" {
		return Unknown
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(n))
	return strconv.FormatUint(h.Sum64(), 36)
}
