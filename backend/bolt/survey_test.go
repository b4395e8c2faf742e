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

// surveySoak reports whether tests may take long.
func surveySoak() bool { return os.Getenv("SLIPWAY_SOAK") == "1" }

// surveyRecord is a key of a file.
type surveyRecord struct{ Bucket, Key, Value string }

func (r surveyRecord) compare(o surveyRecord) int {
	return cmp.Or(strings.Compare(r.Bucket, o.Bucket), strings.Compare(r.Key, o.Key))
}

// surveyed returns what survey visits.
func surveyed(r io.ReaderAt, size int64) (got []surveyRecord, err error) {
	err = survey(r, size, func(bucket, key, value []byte) error {
		got = append(got, surveyRecord{string(bucket), string(key), string(value)})
		return nil
	})
	return got, err
}

func surveyedImage(image []byte) ([]surveyRecord, error) {
	return surveyed(bytes.NewReader(image), int64(len(image)))
}

// surveyOpen opens a file with bbolt as the store does, but does not sync it.
func surveyOpen(t testing.TB, path string, pageSize int) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoGrowSync: true, PageSize: pageSize, FreelistType: bbolt.FreelistMapType, InitialMmapSize: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func surveyClose(t testing.TB, db *bbolt.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// surveyCommit makes a transaction.
func surveyCommit(t testing.TB, db *bbolt.DB, change func(tx *bbolt.Tx) error) {
	t.Helper()
	if err := db.Update(change); err != nil {
		t.Fatal(err)
	}
}

// surveyByBolt returns what bbolt reads.
func surveyByBolt(t testing.TB, db *bbolt.DB) (got []surveyRecord) {
	t.Helper()
	err := db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				got = append(got, surveyRecord{string(name), string(k), string(v)})
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// surveyImage is a file that bbolt made.
type surveyImage struct {
	name    string
	page    int
	bytes   []byte
	records []surveyRecord
	// old are the records before the last transaction.
	old []surveyRecord
}

// surveyMade makes a file with transactions.
func surveyMade(t testing.TB, name string, pageSize int, changes ...func(tx *bbolt.Tx) error) surveyImage {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	db := surveyOpen(t, path, pageSize)
	img := surveyImage{name: name, page: pageSize}
	for _, change := range changes {
		img.old = surveyByBolt(t, db)
		surveyCommit(t, db, change)
	}
	img.records = surveyByBolt(t, db)
	surveyClose(t, db)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	img.bytes = b
	return img
}

// surveyPut puts n records into a bucket.
func surveyPut(bucket string, n, size int) func(tx *bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(bucket))
		for i := range n {
			value := bytes.Repeat([]byte{byte(i), 'v'}, size/2)
			err = errors.Join(err, b.Put(fmt.Appendf(nil, "key-%07d", i), value))
		}
		return err
	}
}

// surveyDelete deletes every record of a bucket but each keep-th.
func surveyDelete(bucket string, n, keep int) func(tx *bbolt.Tx) error {
	return func(tx *bbolt.Tx) (err error) {
		for i := range n {
			if i%keep != 0 {
				err = errors.Join(err, tx.Bucket([]byte(bucket)).Delete(fmt.Appendf(nil, "key-%07d", i)))
			}
		}
		return err
	}
}

// surveyImages are files of every shape.
func surveyImages(t testing.TB) []surveyImage {
	return append(surveySmallImages(t),
		surveyMade(t, "many keys", 4096, surveyPut("a", 20000, 50), surveyPut("b", 2, 8)),
		surveyMade(t, "big values", 4096, surveyPut("a", 9, 1<<20), surveyPut("a", 4, 5000), surveyPut("b", 3, 4096-16-32)),
		surveyMade(t, "a list of free pages with a long count", 1024, surveyPut("a", 70, 1<<20), surveyDelete("a", 70, 69)),
	)
}

// surveySmallImages are those of them that are quick to go through.
func surveySmallImages(t testing.TB) []surveyImage {
	none := func(*bbolt.Tx) error { return nil }
	return []surveyImage{
		surveyMade(t, "just created", 4096),
		surveyMade(t, "an empty transaction", 4096, none),
		surveyMade(t, "an empty bucket", 4096, surveyPut("a", 0, 0)),
		surveyMade(t, "inline buckets", 4096, surveyPut("a", 3, 10), surveyPut("b", 0, 0), surveyPut("c", 1, 100)),
		surveyMade(t, "a value of no bytes", 4096, surveyPut("a", 100, 0), surveyPut("b", 1, 0)),
		surveyMade(t, "some keys", 1024, surveyPut("a", 30, 20), surveyPut("b", 3, 10), surveyDelete("a", 30, 4)),
		surveyMade(t, "pages of 64 KiB", 65536, surveyPut("a", 5000, 50), surveyPut("b", 200, 8)),
		surveyMade(t, "many buckets", 1024, func(tx *bbolt.Tx) (err error) {
			for i := range 300 {
				err = errors.Join(err, surveyPut(fmt.Sprintf("bucket-%d", i), i%7, 40)(tx))
			}
			return err
		}),
		surveyMade(t, "free pages", 1024, surveyPut("a", 1000, 100), surveyDelete("a", 1000, 50)),
		surveyMade(t, "nothing left", 1024, surveyPut("a", 1000, 100), surveyDelete("a", 1000, 1001), surveyDelete("a", 1, 2)),
		surveyMade(t, "a list of free pages over several pages", 1024, surveyPut("a", 9000, 100), surveyDelete("a", 9000, 500)),
	}
}

func TestSurveyVisitsExactlyWhatBoltReads(t *testing.T) {
	for _, img := range surveyImages(t) {
		t.Run(img.name, func(t *testing.T) {
			got, err := surveyedImage(img.bytes)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, img.records) {
				t.Errorf("it visits %d records that are not the %d of bbolt", len(got), len(img.records))
			}
		})
	}
}

// surveyModel is what a file should hold.
type surveyModel map[surveyRecord]string

func (m surveyModel) records() (out []surveyRecord) {
	for r, value := range m {
		out = append(out, surveyRecord{r.Bucket, r.Key, value})
	}
	slices.SortFunc(out, surveyRecord.compare)
	return out
}

// surveyRandom changes a file at random, and model with it.
func surveyRandom(rnd *rand.Rand, model surveyModel) func(tx *bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		name := fmt.Sprintf("bucket-%d", rnd.IntN(3))
		if rnd.IntN(40) == 0 && tx.Bucket([]byte(name)) != nil {
			maps.DeleteFunc(model, func(r surveyRecord, _ string) bool { return r.Bucket == name })
			return tx.DeleteBucket([]byte(name))
		}
		b, err := tx.CreateBucketIfNotExists([]byte(name))
		deletes, length := rnd.IntN(10), 1<<rnd.IntN(13)
		for range rnd.IntN(1 << rnd.IntN(11)) {
			key := strings.Repeat("k", rnd.IntN(2)*rnd.IntN(200)) + fmt.Sprint(rnd.IntN(500))
			if rnd.IntN(10) < deletes {
				delete(model, surveyRecord{Bucket: name, Key: key})
				err = errors.Join(err, b.Delete([]byte(key)))
				continue
			}
			value := strings.Repeat("v", rnd.IntN(length))
			model[surveyRecord{Bucket: name, Key: key}] = value
			err = errors.Join(err, b.Put([]byte(key), []byte(value)))
		}
		return err
	}
}

func TestSurveyPassesAfterEveryTransactionOfBolt(t *testing.T) {
	seeds, transactions := 5, 30
	if surveySoak() {
		seeds, transactions = 400, 300
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		path, page := filepath.Join(t.TempDir(), "state.db"), 1024<<rnd.IntN(3)
		db, model := surveyOpen(t, path, page), surveyModel{}
		for i := range transactions {
			if rnd.IntN(10) == 0 {
				surveyClose(t, db)
				db = surveyOpen(t, path, page)
			}
			surveyBesideReader(t, rnd, db, func() { surveyCommit(t, db, surveyRandom(rnd, model)) })
			got, err := surveyedFile(t, path)
			if err != nil {
				t.Fatalf("seed %d, after transaction %d: %v", seed, i, err)
			}
			if want := model.records(); !slices.Equal(want, got) {
				t.Fatalf("seed %d, after transaction %d (-want +got):\n%s", seed, i, gocmp.Diff(want, got))
			}
		}
		surveyClose(t, db)
	}
}

// surveyBesideReader calls change, now and then while a reader keeps the pages
// of the transaction before from being used again.
func surveyBesideReader(t testing.TB, rnd *rand.Rand, db *bbolt.DB, change func()) {
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

func surveyedFile(t testing.TB, path string) ([]surveyRecord, error) {
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
	return surveyed(f, info.Size())
}

// bbolt counts the pages of its list of free pages before it takes them, maybe
// from that list, so that now and then it has one more than it needs.
func TestSurveyPassesWhateverTheNumberOfFreePages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := surveyOpen(t, path, 1024)
	defer surveyClose(t, db)
	long := 0
	surveyCommit(t, db, surveyPut("a", 700, 300))
	for i := range 700 {
		surveyCommit(t, db, func(tx *bbolt.Tx) error { return tx.Bucket([]byte("a")).Delete(fmt.Appendf(nil, "key-%07d", i)) })
		if got, err := surveyedFile(t, path); err != nil || len(got) != 699-i {
			t.Fatalf("after %d deletions: %d records, %v", i+1, len(got), err)
		}
		if surveyListIsLong(t, path) {
			long++
		}
	}
	if long == 0 {
		t.Error("no list was longer than it needs to be, so nothing was proved")
	}
}

// surveyListIsLong reports whether a list of free pages has a page too many.
func surveyListIsLong(t testing.TB, path string) bool {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &surveyFile{surveyImage: surveyImage{page: 1024, bytes: b}}
	meta, _ := f.current()
	list := f.get64(meta, surveyAtFreelist)
	return int(f.get32(list, 12)) > (surveyHeaderLen+8*int(f.get16(list, 10)))/1024
}
