package redrive

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// A Silence says what it means that a message does not come back, to a redriver without a ledger on
// a server that does not say what was deleted.
type Silence struct {
	Visibility time.Duration // the visibility timeout of its queue
	Receives   int           // how often it is received before it is a dead letter again
	Step       time.Duration // between two looks at the dead letters
	FIFO       bool          // an order depends on it
}

// silenceOf reads the attributes of the queue that messages are redriven to.
func silenceOf(attributes map[string]string, p *Policy, step time.Duration, fifo bool) Silence {
	var policy struct {
		Receives json.Number `json:"maxReceiveCount"`
	}
	_ = json.Unmarshal([]byte(attributes[string(types.QueueAttributeNameRedrivePolicy)]), &policy)
	receives, _ := strconv.Atoi(policy.Receives.String())
	visibility, _ := strconv.Atoi(attributes[string(types.QueueAttributeNameVisibilityTimeout)])
	return Silence{
		Visibility: time.Duration(visibility) * time.Second,
		Receives:   max(1, cmp.Or(p.Receives, receives)), Step: step, FIFO: fifo,
	}
}

// visibilityLeast is the least visibility timeout that is reckoned with. A consumer polls no more
// often.
const visibilityLeast = 30 * time.Second

// Half is how long after it became visible a message that did not come back is a success of weight
// one half: its visibility timeout and one step, or Settled if that is less. In FIFO queues it is
// always Settled.
func (s Silence) Half() time.Duration {
	if s.FIFO {
		return s.Settled()
	}
	return min(s.Visibility+s.Step, s.Settled())
}

// Settled is how long after it became visible a message can come back: as many visibility timeouts
// as it has receives, and a minute. It is a day at most, for a message must not keep its place for
// ever.
func (s Silence) Settled() time.Duration {
	return min(time.Duration(s.Receives)*max(visibilityLeast, s.Visibility)+time.Minute,
		24*time.Hour)
}
