package redrive

import (
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
)

// A Fingerprint groups failures that differ only in ids, numbers and times.
type Fingerprint string

// variable matches what may differ between two failures of one kind.
var variable = regexp.MustCompile(strings.Join([]string{
	`"[^"]*"`, `'[^']*'`, `https?://\S+`, // quotations and addresses
	`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`, // UUIDs
	`\b0x[0-9a-fA-F]+\b`, `\b[0-9a-fA-F]*[0-9][0-9a-fA-F]{7,}\b`, // hexadecimal
	`[0-9]+([.:,/-][0-9]+)*`, // numbers, times, dates, addresses
}, "|"))

// normalMax is how much of a reason counts, in bytes. The rest is usually a stack trace.
const normalMax = 300

// normal returns a reason without its variable parts.
func normal(reason string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(reason), "\n")
	line = line[:min(len(line), normalMax)]
	return strings.Join(strings.Fields(strings.ToLower(variable.ReplaceAllString(line, "#"))), " ")
}

// FingerprintOf returns the fingerprint of a reason. Dead letters without a reason, which other
// consumers or SQS made, have one in common.
func FingerprintOf(reason string) Fingerprint {
	n := normal(reason)
	if n == "" {
		return "unknown"
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(n))
	return Fingerprint(strconv.FormatUint(h.Sum64(), 36))
}
