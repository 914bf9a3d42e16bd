//go:build !race

package sqliteoutbox

const raceDetector = false
