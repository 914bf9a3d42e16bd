//go:build race

package engine_test

// raceEnabled says that everything takes ten times as long. The engine belongs to one goroutine, so
// the long tests would find nothing with it that they do not find without.
const raceEnabled = true
