//go:build !race

package sqliteoutbox

const raceEnabled = false
