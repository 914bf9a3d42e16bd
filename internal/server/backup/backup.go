// Package backup reads and writes the format of backups: a tar archive that begins with a manifest
// and ends with the SHA-256 of everything before, so that a backup that was cut off or changed is
// recognized.
//
// It guarantees that what Read has returned without an error is, byte for byte, what Write was
// given. It leaves to its callers what the files are and where they go; names are checked, and none
// leads out of a directory.
package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"
)

// Format is the version of the form that Write writes. Read reads every one up to it.
const Format = 1

// The entries that every backup has: the first and the last one.
const (
	manifestName = "manifest.json"
	sumsName     = "SHA256SUMS"
)

// manifestMax and sumsMax bound what is read into memory.
const (
	manifestMax = 64 << 10
	sumsMax     = 64 << 20
)

var (
	// ErrCut: the backup ends before its end.
	ErrCut = errors.New("the backup is truncated")

	// ErrNotBackup: it is something else, or not what was written.
	ErrNotBackup = errors.New("this is not a backup, or it was changed")

	// ErrNewer: a later version of the program wrote it.
	ErrNewer = errors.New("the backup is from a newer version of this program")
)

// A Manifest says what a backup is of.
type Manifest struct {
	Format  int       `json:"format"`
	Store   string    `json:"store"`   // identity of the store, in hexadecimal digits
	Commit  uint64    `json:"commit"`  // the backup holds at least everything up to this commit
	Taken   time.Time `json:"taken"`   // by the clock of the machine
	Program string    `json:"program"` // its version
}

// A File is one that goes into a backup.
type File struct {
	Name string // "witness", "alarms.json", or "store/" and a name
	Size int64
	Open func() (io.ReadCloser, error)
}

// checkName refuses names that a backup does not have.
func checkName(name string) error {
	rest, inStore := strings.CutPrefix(name, "store/")
	switch {
	case inStore && rest != "" && rest[0] != '.' && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == "":
		return nil
	case name == "witness", name == "alarms.json":
		return nil
	}
	return fmt.Errorf("%w: it has the unexpected entry %q", ErrNotBackup, name)
}

// Write writes a backup. When it fails, what was written is known to be cut off.
func Write(w io.Writer, m Manifest, files []File) error {
	m.Format = Format
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	a := &archive{w: w, time: m.Taken}
	if err := a.add(manifestName, int64(len(text)), bytes.NewReader(text)); err != nil {
		return err
	}
	for _, f := range files {
		if err := checkName(f.Name); err != nil {
			return err
		}
		if err := a.addFile(f); err != nil {
			return fmt.Errorf("back up %s: %w", f.Name, err)
		}
	}
	sums := a.sums.String()
	if err := a.add(sumsName, int64(len(sums)), strings.NewReader(sums)); err != nil {
		return err
	}
	return writeEnd(w)
}

// Size is how many bytes Write writes.
func Size(m Manifest, files []File) int64 {
	m.Format = Format
	text, _ := json.Marshal(m) // as Write does, which reports an error
	var n, sums int64
	add := func(name string, size int64) {
		n += blockSize + size + fill(size)
		sums += 2*sha256.Size + int64(len("  "+name+"\n"))
	}
	add(manifestName, int64(len(text)))
	for _, f := range files {
		add(f.Name, f.Size)
	}
	return n + blockSize + sums + fill(sums) + 2*blockSize
}

// An archive is a backup that is being written.
type archive struct {
	w    io.Writer
	time time.Time
	sums strings.Builder
}

func (a *archive) addFile(f File) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	return errors.Join(a.add(f.Name, f.Size, r), r.Close())
}

func (a *archive) add(name string, size int64, r io.Reader) error {
	sum := sha256.New()
	if err := writeFile(a.w, name, size, a.time,
		io.TeeReader(io.LimitReader(r, size), sum)); err != nil {
		return err
	}
	a.note(name, sum)
	return nil
}

func (a *archive) note(name string, sum hash.Hash) {
	fmt.Fprintf(&a.sums, "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), name)
}

// Read reads a backup to the end of r and hands each file to each, which reads as much of it as it
// likes. What each has been given counts only when Read returns no error.
func Read(
	r io.Reader, each func(m Manifest, name string, size int64, r io.Reader) error,
) (m Manifest, err error) {
	t := &reader{in: r}
	var sums archive
	seen := make(map[string]bool)
	for first := true; ; first = false {
		name, size, ok, err := t.next()
		switch {
		case err != nil:
			return m, err
		case !ok, seen[name], first != (name == manifestName):
			return m, fmt.Errorf("%w: its entry %q is in the wrong place", ErrNotBackup, name)
		}
		seen[name] = true
		sum := sha256.New()
		content := io.TeeReader(t, sum)
		switch name {
		case manifestName:
			text, err := all(content, manifestMax)
			if err != nil {
				return m, err
			}
			if m, err = readManifest(text); err != nil {
				return m, err
			}
		case sumsName:
			text, err := all(content, sumsMax)
			switch {
			case err != nil:
				return m, err
			case string(text) != sums.sums.String():
				return m, fmt.Errorf("%w: its files do not match their checksums", ErrNotBackup)
			}
			return m, t.last()
		default:
			if err := checkName(name); err != nil {
				return m, err
			}
			if each != nil {
				if err := each(m, name, size, content); err != nil {
					return m, err
				}
			}
			if _, err := io.Copy(io.Discard, content); err != nil {
				return m, err
			}
		}
		sums.note(name, sum)
	}
}

// readManifest reads the manifest, of which a later version may have more than this one knows.
func readManifest(text []byte) (m Manifest, err error) {
	switch err := json.Unmarshal(text, &m); {
	case err != nil || m.Format < 1:
		return m, fmt.Errorf("%w: its manifest cannot be read", ErrNotBackup)
	case m.Format > Format:
		return m, fmt.Errorf("%w: it has format %d, and this version reads formats up to %d: use the newer version", ErrNewer, m.Format, Format)
	}
	return m, nil
}

func all(r io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%w: it has an entry that is too large", ErrNotBackup)
	}
	return text, err
}
