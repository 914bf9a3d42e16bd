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

// A Directory is a Store in a directory of a file system that all who send and receive can reach:
// one file for each body, named by the SHA-256 of its key, so that no key leads out of the
// directory, or is too long, or is another's on a file system that does not tell upper from lower
// case.
//
// A body is written to a file of its own, forced to disk, and then given its name, so there are no
// parts of bodies whoever is killed. Such a file is left behind then, named .new-*. A line of cron
// removes these and what has expired; a body that is stored again is young again:
//
//	find /var/lib/bodies -type f ! -name bucket -mtime +30 -delete
//
// The file named bucket holds the name of the store. Where it is gone the disk may not be mounted,
// and no body is said to be missing.
//
// Files are made with the mode 0660 less the umask, the directory with 0700.
type Directory struct {
	path   string
	bucket string
}

var _ Store = (*Directory)(nil)

// nameFile holds the name of the store. No body is named like it.
const nameFile = "bucket"

// OpenDirectory returns the store in a directory, which is made if there is none. Bucket is its
// name in pointers: the same for all who use the directory, wherever each has it mounted.
func OpenDirectory(path, bucket string) (*Directory, error) {
	d := &Directory{path: path, bucket: bucket}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("keep bodies in %s: %w", path, err)
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
	// or the directory itself could be lost
	if err := syncDirectory(filepath.Dir(d.path)); err != nil {
		return err
	}
	name, err := os.ReadFile(filepath.Join(d.path, nameFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.write(nameFile, []byte(d.bucket))
	case err == nil && string(name) != d.bucket:
		return fmt.Errorf("it is the store named %q, and not %q", name, d.bucket)
	}
	return err
}

// Bucket is the name of the store in pointers.
func (d *Directory) Bucket() string { return d.bucket }

// fileOf is the name of the file of a key.
func fileOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Put stores a body. When it returns it is on disk.
func (d *Directory) Put(ctx context.Context, key string, body []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.write(fileOf(key), body)
}

// write makes a file appear with all that is in it.
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
	body := make([]byte, info.Size()) // files never change
	_, err = io.ReadFull(f, body)
	return body, err
}

// missing tells a body that is not there from a disk that is not.
func (d *Directory) missing() error {
	if _, err := os.Stat(filepath.Join(d.path, nameFile)); err != nil {
		return fmt.Errorf("is the disk mounted? %w", err)
	}
	return ErrNotFound
}

// Delete removes a body. After a power cut it may be there again, which harms nobody.
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
