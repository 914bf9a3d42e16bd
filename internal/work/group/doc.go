// Package group runs a command together with the processes that it starts, so that a command that
// takes too long leaves none of them behind.
//
// Windows has no process groups: there, only the command itself is killed.
package group
