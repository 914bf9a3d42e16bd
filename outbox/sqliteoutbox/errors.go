package sqliteoutbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Result codes of SQLite, without the extension above the lowest byte.
const (
	perm     = 3
	busy     = 5
	readOnly = 8
	ioErr    = 10
	corrupt  = 11
	full     = 13
	cantOpen = 14
	notADB   = 26
)

// advice says what an operator can do about an error.
var advice = map[int]string{
	perm:     "let this user read and write the file and its directory",
	busy:     "another process has been writing for too long; end it if it hangs, it leaves no lock behind",
	readOnly: "let this user write the file and its directory, and see that the disk is not mounted read-only",
	ioErr:    "the disk does not work as it should; look into the log of the system",
	corrupt:  "the file is damaged; stop all who use it, and restore it and the files -wal and -shm beside it from one backup",
	full:     "the disk is full; make room, nothing has to be restarted",
	cantOpen: "see that the file and its directory exist and that this user may write in it",
	notADB:   "this is no SQLite database, or a damaged one; restore it from a backup, or name another file",
}

// code returns the result code in an error, or zero.
func code(err error) int {
	var e interface{ Code() int } // of modernc.org/sqlite
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code() & 0xff
	}
	// Other drivers have types of their own, and all have SQLite's words.
	for words, code := range map[string]int{
		"database is locked":                   busy,
		"attempt to write a readonly database": readOnly,
		"database or disk is full":             full,
		"disk I/O error":                       ioErr,
		"database disk image is malformed":     corrupt,
		"unable to open database file":         cantOpen,
		"file is not a database":               notADB,
	} {
		if strings.Contains(err.Error(), words) {
			return code
		}
	}
	return 0
}

// explain makes an error of SQLite one that says where, and what to do. Once the context of the call has ended it
// is the reason, whatever that looks like to the driver.
func (b *Box) explain(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%s in %s: %w", doing, b.where, ended)
	}
	if what, ok := advice[code(err)]; ok {
		return fmt.Errorf("%s in %s: %w: %s", doing, b.where, err, what)
	}
	return fmt.Errorf("%s in %s: %w", doing, b.where, err)
}
