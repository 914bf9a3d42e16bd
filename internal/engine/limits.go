package engine

import "tenaq/internal/work/sqslimits"

// This package does not import time, so that nothing in it can read a clock.
const (
	second      = 1_000_000_000 // of a time.Duration
	millisecond = 1_000_000
)

// The limits of SQS in the units of requests and attributes: seconds.
const (
	delayMax      = int64(sqslimits.DelayMax / second)
	visibilityMax = int64(sqslimits.VisibilityMax / second)
	waitMax       = int64(sqslimits.WaitMax / second)
	retentionMin  = int64(sqslimits.RetentionMin / second)
	retentionMax  = int64(sqslimits.RetentionMax / second)
)
