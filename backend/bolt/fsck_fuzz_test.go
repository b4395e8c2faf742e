package bolt

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
)

// FuzzFsck checks arbitrary bytes, and files of bbolt with some changed bytes: three bytes of
// edits are an offset and a value to add.
func FuzzFsck(f *testing.F) {
	bases := [][]byte{
		nil,
		fsckMade(f, "created", 1024).bytes,
		fsckMade(f, "inline", 1024, fsckPut("a", 3, 8)).bytes,
		fsckMade(f, "branch", 1024, fsckPut("a", 20, 100), fsckPut("a", 1, 40)).bytes,
		fsckMade(f, "long", 1024, fsckPut("a", 2, 2500), fsckPut("a", 1, 10)).bytes,
		fsckCrafted(f, craftedPage{[]string{"a", "c"}, []uint64{5, 6}}, craftedPage{keys: []string{"a", "b"}}, craftedPage{keys: []string{"c"}}).bytes,
	}
	for base := range bases {
		f.Add(uint8(base), false, []byte{0, 20, 1, 4, 10, 1})
		f.Add(uint8(base), true, []byte{12, 0, 0, 13, 10, 255, 14, 30, 7})
	}
	f.Fuzz(func(t *testing.T, base uint8, sum bool, edits []byte) {
		image := slices.Clone(bases[int(base)%len(bases)])
		if len(image) == 0 {
			fsckPassedIsSafe(t, edits)
			return
		}
		for ; len(edits) >= 3; edits = edits[3:] {
			image[int(binary.BigEndian.Uint16(edits))%len(image)] += edits[2]
		}
		if sum {
			// Without this nothing behind a changed meta page is ever read.
			(&fsckFile{fsckImage: fsckImage{page: 1024, bytes: image}}).sum()
		}
		fsckPassedIsSafe(t, image)
	})
}

// fsckPassedIsSafe checks an image, and opens some of the passing images with bbolt, which takes
// a thousand times as long.
func fsckPassedIsSafe(t *testing.T, image []byte) {
	t.Helper()
	got, err := checkedImage(image)
	if err != nil && !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	if err == nil && crc32.ChecksumIEEE(image)%256 == 0 {
		fsckSafe(t, image, got)
	}
}

// BenchmarkFsck checks a file of some 100 MB with values of 1 KiB, and one
// with values of 256 KiB.
func BenchmarkFsck(b *testing.B) {
	for name, c := range map[string]struct{ n, size int }{"values=1KiB": {70000, 1000}, "values=256KiB": {400, 256 << 10}} {
		b.Run(name, func(b *testing.B) { benchmarkFsck(b, c.n, c.size) })
	}
}

func benchmarkFsck(b *testing.B, n, size int) {
	path := filepath.Join(b.TempDir(), "state.db")
	db := fsckOpen(b, path, 4096)
	fsckCommit(b, db, func(tx *bbolt.Tx) error { return fsckPut("a", n, size)(tx) })
	fsckClose(b, db)
	b.SetBytes(fileSize(path))
	b.ReportAllocs()
	for b.Loop() {
		if err := fsckCounted(b, path, n); err != nil {
			b.Fatal(err)
		}
	}
}

// fsckCounted checks a file that should have n records.
func fsckCounted(b *testing.B, path string, n int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = fsck(f, fileSize(path), func(_, _, _ []byte) error { n--; return nil })
	if n != 0 {
		b.Errorf("%d records were not visited", n)
	}
	return err
}
