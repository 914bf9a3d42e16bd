// Package sqlitedb holds what every store in SQLite needs: it opens files so that writes are
// durable, reads rows, and classifies and explains errors. It works with any driver of package
// database/sql.
package sqlitedb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
)

// Primary result codes of SQLite. Source: https://sqlite.org/rescode.html
const (
	perm     = 3
	busy     = 5
	locked   = 6
	noMemory = 7
	readOnly = 8
	aborted  = 9
	ioErr    = 10
	corrupt  = 11
	full     = 13
	cantOpen = 14
	protocol = 15
	notADB   = 26
)

// advice tells an operator what to do about an error.
var advice = map[int]string{
	perm:     "let this user read and write the file and its directory",
	busy:     "another process has been writing for too long; stop it if it hangs, which releases the lock",
	readOnly: "let this user write the file and its directory, and check that the disk is not mounted read-only",
	ioErr:    "the disk returns errors; look into the log of the system",
	corrupt:  "the file is damaged; stop all programs that use it, then restore it and the files -wal and -shm beside it from one backup",
	full:     "the disk is full; free some space, no restart is needed",
	cantOpen: "check that the file and its directory exist and that this user may write to them",
	notADB:   "this is not a SQLite database, or a damaged one; restore it from a backup, or name another file",
}

// code returns the result code in an error, or zero.
func code(err error) int {
	if err == nil {
		return 0
	}
	var e interface{ Code() int } // of modernc.org/sqlite
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	// Other drivers have error types of their own, but all of them repeat SQLite's text.
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

// IsBusy reports whether another connection holds the lock.
func IsBusy(err error) bool { return code(err) == busy }

// IsStatement reports whether the SQL caused an error, and not the file, the machine, the
// connection or another process.
func IsStatement(err error) bool {
	c := code(err)
	switch c {
	case locked, noMemory, aborted, protocol:
		return false
	}
	return err != nil && advice[c] == "" && !errors.Is(err, driver.ErrBadConn) &&
		!errors.Is(err, sql.ErrConnDone) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// Explain adds to an error what was being done, where, and what an operator can do about it. If the
// context of the call has ended, that is the cause, whatever the driver reports.
func Explain(ctx context.Context, doing, where string, err error) error {
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%s in %s: %w", doing, where, ended)
	}
	if what := advice[code(err)]; what != "" {
		return fmt.Errorf("%s in %s: %w: %s", doing, where, err, what)
	}
	return fmt.Errorf("%s in %s: %w", doing, where, err)
}
