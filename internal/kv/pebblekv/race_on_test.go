//go:build race

package pebblekv

// raceEnabled says that everything takes ten times as long. What damage does is decided by one goroutine
// when a store is opened, so fewer stores are damaged with it.
const raceEnabled = true
