//go:build race

package sqliteoutbox

// raceDetector says that everything takes ten times as long or more: SQLite is compiled with it.
const raceDetector = true
