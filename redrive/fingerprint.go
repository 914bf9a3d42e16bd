package redrive

import "tenaq/internal/work/fingerprint"

// A Fingerprint groups failures that differ only in ids, numbers and times.
type Fingerprint string

// FingerprintOf returns the fingerprint of a reason. Dead letters without a reason, which other
// consumers or SQS made, have one in common.
func FingerprintOf(reason string) Fingerprint { return Fingerprint(fingerprint.Of(reason)) }
