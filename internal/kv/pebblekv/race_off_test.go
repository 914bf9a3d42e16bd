//go:build !race

package pebblekv

// raceEnabled says whether everything takes ten times as long.
const raceEnabled = false
