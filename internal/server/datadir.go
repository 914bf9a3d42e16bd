package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"tenaq/internal/cluster/node"
	"tenaq/internal/kv/pebblekv"
)

// passAnother ends a sentence about a data directory that cannot be used.
const passAnother = "pass another directory to --data-dir."

// checkDataDir refuses a path that cannot be a data directory, before anything is read there or
// made. A directory that does not exist is fine. [DUR-35]
func checkDataDir(dir string) error { return checkDir(dir, "--data-dir") }

// checkDir is checkDataDir for a directory that a flag names.
func checkDir(dir, flag string) error {
	if file := fileOnPath(dir); file == filepath.Clean(dir) {
		return configError("cannot open the data directory %s: it is a file. Pass a directory to %s.", dir, flag)
	} else if file != "" {
		return configError("cannot open the data directory %s: %s is a file. Pass a directory to %s.", dir, file, flag)
	}
	_, err := os.ReadDir(dir)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return refuseUnfinished(dir)
	}
	if errors.Is(err, fs.ErrPermission) {
		return permissionError(dir, err)
	}
	return &Error{ErrStorage,
		fmt.Errorf("cannot open the data directory %s: %w; check the disk and start again", dir,
			err)}
}

// fileOnPath returns the part of a path that exists and is no directory, if there is one.
func fileOnPath(path string) string {
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		switch info, err := os.Stat(at); {
		case err == nil && info.IsDir():
			return ""
		case err == nil:
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// dataNames are the files and folders of a data directory, and what file systems and tools put into
// an empty one.
var dataNames = []string{
	"store", "witness", "witness.new", "checkpoint", ballastName, unfinishedName,
	node.LogDir(""), filepath.Dir(node.GroupDir("")),
	node.LogDir("") + ".new", "store.before-cluster", "witness.before-cluster",
	alarmsName, alarmsName + ".new", alarmsName + ".unreadable",
	// of the commands, in the default directory
	"records.db", "records.db-wal", "records.db-shm", "records.db-journal",
	"lost+found", ".keep", ".gitkeep", ".gitignore", ".DS_Store",
}

// isNode reports whether a directory is that of a node of a cluster.
func isNode(dir string) bool {
	_, err := os.Lstat(node.LogDir(dir))
	return err == nil
}

// checkKind refuses the directory of a node to a single server, and that of a single server to a
// node. It completes a conversion that was interrupted at its end.
func checkKind(dir string, clustered bool) error {
	_, err := os.Lstat(filepath.Join(dir, "store"))
	switch isOne := isNode(dir); {
	case isOne && !clustered:
		return configError("the data directory %s belongs to a node of a cluster: start it with --cluster-listen, or pass another directory to --data-dir", dir)
	case !isOne && clustered && err == nil:
		return configError("the data directory %s holds the store of a single server: convert it with \"tenaq cluster convert %s --advertise HOST:PORT\", or pass an empty directory to --data-dir", dir, dir)
	case isOne && err == nil:
		if err := pebblekv.FinishConvert(pebblekv.Options{Dir: dir}); err != nil {
			return storeError(dir, err)
		}
	}
	return nil
}

// checkOwner refuses to create a store in a directory with files of something else: a mistyped path
// would mix the two. beside are files that the configuration names, which may be there. [DUR-35]
func checkOwner(dir string, beside []string) error {
	if _, err := os.Lstat(filepath.Join(dir, "store")); err == nil || isNode(dir) {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // it does not exist; anything else was found by checkDataDir
	}
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		if slices.Contains(dataNames, entry.Name()) ||
			slices.ContainsFunc(beside, func(path string) bool { return within(name, path) }) {
			continue
		}
		return configError("cannot create a store in %s: the directory holds other files, such as %s. Pass an empty directory to --data-dir.", dir, entry.Name())
	}
	return nil
}

// within reports whether path is dir or is in it.
func within(dir, path string) bool {
	if path == "" {
		return false
	}
	dir, errDir := filepath.Abs(dir)
	path, errPath := filepath.Abs(path)
	return errDir == nil && errPath == nil &&
		(path == dir || strings.HasPrefix(path, dir+string(filepath.Separator)))
}

// permissionError names the user and the path. Its text leaves the cause out, because the sentence
// says it.
func permissionError(dir string, err error) error {
	at := dir
	var path *fs.PathError
	if errors.As(err, &path) {
		at = path.Path
	}
	return &Error{ErrConfig, deniedError{
		text:  fmt.Sprintf("cannot open the data directory %s: %s has no permission for %s. Grant it, or "+passAnother, dir, currentUser(), at),
		cause: err,
	}}
}

// A deniedError keeps its cause for errors.Is and out of its text.
type deniedError struct {
	text  string
	cause error
}

func (e deniedError) Error() string { return e.text }
func (e deniedError) Unwrap() error { return e.cause }

// currentUser names the user that the process runs as. An image need not know its users by name.
func currentUser() string {
	id := strconv.Itoa(syscall.Geteuid())
	if u, err := user.LookupId(id); err == nil && u.Username != "" {
		return fmt.Sprintf("user %s (uid %s)", u.Username, id)
	}
	return "the user with uid " + id
}
