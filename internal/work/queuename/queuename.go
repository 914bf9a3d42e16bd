// Package queuename extracts the name of a queue from its address.
//
// It asks no server: a URL and an ARN of SQS both end with the name.
package queuename

import "strings"

// Of returns the name of a queue that is given by its URL, its ARN or its name.
func Of(queue string) string { return queue[strings.LastIndexAny(queue, "/:")+1:] }

// IsFIFO reports whether a queue that is given by its URL, its ARN or its name is a FIFO queue.
func IsFIFO(queue string) bool { return strings.HasSuffix(queue, ".fifo") }
