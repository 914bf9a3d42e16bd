package pebblekv

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	crdb "github.com/cockroachdb/errors"
	"github.com/cockroachdb/pebble/v2"
)

// Reasons for which Open refuses a store. Use errors.Is; the messages name the store and end with
// what to do.
var (
	// ErrNewer: a later version of the program, or of Pebble, wrote the store.
	ErrNewer = errors.New("store has a newer format")
	// ErrDamaged: the store is not what it was when it was last written.
	ErrDamaged = errors.New("store is damaged")
	// ErrLocked: another process has the store open.
	ErrLocked = errors.New("store is in use")
	// ErrFull: the disk has no room for what opening must write.
	ErrFull = errors.New("disk is full")
)

var errNotExist = fs.ErrNotExist

// A LostError says that commits which the store had confirmed are missing from its end. It counts
// as ErrDamaged too.
type LostError struct {
	Dir  string
	Have uint64 // the last commit that is there
	Want uint64 // the last commit known to have been confirmed
}

func (e *LostError) Error() string {
	return fmt.Sprintf("store is damaged: %s: it ends at commit %d but commit %d was confirmed: restore a backup, start once with --accept-loss=%d to go on without the missing commits, or copy what is intact into a new directory with: %s",
		e.Dir, e.Have, e.Want, e.Want-e.Have, salvageCommand)
}

func (e *LostError) Is(target error) bool { return target == ErrDamaged }

// A LockedError says that the data directory is in use. It counts as ErrLocked.
type LockedError struct {
	Dir string // the data directory
	// the process that holds it; 0 when the system does not say, as for one in another container
	PID int
}

func (e *LockedError) Error() string {
	holder := "a process that this one cannot see, perhaps in another container"
	if e.PID > 0 {
		holder = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("the data directory %s is in use by %s. Stop that process, or pass another directory to --data-dir.", e.Dir, holder)
}

func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// An openError is a refusal with its kind, for errors.Is, and its cause.
type openError struct {
	kind   error
	cause  error // may be nil
	advice string
	dir    string
}

func (e *openError) Error() string {
	if _, ok := e.kind.(syscall.Errno); ok {
		return fmt.Sprintf("open store %s: %s: %s", e.dir, oneLine(e.cause), e.advice)
	}
	if e.cause == nil {
		return fmt.Sprintf("%v: %s: %s", e.kind, e.dir, e.advice)
	}
	// The innermost error says that something is damaged, and the kind says it already.
	cause := strings.TrimPrefix(oneLine(e.cause), e.kind.Error()+": ")
	return fmt.Sprintf("%v: %s: %s: %s", e.kind, e.dir, cause, e.advice)
}

func (e *openError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

// salvageCommand is what makes a new store of what is intact.
const salvageCommand = "tenaq salvage --to NEW"

const (
	adviceDamaged = "restore a backup, or copy what is intact into a new directory with: " +
		salvageCommand
	adviceNewer = "run the version that wrote it, or a later one"
	// of a log or a state: what a node of a cluster has lost, the others have
	adviceNode = "if the majority of the other nodes works, empty the data directory of this " +
		"node, start it, and run: tenaq cluster replace OLD NEW; if not, keep the directory and " +
		"restore a backup"
	adviceErrno = "check the disk and the permissions, and start again"
	adviceFull  = "free space on its file system and start again"
)

func damaged(dir, format string, args ...any) error {
	return &openError{kind: ErrDamaged, cause: fmt.Errorf(format, args...), advice: adviceDamaged,
		dir: dir}
}

// classify turns an error met while opening into one that says what kind it is. What the operating
// system reports, other than that a file is missing, says nothing about the data: it stays what it
// is. Everything else is Pebble not understanding its own files.
func classify(dir string, err error) error {
	var errno syscall.Errno
	var newer *newerError
	var known *openError
	var lost *LostError
	var locked *LockedError
	switch {
	case errors.As(err, &known), errors.As(err, &lost), errors.As(err, &locked):
		return err
	case errors.As(err, &newer):
		return &openError{kind: ErrNewer, cause: err, advice: adviceNewer, dir: dir}
	case errors.Is(err, syscall.ENOSPC):
		return &openError{kind: ErrFull, cause: err, advice: adviceFull, dir: dir}
	case errors.As(err, &errno) && errno != syscall.ENOENT:
		return errnoError(dir, err)
	}
	return &openError{kind: ErrDamaged, cause: err, advice: adviceDamaged, dir: dir}
}

// ofNode is err, met while opening a log or a state, with what to do about one of a cluster.
func ofNode(err error) error {
	lost, isLost := errors.AsType[*LostError](err)
	known, isKnown := errors.AsType[*openError](err)
	switch {
	case isLost:
		return &openError{kind: ErrDamaged, advice: adviceNode, dir: lost.Dir,
			cause: fmt.Errorf("it ends at commit %d but commit %d was confirmed", lost.Have,
				lost.Want)}
	case isKnown && known.kind == ErrDamaged:
		other := *known
		other.advice = adviceNode
		return &other
	}
	return err
}

// errnoError is what the operating system said, if it did.
func errnoError(dir string, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) || errno == syscall.ENOSPC {
		return err
	}
	return &openError{kind: errno, cause: err, advice: adviceErrno, dir: dir}
}

// A storageFault is a fault met while the store was open. Its text is the last thing said.
type storageFault struct {
	kind error // ErrFull, ErrDamaged, an error that is fs.ErrPermission, or nil
	text string
}

func (f *storageFault) Error() string { return f.text }
func (f *storageFault) Unwrap() error { return f.kind }

func newFault(dir, what string, err error, ofNode bool) *storageFault {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return &storageFault{ErrFull,
			fmt.Sprintf("disk full: %s: %s: free space on the file system of %s and start again",
				what, oneLine(err), dir)}
	case isDamage(err) && ofNode:
		return &storageFault{ErrDamaged, fmt.Sprintf("store is damaged: %s: %s: %s: %s", dir, what,
			oneLine(err), adviceNode)}
	case isDamage(err):
		return &storageFault{ErrDamaged, fmt.Sprintf("store is damaged: %s: %s: keep %s, and %s",
			what, oneLine(err), dir, adviceDamaged)}
	}
	var kind error
	if errors.Is(err, fs.ErrPermission) {
		kind = err
	}
	return &storageFault{kind,
		fmt.Sprintf("storage failed: %s: %s: check the disk under %s and start again, which recovers everything confirmed", what, oneLine(err), dir)}
}

// isDamage reports whether err is about what a file says. Pebble calls it a failed assertion when a
// value is not where the table says, or has another length.
func isDamage(err error) bool {
	return pebble.IsCorruptionError(err) || errors.Is(err, ErrDamaged) ||
		crdb.HasAssertionFailure(err)
}

// oneLine is the text of err on one line. Joined errors and some of Pebble's have several.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
