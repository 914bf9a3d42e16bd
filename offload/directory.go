package offload

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A Directory is a Store in a directory of a file system that all senders and receivers can reach.
// It keeps one file per body, named by the SHA-256 of its key. So no key leads out of the
// directory, is too long, or equals another on a file system that ignores case.
//
// A body is written to a temporary file, forced to disk, and then renamed, so a crash leaves no
// part of a body. It may leave a temporary file, named .new-*. A cron job can remove these and
// expired bodies; storing a body again renews its time:
//
//	find /var/lib/bodies -type f ! -name bucket -mtime +30 -delete
//
// The file named bucket holds the name of the store. If it is missing, the disk may not be mounted,
// so Get returns an error other than ErrNotFound.
//
// Files have the mode 0660 less the umask, the directory 0700.
type Directory struct {
	path   string
	bucket string
}

var _ Store = (*Directory)(nil)

// nameFile holds the name of the store. No body has this name.
const nameFile = "bucket"

// OpenDirectory returns the store in a directory, and creates the directory if necessary. Bucket is
// its name in pointers, the same for all users of the directory, wherever they mount it.
func OpenDirectory(path, bucket string) (*Directory, error) {
	d := &Directory{path: path, bucket: bucket}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("open the store of bodies in %s: %w", path, err)
	}
	return d, nil
}

func (d *Directory) open() (err error) {
	if err := checkBucket(d.bucket); err != nil {
		return err
	}
	if d.path, err = filepath.Abs(d.path); err != nil {
		return err
	}
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	// otherwise the directory itself could be lost
	if err := syncDirectory(filepath.Dir(d.path)); err != nil {
		return err
	}
	name, err := os.ReadFile(filepath.Join(d.path, nameFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.write(nameFile, []byte(d.bucket))
	case err == nil && string(name) != d.bucket:
		return fmt.Errorf("it is the store %q, not %q", name, d.bucket)
	}
	return err
}

// Bucket returns the name of the store in pointers.
func (d *Directory) Bucket() string { return d.bucket }

// fileOf returns the name of the file of a key.
func fileOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Put stores a body. When it returns nil, the body is on disk.
func (d *Directory) Put(ctx context.Context, key string, body []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.write(fileOf(key), body)
}

// write makes a file appear with its whole content.
func (d *Directory) write(name string, content []byte) error {
	f, err := os.OpenFile(filepath.Join(d.path, ".new-"+rand.Text()),
		os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o660)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(d.path, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDirectory(d.path)
}

// Get returns a body.
func (d *Directory) Get(ctx context.Context, key string, most int) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(d.path, fileOf(key)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, d.missing()
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.Size() > int64(most):
		return nil, fmt.Errorf("%w: %d bytes, %d are allowed", ErrTooLarge, info.Size(), most)
	}
	body := make([]byte, info.Size()) // files do not change
	_, err = io.ReadFull(f, body)
	return body, err
}

// missing distinguishes a missing body from a missing disk.
func (d *Directory) missing() error {
	if _, err := os.Stat(filepath.Join(d.path, nameFile)); err != nil {
		return fmt.Errorf("is the disk mounted? %w", err)
	}
	return ErrNotFound
}

// Delete removes a body. After a power failure the body may be back, which is harmless.
func (d *Directory) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(d.path, fileOf(key))); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
