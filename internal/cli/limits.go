package cli

import "time"

const (
	// BodyMax bounds what is read from a file or standard input, and what --bodies keeps and
	// fetches. It is more than any server accepts, so the server reports its own limit.
	BodyMax = 64 << 20

	// BatchBytes bounds the sum of a batch: what every SQS accepts, also one from before Amazon
	// raised the limit. A longer message is sent alone.
	BatchBytes = 256 << 10

	// BatchPause is how long a batch that is not full waits for another line.
	BatchPause = 100 * time.Millisecond
)
