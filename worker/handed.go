package worker

import (
	"tenaq/claims"
	"tenaq/internal/work/handed"
)

// This gives package workertest access to the private fields of messages.
func init() {
	handed.Over = func(message any, claim *claims.Claim, attempt int, progress func()) {
		m := message.(*Message)
		m.claim, m.attempt = claim, attempt
		m.progress.Store(&progress)
	}
	handed.Result = func(message any) []byte { return message.(*Message).recorded() }
}

// recorded returns the result of the last SetResult, or nil.
func (m *Message) recorded() []byte {
	if r := m.result.Load(); r != nil {
		return *r
	}
	return nil
}
