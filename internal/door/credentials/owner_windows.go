package credentials

import "io/fs"

// isForeign reports whether a file belongs to another user than that of this program. Windows has
// no user ids to compare.
func isForeign(fs.FileInfo) bool { return false }
