package bolt

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// fsckSafe checks the promise of fsck about an image that it passed: bbolt reads the same records
// and loses nothing after further writes.
func fsckSafe(t testing.TB, image []byte, records []fsckRecord) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	db := fsckOpen(t, path, 0)
	if got := fsckByBolt(t, db); !slices.Equal(got, records) {
		t.Fatalf("bbolt reads %d records, other ones than the %d that were visited", len(got), len(records))
	}
	model := fsckModel{}
	for _, r := range records {
		model[fsckRecord{Bucket: r.Bucket, Key: r.Key}] = r.Value
	}
	fsckCommit(t, db, fsckMore(model))
	fsckCommit(t, db, fsckFewer(model, 3))
	fsckCommit(t, db, fsckFewer(model, 2))
	fsckClose(t, db)
	db = fsckOpen(t, path, 0)
	if got := fsckByBolt(t, db); !slices.Equal(got, model.records()) {
		t.Fatalf("bbolt has %d records after writing, other ones than the %d expected", len(got), len(model))
	}
	fsckClose(t, db)
	if got, err := checkedFile(t, path); err != nil || !slices.Equal(got, model.records()) {
		t.Fatalf("after writing: %d records of %d, %v", len(got), len(model), err)
	}
}

// fsckMore puts 50 records into each bucket, and into a new one.
func fsckMore(model fsckModel) func(tx *bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists([]byte("more")); err != nil {
			return err
		}
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) (err error) {
			for i := range 50 {
				key, value := fmt.Sprintf("%ckey-%d", 'a'+i%26, i), strings.Repeat("x", 37*i)
				model[fsckRecord{Bucket: string(name), Key: key}] = value
				err = errors.Join(err, b.Put([]byte(key), []byte(value)))
			}
			return err
		})
	}
}

// fsckFewer deletes every n-th record.
func fsckFewer(model fsckModel, n int) func(tx *bbolt.Tx) error {
	return func(tx *bbolt.Tx) (err error) {
		for i, r := range model.records() {
			if i%n == 0 {
				delete(model, fsckRecord{Bucket: r.Bucket, Key: r.Key})
				err = errors.Join(err, tx.Bucket([]byte(r.Bucket)).Delete([]byte(r.Key)))
			}
		}
		return err
	}
}

// fsckHarmless reports whether got is a result that the store's checksums detect or accept: all
// records, the records of the previous transaction, one record with other bytes, or one bucket
// with another name.
func fsckHarmless(img fsckImage, got []fsckRecord) bool {
	if slices.Equal(got, img.records) || slices.Equal(got, img.old) {
		return true
	}
	if len(got) != len(img.records) {
		return false
	}
	var changed, renamed []int
	for i, r := range got {
		if want := img.records[i]; r.Bucket != want.Bucket {
			renamed = append(renamed, i)
		} else if r != want {
			changed = append(changed, i)
		}
	}
	if len(renamed) == 0 {
		return len(changed) == 1
	}
	from, to := img.records[renamed[0]].Bucket, got[renamed[0]].Bucket
	for i, r := range got {
		want := img.records[i]
		if want.Bucket == from {
			want.Bucket = to
		}
		if r != want {
			return false
		}
	}
	return true
}

// fsckFlip flips a bit and compares the result of fsck with the real one. With safe, bbolt must
// handle an image that passes.
func fsckFlip(t testing.TB, img fsckImage, bit int, safe bool) (passed bool) {
	t.Helper()
	img.bytes[bit/8] ^= 1 << (bit % 8)
	defer func() { img.bytes[bit/8] ^= 1 << (bit % 8) }()
	got, err := checkedImage(img.bytes)
	if err != nil {
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s, bit %d of byte %d: %v", img.name, bit%8, bit/8, err)
		}
		return false
	}
	if !fsckHarmless(img, got) {
		t.Fatalf("%s, bit %d of byte %d: it passes with %d records, of %d", img.name, bit%8, bit/8, len(got), len(img.records))
	}
	if safe {
		fsckSafe(t, img.bytes, got)
	}
	return true
}

func TestAnyFlippedBitIsFoundOrHarmless(t *testing.T) {
	img := fsckMade(t, "small", 1024, fsckPut("a", 30, 40), fsckPut("b", 2, 10), fsckPut("c", 1, 3000),
		fsckDelete("a", 30, 2), fsckPut("a", 9, 60))
	// The steps share no divisor with 8, so that all bits of a byte have their turn.
	step, safe := 5, 400
	if fsckSoak() {
		step, safe = 1, 20
	}
	passed, flipped := 0, 0
	for bit := 0; bit < len(img.bytes)*8; bit += step {
		flipped++
		if fsckFlip(t, img, bit, passed%safe == 0) {
			passed++
		}
	}
	if passed == 0 || passed == flipped {
		t.Errorf("%d of %d images pass", passed, flipped)
	}
}

func TestFlippedBitsOfLargerFilesAreFoundOrHarmless(t *testing.T) {
	images, flips, safe := fsckSmallImages(t), 500, 50
	if fsckSoak() {
		flips, safe = 20000, 3
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range flips {
		img := images[i%len(images)]
		fsckFlip(t, img, fsckAnyBit(rnd, img), i%safe == 0)
	}
}

// fsckAnyBit is a bit anywhere, or as often one near the beginning of a page,
// where most of the structure is.
func fsckAnyBit(rnd *rand.Rand, img fsckImage) int {
	bit := rnd.IntN(len(img.bytes) * 8)
	if page := img.page * 8; rnd.IntN(2) == 0 {
		return bit/page*page + rnd.IntN(512)
	}
	return bit
}
