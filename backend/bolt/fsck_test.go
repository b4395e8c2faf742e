package bolt

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

// fsckSoak reports whether tests may take long.
func fsckSoak() bool { return os.Getenv("SLIPWAY_SOAK") == "1" }

// fsckRecord is a key of a file.
type fsckRecord struct{ Bucket, Key, Value string }

func (r fsckRecord) compare(o fsckRecord) int {
	return cmp.Or(strings.Compare(r.Bucket, o.Bucket), strings.Compare(r.Key, o.Key))
}

// checked returns the records that fsck visits.
func checked(r io.ReaderAt, size int64) (got []fsckRecord, err error) {
	err = fsck(r, size, func(bucket, key, value []byte) error {
		got = append(got, fsckRecord{string(bucket), string(key), string(value)})
		return nil
	})
	return got, err
}

func checkedImage(image []byte) ([]fsckRecord, error) {
	return checked(bytes.NewReader(image), int64(len(image)))
}

// fsckOpen opens a file with bbolt as the store does, but does not sync it.
func fsckOpen(t testing.TB, path string, pageSize int) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoGrowSync: true, PageSize: pageSize, FreelistType: bbolt.FreelistMapType, InitialMmapSize: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func fsckClose(t testing.TB, db *bbolt.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// fsckCommit makes a transaction.
func fsckCommit(t testing.TB, db *bbolt.DB, change func(tx *bbolt.Tx) error) {
	t.Helper()
	if err := db.Update(change); err != nil {
		t.Fatal(err)
	}
}

// fsckByBolt returns the records that bbolt reads.
func fsckByBolt(t testing.TB, db *bbolt.DB) (got []fsckRecord) {
	t.Helper()
	err := db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				got = append(got, fsckRecord{string(name), string(k), string(v)})
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// fsckImage is a file that bbolt made.
type fsckImage struct {
	name    string
	page    int
	bytes   []byte
	records []fsckRecord
	// old are the records before the last transaction.
	old []fsckRecord
}

// fsckMade makes a file with transactions.
func fsckMade(t testing.TB, name string, pageSize int, changes ...func(tx *bbolt.Tx) error) fsckImage {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	db := fsckOpen(t, path, pageSize)
	img := fsckImage{name: name, page: pageSize}
	for _, change := range changes {
		img.old = fsckByBolt(t, db)
		fsckCommit(t, db, change)
	}
	img.records = fsckByBolt(t, db)
	fsckClose(t, db)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	img.bytes = b
	return img
}

// fsckPut puts n records into a bucket.
func fsckPut(bucket string, n, size int) func(tx *bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(bucket))
		for i := range n {
			value := bytes.Repeat([]byte{byte(i), 'v'}, size/2)
			err = errors.Join(err, b.Put(fmt.Appendf(nil, "key-%07d", i), value))
		}
		return err
	}
}

// fsckDelete deletes all records of a bucket except every keep-th record.
func fsckDelete(bucket string, n, keep int) func(tx *bbolt.Tx) error {
	return func(tx *bbolt.Tx) (err error) {
		for i := range n {
			if i%keep != 0 {
				err = errors.Join(err, tx.Bucket([]byte(bucket)).Delete(fmt.Appendf(nil, "key-%07d", i)))
			}
		}
		return err
	}
}

// fsckImages are files of every shape.
func fsckImages(t testing.TB) []fsckImage {
	return append(fsckSmallImages(t),
		fsckMade(t, "many keys", 4096, fsckPut("a", 20000, 50), fsckPut("b", 2, 8)),
		fsckMade(t, "big values", 4096, fsckPut("a", 9, 1<<20), fsckPut("a", 4, 5000), fsckPut("b", 3, 4096-16-32)),
		fsckMade(t, "a list of free pages with a long count", 1024, fsckPut("a", 70, 1<<20), fsckDelete("a", 70, 69)),
	)
}

// fsckSmallImages returns the images that are fast to check.
func fsckSmallImages(t testing.TB) []fsckImage {
	none := func(*bbolt.Tx) error { return nil }
	return []fsckImage{
		fsckMade(t, "just created", 4096),
		fsckMade(t, "an empty transaction", 4096, none),
		fsckMade(t, "an empty bucket", 4096, fsckPut("a", 0, 0)),
		fsckMade(t, "inline buckets", 4096, fsckPut("a", 3, 10), fsckPut("b", 0, 0), fsckPut("c", 1, 100)),
		fsckMade(t, "a value of no bytes", 4096, fsckPut("a", 100, 0), fsckPut("b", 1, 0)),
		fsckMade(t, "some keys", 1024, fsckPut("a", 30, 20), fsckPut("b", 3, 10), fsckDelete("a", 30, 4)),
		fsckMade(t, "pages of 64 KiB", 65536, fsckPut("a", 5000, 50), fsckPut("b", 200, 8)),
		fsckMade(t, "many buckets", 1024, func(tx *bbolt.Tx) (err error) {
			for i := range 300 {
				err = errors.Join(err, fsckPut(fmt.Sprintf("bucket-%d", i), i%7, 40)(tx))
			}
			return err
		}),
		fsckMade(t, "free pages", 1024, fsckPut("a", 1000, 100), fsckDelete("a", 1000, 50)),
		fsckMade(t, "nothing left", 1024, fsckPut("a", 1000, 100), fsckDelete("a", 1000, 1001), fsckDelete("a", 1, 2)),
		fsckMade(t, "a list of free pages over several pages", 1024, fsckPut("a", 9000, 100), fsckDelete("a", 9000, 500)),
	}
}

func TestFsckVisitsTheSameRecordsAsBolt(t *testing.T) {
	for _, img := range fsckImages(t) {
		t.Run(img.name, func(t *testing.T) {
			got, err := checkedImage(img.bytes)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, img.records) {
				t.Errorf("it visits %d records that are not the %d of bbolt", len(got), len(img.records))
			}
		})
	}
}

// fsckModel is the expected content of a file.
type fsckModel map[fsckRecord]string

func (m fsckModel) records() (out []fsckRecord) {
	for r, value := range m {
		out = append(out, fsckRecord{r.Bucket, r.Key, value})
	}
	slices.SortFunc(out, fsckRecord.compare)
	return out
}

// fsckRandom changes a file at random, and model with it.
func fsckRandom(rnd *rand.Rand, model fsckModel) func(tx *bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		name := fmt.Sprintf("bucket-%d", rnd.IntN(3))
		if rnd.IntN(40) == 0 && tx.Bucket([]byte(name)) != nil {
			maps.DeleteFunc(model, func(r fsckRecord, _ string) bool { return r.Bucket == name })
			return tx.DeleteBucket([]byte(name))
		}
		b, err := tx.CreateBucketIfNotExists([]byte(name))
		deletes, length := rnd.IntN(10), 1<<rnd.IntN(13)
		for range rnd.IntN(1 << rnd.IntN(11)) {
			key := strings.Repeat("k", rnd.IntN(2)*rnd.IntN(200)) + fmt.Sprint(rnd.IntN(500))
			if rnd.IntN(10) < deletes {
				delete(model, fsckRecord{Bucket: name, Key: key})
				err = errors.Join(err, b.Delete([]byte(key)))
				continue
			}
			value := strings.Repeat("v", rnd.IntN(length))
			model[fsckRecord{Bucket: name, Key: key}] = value
			err = errors.Join(err, b.Put([]byte(key), []byte(value)))
		}
		return err
	}
}

func TestFsckPassesAfterEveryTransactionOfBolt(t *testing.T) {
	seeds, transactions := 5, 30
	if fsckSoak() {
		seeds, transactions = 400, 300
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		path, page := filepath.Join(t.TempDir(), "state.db"), 1024<<rnd.IntN(3)
		db, model := fsckOpen(t, path, page), fsckModel{}
		for i := range transactions {
			if rnd.IntN(10) == 0 {
				fsckClose(t, db)
				db = fsckOpen(t, path, page)
			}
			fsckBesideReader(t, rnd, db, func() { fsckCommit(t, db, fsckRandom(rnd, model)) })
			got, err := checkedFile(t, path)
			if err != nil {
				t.Fatalf("seed %d, after transaction %d: %v", seed, i, err)
			}
			if want := model.records(); !slices.Equal(want, got) {
				t.Fatalf("seed %d, after transaction %d (-want +got):\n%s", seed, i, gocmp.Diff(want, got))
			}
		}
		fsckClose(t, db)
	}
}

// fsckBesideReader calls change. In a third of the calls a reader prevents the reuse of the
// previous transaction's pages.
func fsckBesideReader(t testing.TB, rnd *rand.Rand, db *bbolt.DB, change func()) {
	t.Helper()
	if rnd.IntN(3) == 0 {
		reader, err := db.Begin(false)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = reader.Rollback() }()
	}
	for range 1 + rnd.IntN(3) {
		change()
	}
}

func checkedFile(t testing.TB, path string) ([]fsckRecord, error) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return checked(f, info.Size())
}

// bbolt computes how many pages its list of free pages needs before it allocates them. It may
// allocate them from that list, so the list sometimes has one page more than it needs.
func TestFsckAcceptsAnyNumberOfFreePages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := fsckOpen(t, path, 1024)
	defer fsckClose(t, db)
	long := 0
	fsckCommit(t, db, fsckPut("a", 700, 300))
	for i := range 700 {
		fsckCommit(t, db, func(tx *bbolt.Tx) error { return tx.Bucket([]byte("a")).Delete(fmt.Appendf(nil, "key-%07d", i)) })
		if got, err := checkedFile(t, path); err != nil || len(got) != 699-i {
			t.Fatalf("after %d deletions: %d records, %v", i+1, len(got), err)
		}
		if fsckListIsLong(t, path) {
			long++
		}
	}
	if long == 0 {
		t.Error("no list was longer than it needs to be, so nothing was proved")
	}
}

// fsckListIsLong reports whether a list of free pages has a page too many.
func fsckListIsLong(t testing.TB, path string) bool {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &fsckFile{fsckImage: fsckImage{page: 1024, bytes: b}}
	meta, _ := f.current()
	list := f.get64(meta, fsckAtFreelist)
	return int(f.get32(list, 12)) > (fsckHeaderLen+8*int(f.get16(list, 10)))/1024
}
