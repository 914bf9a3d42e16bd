//go:build !race

package broker

// raceEnabled says that everything takes ten times as long.
const raceEnabled = false
