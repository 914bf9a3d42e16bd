// Package handed lets package workertest set what only a worker sets in a message, without adding
// to the public API.
//
// Package worker sets the variables when the program starts. A message is a *worker.Message, which
// this package cannot name, because worker imports it.
package handed

import "tenaq/claims"

var (
	// Over makes a message look as if a worker had passed it to a handler. Message.Progress calls
	// progress.
	Over func(message any, claim *claims.Claim, attempt int, progress func())

	// Result returns what the handler last passed to Message.SetResult, or nil.
	Result func(message any) []byte
)
