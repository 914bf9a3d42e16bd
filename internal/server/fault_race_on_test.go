//go:build race

package server

// raceEnabled says that everything takes ten times as long.
const raceEnabled = true
