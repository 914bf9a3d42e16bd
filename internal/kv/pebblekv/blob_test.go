package pebblekv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tenaq/internal/testing/proof"
)

// A blobSite is a store with values in blob files, some of them rewritten, after a clean stop.
type blobSite struct {
	files map[string][]byte
	rows  map[string]string
	names []string // of the blob files that rows need
}

// bodyOf is a value that does not compress, and says whose it is.
func bodyOf(key string, size int) string {
	v := make([]byte, 0, size)
	for i := uint64(0); len(v) < size; i++ {
		v = binary.BigEndian.AppendUint64(v, maskedHash(key, i))
	}
	return string(v[:size])
}

func maskedHash(key string, i uint64) uint64 {
	c := chain{mark: mark{i, uint64(len(key))}}
	return c.next([]byte(key)).hash
}

func newBlobSite(t *testing.T) *blobSite {
	disk := vfs.NewMem()
	o := small(disk, "data", mustNotFail(t))
	s := mustOpen(t, o)
	site := &blobSite{rows: map[string]string{}}
	write := func(change func(b *batch)) {
		b := s.NewBatch().(*batch)
		change(b)
		b.Force()()
	}
	for i := range 600 {
		k := fmt.Sprintf("k%05d", i*7919%600)
		site.rows[k] = bodyOf(k, 100+i%5*300)
		write(func(b *batch) { b.Set([]byte(k), []byte(site.rows[k])) })
	}
	for i := range 600 { // so that blob files have values that no row needs
		if k := fmt.Sprintf("k%05d", i); i%5 < 3 {
			delete(site.rows, k)
			write(func(b *batch) { b.DeleteOnce([]byte(k)) })
		}
	}
	for _, err := range []error{s.db.Flush(), s.db.Compact(t.Context(), []byte("a"), []byte("z"), false), settle(s)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, s)
	site.files = readAll(t, disk, "data")
	m, err := manifestOf(disk, "data/store")
	if err != nil {
		t.Fatal(err)
	}
	rewritten := 0
	for id := range m.live {
		f := m.files[id][len(m.files[id])-1]
		if f.number != id {
			rewritten++
		}
		name := "data/store/" + blobName(f.number)
		if len(site.files[name]) != int(f.size) {
			t.Fatalf("%s has %d bytes, and %d in the manifest", name, len(site.files[name]), f.size)
		}
		site.names = append(site.names, name)
	}
	if len(site.names) < 2 || rewritten == 0 {
		t.Fatalf("%d blob files, of which %d were rewritten", len(site.names), rewritten)
	}
	return site
}

// settle waits until Pebble has nothing more to do.
func settle(s *Store) error {
	for range 1000 {
		m := s.db.Metrics()
		if m.Compact.NumInProgress == 0 && m.Flush.NumInProgress == 0 && m.Table.ZombieCount == 0 &&
			m.Table.ObsoleteCount == 0 && m.BlobFiles.ObsoleteCount == 0 {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("compactions do not end")
}

// onDisk writes files to a new file system.
func onDisk(t *testing.T, files map[string][]byte) vfs.FS {
	disk := vfs.NewMem()
	if err := disk.MkdirAll("data/store", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		writeFile(t, disk, name, b)
	}
	return disk
}

// end opens a store of these files and reads all rows. It fails if a row is not what it was.
func (site *blobSite) end(t *testing.T, what string, files map[string][]byte) (opened bool, err error) {
	disk := onDisk(t, files)
	var open atomic.Bool // untilFatal returns at the first error, and the store may still run then
	err = untilFatal(func(fatal func(error)) error {
		s, err := Open(small(disk, "data", fatal))
		if err != nil {
			return err
		}
		open.Store(true)
		got := 0
		for k, v := range s.Scan(nil, nil) {
			if site.rows[string(k)] != string(v) {
				t.Errorf("%s: the row %s has another value", what, k)
			}
			got++
		}
		for k, want := range site.rows {
			if v, ok := s.Get(nil, []byte(k)); ok && string(v) != want {
				t.Errorf("%s: the row %s has another value", what, k)
			}
		}
		if got != len(site.rows) {
			t.Errorf("%s: %d of %d rows", what, got, len(site.rows))
		}
		return s.Close()
	})
	if err != nil && (!errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "\n") ||
		strings.Count(err.Error(), "damaged") != 1 || !strings.HasSuffix(err.Error(), salvageCommand) ||
		len(err.Error()) > 600) {
		t.Errorf("%s: %v", what, err)
	}
	return open.Load(), err
}

// The manifest names exactly the blob files that are there, with their lengths, and its copy says
// the same.
func TestManifest(t *testing.T) {
	site := newBlobSite(t)
	blobs := 0
	for name := range site.files {
		if isBlob(name) {
			blobs++
		}
	}
	if blobs != len(site.names) {
		t.Errorf("%d blob files, and the manifest names %d", blobs, len(site.names))
	}
	copies := 0
	for name, b := range site.files {
		if strings.Contains(name, copyPrefix) {
			copies++
			if !bytes.Equal(b, site.files[strings.Replace(name, copyPrefix, "", 1)]) {
				t.Errorf("%s differs from the manifest", name)
			}
		}
	}
	if copies != 1 {
		t.Errorf("%d copies of manifests, want 1", copies)
	}
}

// A blob file that is missing, has another length, or is another one is refused by one sentence
// that names it, when the store is opened or when the file is read. [DUR-12, DUR-16]
func TestRefuseBlob(t *testing.T) {
	site := newBlobSite(t)
	if _, err := site.end(t, "without damage", site.files); err != nil {
		t.Fatal(err)
	}
	other := newBlobSite(t)
	for i, name := range site.names {
		b := site.files[name]
		next := site.names[(i+1)%len(site.names)]
		number := bytes.Clone(b) // the footer of a file with another number, which is whole
		binary.LittleEndian.PutUint64(number[len(b)-blobFooter+footerNumber:], 999)
		binary.LittleEndian.PutUint32(number[len(b)-blobFooter:], maskedSum(number[len(b)-blobFooter+4:]))
		for what, files := range map[string]map[string][]byte{
			"gone":             with(site.files, name, nil),
			"empty":            with(site.files, name, []byte{}),
			"cut":              with(site.files, name, b[:len(b)-1]),
			"cut to a half":    with(site.files, name, b[:len(b)/2]),
			"longer":           with(site.files, name, append(bytes.Clone(b), 0)),
			"another":          with(site.files, name, site.files[next]),
			"of another store": with(site.files, name, append(bytes.Clone(other.files[other.names[0]]), 1)),
			"renamed":          with(site.files, name, number),
		} {
			what = name + " is " + what
			opened, err := site.end(t, what, files)
			// One of the same length is recognized when it is read.
			whole := len(files[name]) == len(b)
			if opened && !whole || err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(name, "data/store/")) {
				t.Errorf("%s: opened %v, %v", what, opened, err)
			}
			if r, err := OpenRead(small(onDisk(t, files), "data", nil)); err == nil != whole || err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: a reader opens it: %v", what, err)
			} else if err == nil {
				_ = r.Close()
			}
		}
	}
}

// If any bit of a blob file is flipped, no wrong value is read: the file is refused when it is
// opened or read, with one sentence that names it, and a reader finds it even where no row is.
// [DUR-12, DUR-29]
func TestFlippedBitInBlob(t *testing.T) {
	site := newBlobSite(t)
	rng := proof.Random(t)
	atRead := 0
	for range trials(200) {
		name := site.names[rng.IntN(len(site.names))]
		b := bytes.Clone(site.files[name])
		at := rng.IntN(len(b))
		if rng.IntN(4) == 0 { // the index and the footer
			at = len(b) - 1 - rng.IntN(min(len(b), 200))
		}
		b[at] ^= 1 << rng.IntN(8)
		what := fmt.Sprintf("byte %d of %d of %s", at, len(b), name)
		files := with(site.files, name, b)
		opened, err := site.end(t, what, files)
		switch {
		case err != nil && !strings.Contains(err.Error(), strings.TrimPrefix(name, "data/store/")):
			t.Errorf("%s: %v does not name the file", what, err)
		case err != nil && opened:
			atRead++
		}
		r, err := OpenRead(small(onDisk(t, files), "data", nil))
		if err != nil {
			continue
		}
		found := 0
		if _, err := r.CheckTables(func(file string, err error) {
			found++
			if !strings.HasSuffix(name, file) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: found %s: %v", what, file, err)
			}
		}); err != nil || found != 1 {
			t.Errorf("%s: found %d, %v", what, found, err)
		}
		wrong := r.Try(func() {
			for k, v := range r.Scan(nil, nil) {
				if site.rows[string(k)] != string(v) {
					t.Errorf("%s: a reader has another value of %s", what, k)
				}
			}
		})
		if wrong != nil && (strings.Contains(wrong.Error(), "\n") || len(wrong.Error()) > 600) {
			t.Errorf("%s: a reader says %v", what, wrong)
		}
		_ = r.Close()
	}
	if atRead == 0 {
		t.Error("nothing was refused")
	}
}

// A compaction and a rewrite that meet damage in a blob file end in one sentence. [DUR-12]
func TestDamagedBlobInBackground(t *testing.T) {
	site := newBlobSite(t)
	for _, name := range site.names {
		b := bytes.Clone(site.files[name])
		b[len(b)/3] ^= 1
		disk := onDisk(t, with(site.files, name, b))
		err := untilFatal(func(fatal func(error)) error {
			s, err := Open(small(disk, "data", fatal))
			if err != nil {
				return err
			}
			b := s.NewBatch()
			i := 0
			for k := range site.rows { // so that a rewrite is due
				if i++; i%3 > 0 {
					b.DeleteOnce([]byte(k))
				}
			}
			b.Force()()
			if err := s.db.Flush(); err != nil {
				return err
			}
			if err := s.db.Compact(t.Context(), []byte("a"), []byte("z"), false); err != nil {
				return err
			}
			if err := settle(s); err != nil {
				return err
			}
			return s.Close()
		})
		if err != nil && (!errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			t.Logf("%s: nothing has read the block", name)
		}
	}
}

// If the blob files of a store are damaged, or its manifest is lost, only rows whose values were
// there are lost. The report names them, and no row gets the value of another. [DUR-36]
func TestSalvageBlobs(t *testing.T) {
	site := newBlobSite(t)
	manifest, copied := "", ""
	for name := range site.files {
		switch {
		case strings.Contains(name, copyPrefix):
			copied = name
		case strings.Contains(name, "/"+manifestPrefix):
			manifest = name
		}
	}
	flipped := bytes.Clone(site.files[site.names[0]])
	for _, v := range site.rows {
		if at := bytes.Index(flipped, []byte(v)); at >= 0 {
			flipped[at] ^= 1
			break
		}
	}
	half := bytes.Clone(site.files[manifest])
	half[len(half)/2] ^= 1
	for _, test := range []struct {
		what  string
		files map[string][]byte
		least int // rows that are kept
		most  int
		says  string
	}{
		{"sound", site.files, len(site.rows), len(site.rows), ""},
		{"blob file gone", with(site.files, site.names[0], nil), 1, len(site.rows) - 1, "rows whose values cannot be read: "},
		{"block damaged", with(site.files, site.names[0], flipped), len(site.rows) - 100, len(site.rows) - 1, "rows whose values cannot be read: "},
		{"blob file cut", with(site.files, site.names[0], flipped[:len(flipped)/2]), 1, len(site.rows) - 1, "rows whose values cannot be read: "},
		{"manifest gone", with(site.files, manifest, nil), len(site.rows), len(site.rows), "MANIFEST"},
		{"manifest damaged", with(site.files, manifest, half), len(site.rows), len(site.rows), ""},
		{"copy gone", with(site.files, copied, nil), len(site.rows), len(site.rows), ""},
		{"manifest and copy gone", with(with(site.files, manifest, nil), copied, nil), 0, len(site.rows) - 1, "rows whose values lie in blob files that nothing names any more: "},
	} {
		got, read, err := readDamaged(t, test.files)
		if err != nil {
			t.Errorf("%s: %v", test.what, err)
			continue
		}
		kept := 0
		for k, v := range got {
			if want, ok := site.rows[k]; ok && v != want {
				t.Errorf("%s: the row %s has another value", test.what, k)
			} else if ok {
				kept++
			}
		}
		if kept < test.least || kept > test.most {
			t.Errorf("%s: %d rows are kept, want %d to %d: %v", test.what, kept, test.least, test.most, read.Damage)
		}
		if said := fmt.Sprint(read.Damage); !strings.Contains(said, test.says) || test.what == "sound" && said != "[]" {
			t.Errorf("%s: %s", test.what, said)
		}
	}
}

// A store that was written without blob files gets them, and its rows stay.
func TestBlobsInElderStore(t *testing.T) {
	disk := vfs.NewMem()
	o := small(disk, "data", mustNotFail(t))
	o.SeparateBytes = 1 << 20
	want := map[string]string{}
	rng := rand.New(rand.NewPCG(proof.Seed(t), 50))
	for _, separate := range []int{1 << 20, 32, 1 << 20, 32} {
		o.SeparateBytes = separate
		s := mustOpen(t, o)
		for range 300 {
			k := fmt.Sprintf("k%03d", rng.IntN(500))
			want[k] = bodyOf(fmt.Sprint(k, rng.Uint64()), 200+rng.IntN(800))
			b := s.NewBatch()
			b.Set([]byte(k), []byte(want[k]))
			b.Apply()
		}
		got := map[string]string{}
		for k, v := range s.Scan(nil, nil) {
			got[string(k)] = string(v)
		}
		if !maps.Equal(got, want) {
			t.Errorf("values from %d bytes on apart: the rows are not what they were", separate)
		}
		mustClose(t, s)
	}
}

// Space that deletes and purges free in blob files goes back to the disk, even if nothing is
// written afterwards.
func TestBlobsGiveRoomBack(t *testing.T) {
	for _, purge := range []bool{false, true} {
		disk := vfs.NewMem()
		o := small(disk, "data", mustNotFail(t))
		s := mustOpen(t, o)
		const rows, size = 2000, 1000
		for i := range rows {
			b := s.NewBatch()
			k := fmt.Sprintf("k%05d", i)
			b.Set([]byte(k), []byte(bodyOf(k, size)))
			b.Apply()
		}
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := settle(s); err != nil {
			t.Fatal(err)
		}
		full := blobBytes(t, disk)
		b := s.NewBatch()
		if purge {
			b.DeleteRange([]byte("k00100"), []byte("k99999"))
		} else {
			for i := range rows {
				if i%10 > 0 {
					b.DeleteOnce(fmt.Appendf(nil, "k%05d", i))
				}
			}
		}
		b.Force()()
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
		left := full
		for range 500 {
			if left = blobBytes(t, disk); left < full*4/10 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Logf("purge %v: %d bytes in blob files, then %d", purge, full, left)
		if full < rows*size || left >= full*4/10 {
			t.Errorf("purge %v: %d bytes in blob files, then %d", purge, full, left)
		}
		mustClose(t, s)
	}
}

func blobBytes(t *testing.T, fs vfs.FS) (n int) {
	names, err := fs.List("data/store")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if info, err := fs.Stat("data/store/" + name); err == nil && isBlob(name) {
			n += int(info.Size())
		}
	}
	return n
}
