package redrive

import (
	"cmp"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/sqsqueue"
)

// A Silence says how to judge a message that does not come back, without a ledger and on a server
// that does not say what was deleted.
type Silence struct {
	Visibility time.Duration // the visibility timeout of its queue
	Receives   int           // how often it is received before it is a dead letter again
	Step       time.Duration // time between two steps
	FIFO       bool          // whether the queue is a FIFO queue
}

// silenceOf returns the Silence of a queue with these attributes.
func silenceOf(attributes map[string]string, p *Policy, step time.Duration, fifo bool) Silence {
	policy, _ := sqsqueue.PolicyOf(attributes) // an unreadable one counts as none
	visibility, _ := strconv.Atoi(attributes[string(types.QueueAttributeNameVisibilityTimeout)])
	return Silence{
		Visibility: time.Duration(visibility) * time.Second,
		Receives:   max(1, cmp.Or(p.Receives, policy.Receives)), Step: step, FIFO: fifo,
	}
}

// visibilityLeast is the least visibility timeout for the computation, because consumers do not
// poll more often.
const visibilityLeast = 30 * time.Second

// Half returns the time after which a message that did not come back is half a success, counted
// from when it became visible: its visibility timeout and one step, or Settled if that is less. In
// FIFO queues it is always Settled.
func (s Silence) Half() time.Duration {
	if s.FIFO {
		return s.Settled()
	}
	return min(s.Visibility+s.Step, s.Settled())
}

// Settled returns how long a message can come back, counted from when it became visible: one
// visibility timeout per receive, and a minute, at most a day.
func (s Silence) Settled() time.Duration {
	return min(time.Duration(s.Receives)*max(visibilityLeast, s.Visibility)+time.Minute,
		24*time.Hour)
}
