// Package handed lets package workertest set what only a worker sets in a message, without a place
// for it in the public API.
//
// Package worker sets the variables when the program starts; workertest imports it. Messages are
// *worker.Message, which this package cannot name, because worker imports it.
package handed

import "tenaq/claims"

var (
	// Over makes a message look as it does when a worker hands it over to a handler. Progress is
	// called for every call of Message.Progress.
	Over func(message any, claim *claims.Claim, attempt int, progress func())

	// Result returns what the handler gave to Message.SetResult last; nil when it gave nothing.
	Result func(message any) []byte
)
