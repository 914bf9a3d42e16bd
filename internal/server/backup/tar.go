package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// The archive is a tar of the oldest common form, ustar, of plain files with short names: what
// every tar reads. Package archive/tar reads a dozen more, and is large; being as strict as this
// one has another use, that no byte of a backup can change without notice, those between its files
// included.
const (
	blockSize = 512
	sizeMax   = 1<<33 - 1 // of a file, in eleven octal digits
)

// header is the block before a file.
func header(name string, size int64, at int64) (b [blockSize]byte) {
	copy(b[0:100], name)
	copy(b[100:], "0000600\x000000000\x000000000\x00") // mode, owner, group
	copy(b[124:], fmt.Sprintf("%011o\x00%011o\x00", size, at))
	// the checksum, for which it counts as blanks, and the kind: a plain file
	copy(b[148:], "        0")
	copy(b[257:], "ustar\x0000")
	copy(b[329:], "0000000\x000000000\x00") // device
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// fill is how many zeros follow a file of a size.
func fill(size int64) int64 { return -size & (blockSize - 1) }

func writeFile(w io.Writer, name string, size int64, at time.Time, r io.Reader) error {
	if size > sizeMax {
		return fmt.Errorf("it has %d bytes, and a backup takes up to %d", size, int64(sizeMax))
	}
	h := header(name, size, max(at.Unix(), 0))
	if _, err := w.Write(h[:]); err != nil {
		return err
	}
	switch n, err := io.Copy(w, io.LimitReader(r, size)); {
	case err != nil:
		return err
	case n < size:
		return fmt.Errorf("it has %d bytes and should have %d", n, size)
	}
	_, err := w.Write(make([]byte, fill(size)))
	return err
}

func writeEnd(w io.Writer) error {
	_, err := w.Write(make([]byte, 2*blockSize))
	return err
}

// A reader reads the files of an archive one after the other.
type reader struct {
	in   io.Reader
	left io.LimitedReader // of the file that is being read
	skip int64            // zeros after it
}

// next goes on to the next file, past what is left of this one. At the end of the archive ok is
// false.
func (r *reader) next() (name string, size int64, ok bool, err error) {
	if _, err := io.Copy(io.Discard, &r.left); err != nil {
		return "", 0, false, err
	}
	if r.left.N > 0 {
		return "", 0, false, ErrCut
	}
	if err := r.zeros(r.skip); err != nil {
		return "", 0, false, err
	}
	var b [blockSize]byte
	if _, err := io.ReadFull(r.in, b[:]); err != nil {
		return "", 0, false, cut(err)
	}
	if b == [blockSize]byte{} {
		return "", 0, false, r.end()
	}
	name, _, _ = strings.Cut(string(b[:100]), "\x00")
	size, err1 := strconv.ParseInt(string(b[124:135]), 8, 64)
	at, err2 := strconv.ParseInt(string(b[136:147]), 8, 64)
	if err1 != nil || err2 != nil || size < 0 || at < 0 || b != header(name, size, at) {
		return "", 0, false, fmt.Errorf("%w: it has a header of another kind", ErrNotBackup)
	}
	r.left, r.skip = io.LimitedReader{R: r.in, N: size}, fill(size)
	return name, size, true, nil
}

// Read reads from the file.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.left.Read(p)
	if errors.Is(err, io.EOF) && r.left.N > 0 {
		err = ErrCut
	}
	return n, err
}

// last reads the end of the archive, which must be here.
func (r *reader) last() error {
	_, _, more, err := r.next()
	if more {
		err = fmt.Errorf("%w: it has data after its checksums", ErrNotBackup)
	}
	return err
}

// zeros reads n bytes that must be zero.
func (r *reader) zeros(n int64) error {
	b := make([]byte, n)
	if _, err := io.ReadFull(r.in, b); err != nil {
		return cut(err)
	}
	if len(bytes.Trim(b, "\x00")) > 0 {
		return fmt.Errorf("%w: it has data between its files", ErrNotBackup)
	}
	return nil
}

// end reads the second of the two blocks that end an archive, after which there is nothing.
func (r *reader) end() error {
	if err := r.zeros(blockSize); err != nil {
		return err
	}
	switch n, err := io.CopyN(io.Discard, r.in, 1); {
	case n > 0:
		return fmt.Errorf("%w: it has data after its end", ErrNotBackup)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// cut says that an archive which ends here was cut off.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}
