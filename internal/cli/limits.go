package cli

import (
	"time"
)

const (
	WaitMax       = 20 * time.Second // what SQS allows
	VisibilityMax = 12 * time.Hour
)

const (
	DelayMax = 15 * time.Minute // what SQS allows

	// BodyMax bounds what is read from a file or standard input, and what --bodies keeps and fetches: more
	// than any server accepts, so that the server's own limit is the one that is heard of.
	BodyMax = 64 << 20
)

const (
	BatchMax = 10 // entries of a batch in SQS

	// BatchBytes bounds the sum of a batch: what every SQS takes, also one from before Amazon raised the
	// limit. A longer message travels alone.
	BatchBytes = 256 << 10

	// BatchPause is how long a batch that is not full waits for another line.
	BatchPause = 100 * time.Millisecond
)
