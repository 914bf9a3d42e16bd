package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Answers returns the answer of a workload's endpoint to each of its actions, for a server that
// does nothing.
func Answers(ctx context.Context, w Work) (answers map[string][]byte, err error) {
	w.Queue, w.Depth, w.Polls = w.Queue+"-answers", 0, 0
	if w.Kind == Receive {
		w.Kind = Life
	}
	c, err := New(w)
	if err != nil {
		return nil, err
	}
	on := c.(*working)
	defer func() { err = errors.Join(err, on.Close()) }()
	if err := on.Prepare(ctx, func(float64) {}); err != nil {
		return nil, err
	}
	one, err := on.client(ctx)
	if err != nil {
		return nil, err
	}
	defer one.close()
	created, err := json.Marshal(map[string]string{"QueueUrl": on.url})
	if err != nil {
		return nil, err
	}
	answers = map[string][]byte{"CreateQueue": created, "DeleteQueue": {}}
	one.told = func(action string, answer []byte) {
		answers[action] = append([]byte(nil), answer...)
	}
	on.Kind = Life
	if err := one.step(ctx); err != nil {
		return nil, err
	}
	if one.tally.Messages == 0 {
		return nil, fmt.Errorf("a message that was sent to %s could not be received: check the endpoint", on.url)
	}
	if _, err := one.send(ctx, 1); err != nil {
		return nil, err
	}
	return answers, nil
}
