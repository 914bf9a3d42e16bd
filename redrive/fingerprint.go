package redrive

import (
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
)

// A Fingerprint groups failures that are the same but for ids, numbers and times.
type Fingerprint string

// What differs between two failures of one kind, in the order in which it is looked for.
var variable = regexp.MustCompile(strings.Join([]string{
	`"[^"]*"`, `'[^']*'`, `https?://\S+`, // what is quoted, and addresses
	`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`, // UUIDs
	`\b0x[0-9a-fA-F]+\b`, `\b[0-9a-fA-F]*[0-9][0-9a-fA-F]{7,}\b`, // hexadecimal
	`[0-9]+([.:,/-][0-9]+)*`, // numbers, times, dates, addresses
}, "|"))

// normalMax is how much of a reason is looked at, in bytes. What comes later is mostly a trace.
const normalMax = 300

// normal is a reason without what is different each time.
func normal(reason string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(reason), "\n")
	line = line[:min(len(line), normalMax)]
	return strings.Join(strings.Fields(strings.ToLower(variable.ReplaceAllString(line, "#"))), " ")
}

// FingerprintOf is the fingerprint of a reason. Dead letters that carry none, because no worker of
// this project wrote them, have one in common.
func FingerprintOf(reason string) Fingerprint {
	n := normal(reason)
	if n == "" {
		return "unknown"
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(n))
	return Fingerprint(strconv.FormatUint(h.Sum64(), 36))
}
