//go:build race

package sqliteoutbox

// raceEnabled says that everything takes ten times as long or more: SQLite is compiled with it.
const raceEnabled = true
