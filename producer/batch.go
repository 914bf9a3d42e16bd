package producer

import (
	"context"

	"tenaq/internal/work/parallel"
)

// A Result is the result of SendOnce for one message of a batch.
type Result struct {
	Receipt
	Err error
}

// SendAll calls SendOnce for each message, Config.Parallel at once, and returns the results in the
// order of the messages. On a FIFO queue it sends the messages of a group one after the other, in
// their order; one that fails does not stop the following ones. If two messages have the same key,
// one is a duplicate.
//
// After errors, run the batch again: messages that were sent are then duplicates.
func (p *Producer) SendAll(ctx context.Context, messages []Message) []Result {
	var chains [][]int // indexes of messages that must keep their order
	groups := make(map[string]int)
	for i, m := range messages {
		at, known := groups[m.Group]
		if !p.fifo || !known {
			groups[m.Group] = len(chains)
			chains = append(chains, []int{i})
			continue
		}
		chains[at] = append(chains[at], i)
	}
	results := make([]Result, len(messages))
	parallel.Each(p.cfg.Parallel, len(chains), func(c int) {
		for _, i := range chains[c] {
			results[i].Receipt, results[i].Err = p.SendOnce(ctx, messages[i])
		}
	})
	return results
}
