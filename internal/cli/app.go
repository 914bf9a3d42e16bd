// Package cli holds what the commands of tenaq share: the streams and flags of one run (App), exit
// codes, tables and JSON, units, the endpoint and its clients, stores of records, progress bars and
// metrics of a command.
//
// It guarantees that all commands report errors and exit codes in one way, and that text from
// messages, servers and configuration reaches a terminal with its control characters escaped. What
// a command does is left to the packages under cmd/tenaq; what a server does, to package server.
package cli

import (
	"io"
)

// An App is one run of the program: its streams and the flags that every command has.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	JSON bool
}
