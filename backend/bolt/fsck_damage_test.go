package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// fsckFile is an image that a test damages.
type fsckFile struct {
	fsckImage
	// The pages of the tree of the bucket "a": a branch above leaves, its first
	// leaf, a leaf with overflow; and the leaf with the buckets.
	branch, leaf, long, top uint64
	free                    uint64
}

func (f *fsckFile) at(page uint64) []byte { return f.bytes[int(page)*f.fsckImage.page:] }

func (f *fsckFile) put16(page uint64, at int, v uint16) {
	binary.NativeEndian.PutUint16(f.at(page)[at:], v)
}

func (f *fsckFile) put32(page uint64, at int, v uint32) {
	binary.NativeEndian.PutUint32(f.at(page)[at:], v)
}

func (f *fsckFile) put64(page uint64, at int, v uint64) {
	binary.NativeEndian.PutUint64(f.at(page)[at:], v)
}

func (f *fsckFile) get16(page uint64, at int) uint16 {
	return binary.NativeEndian.Uint16(f.at(page)[at:])
}

func (f *fsckFile) get32(page uint64, at int) uint32 {
	return binary.NativeEndian.Uint32(f.at(page)[at:])
}

func (f *fsckFile) get64(page uint64, at int) uint64 {
	return binary.NativeEndian.Uint64(f.at(page)[at:])
}

// Places in a meta page.
const (
	fsckAtVersion, fsckAtPageSize, fsckAtRoot, fsckAtFreelist = 20, 24, 32, 48
	fsckAtPages, fsckAtTxid, fsckAtSum                        = 56, 64, 72
)

// sum makes the checksums of both meta pages right again.
func (f *fsckFile) sum() {
	for page := range uint64(2) {
		h := fnv.New64a()
		_, _ = h.Write(f.at(page)[fsckHeaderLen:fsckAtSum])
		f.put64(page, fsckAtSum, h.Sum64())
	}
}

// meta changes a number in both meta pages.
func (f *fsckFile) meta(at int, v uint64) {
	for page := range uint64(2) {
		f.put64(page, at, v)
	}
	f.sum()
}

// current is the meta page that counts, and the root of the buckets.
func (f *fsckFile) current() (page, root uint64) {
	if f.get64(1, fsckAtTxid) > f.get64(0, fsckAtTxid) {
		page = 1
	}
	return page, f.get64(page, fsckAtRoot)
}

func (f *fsckFile) clone() *fsckFile {
	g := *f
	g.bytes = bytes.Clone(f.bytes)
	return &g
}

// fsckDamageable creates a file with every structure that can be damaged.
func fsckDamageable(t testing.TB) *fsckFile {
	t.Helper()
	f := &fsckFile{fsckImage: fsckMade(t, "damaged", 1024,
		fsckPut("a", 400, 30), fsckDelete("a", 400, 3), fsckPut("b", 3, 20), fsckPut("c", 3, 3000), fsckPut("d", 0, 0),
		func(*bbolt.Tx) error { return nil })}
	page, top := f.current()
	f.top, f.free = top, f.get64(page, fsckAtFreelist)
	// The values of the buckets begin where their keys of one byte end.
	root := func(i int) uint64 { return f.get64(f.top, f.value(f.top, i)) }
	f.branch, f.long = root(0), root(2)
	for f.get16(f.branch, 8) == fsckBranch {
		f.leaf = f.get64(f.branch, 16+8)
		if f.get16(f.leaf, 8) == fsckLeaf {
			break
		}
		f.branch = f.leaf
	}
	if f.get16(f.top, 8) != fsckLeaf || f.get16(f.branch, 8) != fsckBranch || f.get32(f.long, 12) == 0 || f.get16(f.free, 10) < 20 {
		t.Fatal("the file has not the shape that the test needs")
	}
	return f
}

// value returns the offset of the value of a leaf's entry.
func (f *fsckFile) value(page uint64, i int) int {
	e := 16 + 16*i
	return e + int(f.get32(page, e+4)) + int(f.get32(page, e+8))
}

func TestFsckFindsEveryKindOfDamage(t *testing.T) {
	whole := fsckDamageable(t)
	cases := []struct {
		name   string
		damage func(f *fsckFile)
		want   string
	}{
		{"both checksums", func(f *fsckFile) { f.at(0)[30]++; f.at(1)[30]++ }, "no meta page is valid; of the first one: its checksum"},
		{"magic", func(f *fsckFile) { f.meta(16, 7) }, "of the first one: it is not bbolt's"},
		{"version", func(f *fsckFile) { f.put32(0, 20, 3); f.put32(1, 20, 3); f.sum() }, "it has version 3, this one reads 2"},
		{"page size of no power", func(f *fsckFile) { f.put32(0, fsckAtPageSize, 1025); f.sum() }, "a page size of 1025 bytes"},
		{"page size 0", func(f *fsckFile) { f.put32(0, fsckAtPageSize, 0); f.sum() }, "a page size of 0 bytes"},
		{"page size too large", func(f *fsckFile) { f.put32(0, fsckAtPageSize, 1<<17); f.sum() }, "a page size of 131072 bytes"},
		{"two page sizes", func(f *fsckFile) { f.put32(1, fsckAtPageSize, 2048); f.sum() }, "page sizes of 1024 and 2048"},
		{"page size of the only meta page", func(f *fsckFile) {
			f.put32(1, fsckAtPageSize, 4096)
			f.sum()
			f.put64(0, fsckAtSum, 1)
		}, "the meta page at 1024 gives a page size of 4096"},
		{"header of a meta page", func(f *fsckFile) { p, _ := f.current(); f.put64(p, 0, 9) }, "it says that it is page 9"},
		{"flags of a meta page", func(f *fsckFile) { p, _ := f.current(); f.put16(p, 8, 5) }, "those of a meta page 0x4"},
		{"high water mark behind the file", func(f *fsckFile) { f.meta(fsckAtPages, uint64(len(f.bytes)/1024+1)) }, "it says that the file has"},
		{"high water mark huge", func(f *fsckFile) { f.meta(fsckAtPages, 1<<63) }, "it says that the file has"},
		{"high water mark 0", func(f *fsckFile) { f.meta(fsckAtPages, 0) }, "page 0:"},
		{"high water mark raised", func(f *fsckFile) {
			f.bytes = append(f.bytes, make([]byte, 1024)...)
			f.meta(fsckAtPages, f.get64(0, fsckAtPages)+1)
		}, "neither in use nor free"},
		{"high water mark lowered", func(f *fsckFile) { f.meta(fsckAtPages, f.get64(0, fsckAtPages)-1) }, "page"},
		{"transaction", func(f *fsckFile) { f.meta(fsckAtTxid, 1<<64-1) }, "transaction number"},
		{"no list of free pages", func(f *fsckFile) { f.meta(fsckAtFreelist, 1<<64-1) }, "the list of free pages cannot be there"},
		{"list of free pages in a meta page", func(f *fsckFile) { f.meta(fsckAtFreelist, 1) }, "the list of free pages cannot be there"},
		{"list of free pages elsewhere", func(f *fsckFile) { f.meta(fsckAtFreelist, f.leaf) }, "those of a list of free pages"},
		{"root in a meta page", func(f *fsckFile) { f.meta(fsckAtRoot, 1) }, "page 1: a tree refers to it"},
		{"root behind the file", func(f *fsckFile) { f.meta(fsckAtRoot, 1<<40) }, "a tree refers to it"},
		{"root elsewhere", func(f *fsckFile) { f.meta(fsckAtRoot, f.leaf) }, "instead of 0x1, which tells a bucket"},

		{"number of the list", func(f *fsckFile) { f.put64(f.free, 0, 3) }, "it says that it is page 3"},
		{"flags of the list", func(f *fsckFile) { f.put16(f.free, 8, 0x12) }, "its flags are 0x12"},
		{"count of the list lower", func(f *fsckFile) { f.put16(f.free, 10, f.get16(f.free, 10)-1) }, "neither in use nor free"},
		{"count of the list higher", func(f *fsckFile) { f.put16(f.free, 10, f.get16(f.free, 10)+1) }, "does not ascend"},
		{"count of the list huge", func(f *fsckFile) { f.put16(f.free, 10, 0xFFFE) }, "it counts 65534 free pages of"},
		{"long count of a short list", func(f *fsckFile) { f.put16(f.free, 10, 0xFFFF) }, "in the way that is for 65535 and more"},
		{"overflow of the list", func(f *fsckFile) { f.put32(f.free, 12, 1) }, "cannot take 2 pages"},
		{"overflow of the list huge", func(f *fsckFile) { f.put32(f.free, 12, 1<<32-1) }, "cannot take 4294967296 pages"},
		{"free pages in another order", func(f *fsckFile) {
			a, b := f.get64(f.free, 16), f.get64(f.free, 24)
			f.put64(f.free, 16, b)
			f.put64(f.free, 24, a)
		}, "does not ascend"},
		{"free page twice", func(f *fsckFile) { f.put64(f.free, 16, f.get64(f.free, 24)) }, "does not ascend"},
		{"free meta page", func(f *fsckFile) { f.put64(f.free, 16, 1) }, "does not ascend"},
		{"free page behind the file", func(f *fsckFile) { f.put64(f.free, 16+8*(int(f.get16(f.free, 10))-1), 1<<40) }, "but the file's pages end at"},
		{"free page in use", func(f *fsckFile) { f.freeInUse() }, "referred to twice, or is in use and free"},

		{"number of a branch", func(f *fsckFile) { f.put64(f.branch, 0, 3) }, "it says that it is page 3"},
		{"number of a leaf", func(f *fsckFile) { f.put64(f.leaf, 0, 3) }, "it says that it is page 3"},
		{"no flags", func(f *fsckFile) { f.put16(f.leaf, 8, 0) }, "its flags are 0x0"},
		{"two flags", func(f *fsckFile) { f.put16(f.leaf, 8, 3) }, "its flags are 0x3"},
		{"leaf as branch", func(f *fsckFile) { f.put16(f.leaf, 8, 1) }, "page"},
		{"branch as leaf", func(f *fsckFile) { f.put16(f.branch, 8, 2) }, "page"},
		{"count of a leaf lower", func(f *fsckFile) { f.put16(f.leaf, 10, f.get16(f.leaf, 10)-1) }, "entry 0 begins at"},
		{"count of a leaf 0", func(f *fsckFile) { f.put16(f.leaf, 10, 0) }, "it has no entries, but something is written"},
		{"count of a root", func(f *fsckFile) { f.put16(f.long, 10, 0); f.put32(f.long, 12, 0) }, "it has no entries, but something is written"},
		{"count of a leaf huge", func(f *fsckFile) { f.put16(f.leaf, 10, 0xFFFF) }, "65535 entries do not fit"},
		{"count of a branch 0", func(f *fsckFile) { f.put16(f.branch, 10, 0) }, "it has no entries, but something is written"},
		{"overflow of a leaf higher", func(f *fsckFile) { f.put32(f.leaf, 12, 1) }, "page"},
		{"overflow of a leaf huge", func(f *fsckFile) { f.put32(f.leaf, 12, 1<<32-1) }, "with what follows it has 4294967296 pages"},
		{"overflow of a branch huge", func(f *fsckFile) { f.put32(f.branch, 12, 1<<12) }, "with what follows it has 4097 pages"},
		{"overflow lower", func(f *fsckFile) { f.put32(f.long, 12, f.get32(f.long, 12)-1) }, "ends at"},
		{"overflow behind the file", func(f *fsckFile) { f.put32(f.long, 12, 1<<10) }, "but the file's end at"},
		{"overflow into free pages", func(f *fsckFile) { f.overflowFree() }, "referred to twice, or is in use and free"},

		{"place of an entry", func(f *fsckFile) { f.put32(f.leaf, 16+4, f.get32(f.leaf, 16+4)+1) }, "entry 0 begins at"},
		{"place of an entry far away", func(f *fsckFile) { f.put32(f.leaf, 16+4, 1<<32-1) }, "entry 0 begins at"},
		{"place of a branch's entry", func(f *fsckFile) { f.put32(f.branch, 16, 1<<31) }, "entry 0 begins at"},
		{"key of no bytes", func(f *fsckFile) { f.put32(f.leaf, 16+8, 0) }, "entry 0 has a key of 0 bytes"},
		{"key too long", func(f *fsckFile) { f.put32(f.leaf, 16+8, 1<<31) }, "entry 0 has a key of 2147483648 bytes"},
		{"key of a branch longer", func(f *fsckFile) { f.put32(f.branch, 20, f.get32(f.branch, 20)+1) }, "entry 1 begins at"},
		{"value longer", func(f *fsckFile) { f.put32(f.leaf, 16+12, f.get32(f.leaf, 16+12)+1) }, "entry 1 begins at"},
		{"value huge", func(f *fsckFile) { f.put32(f.leaf, 16+12, 1<<32-1) }, "entry 0 ends at"},
		{"flags of an entry", func(f *fsckFile) { f.put32(f.leaf, 16, 2) }, "has the flags 0x2"},
		{"bucket in a bucket", func(f *fsckFile) { f.put32(f.leaf, 16, 1) }, "a bucket in a bucket"},
		{"key in another order", func(f *fsckFile) { f.key(f.leaf, 1)[0] = 'a' }, "key 1 does not ascend"},
		{"key twice", func(f *fsckFile) { copy(f.key(f.leaf, 1), f.key(f.leaf, 0)[:11]) }, "key 1 does not ascend"},
		{"first key lower", func(f *fsckFile) { f.key(f.leaf, 0)[0] = 'a' }, "its first key is not the one"},
		{"first key higher", func(f *fsckFile) { f.key(f.leaf, 0)[10]++ }, "its first key is not the one"},
		{"last key too high", func(f *fsckFile) { f.key(f.leaf, int(f.get16(f.leaf, 10))-1)[0] = 'z' }, "its last key belongs into the next page"},
		{"key of a branch", func(f *fsckFile) { f.branchKey(1)[10]++ }, "page"},
		{"keys of a branch in another order", func(f *fsckFile) { f.branchKey(1)[0] = 'a' }, "key 1 does not ascend"},

		{"child is a meta page", func(f *fsckFile) { f.put64(f.branch, 24, 0) }, "page 0: a tree refers to it"},
		{"child behind the file", func(f *fsckFile) { f.put64(f.branch, 24, 1<<63) }, "a tree refers to it"},
		{"child is the page itself", func(f *fsckFile) { f.put64(f.branch, 24, f.branch) }, "referred to twice"},
		{"child of another", func(f *fsckFile) { f.put64(f.branch, 24, f.long) }, "page"},
		{"child is the list of free pages", func(f *fsckFile) { f.put64(f.branch, 24, f.free) }, "its flags are 0x10"},
		{"children in another order", func(f *fsckFile) {
			a, b := f.get64(f.branch, 24), f.get64(f.branch, 40)
			f.put64(f.branch, 24, b)
			f.put64(f.branch, 40, a)
		}, "its first key is not the one"},
		{"child twice", func(f *fsckFile) { f.put64(f.branch, 40, f.leaf) }, "referred to twice"},

		{"bucket that is none", func(f *fsckFile) { f.put32(f.top, 16, 0) }, "which tells a bucket"},
		{"root of a bucket", func(f *fsckFile) { f.put64(f.top, f.value(f.top, 0), 1) }, "page 1: a tree refers to it"},
		{"root of a bucket behind the file", func(f *fsckFile) { f.put64(f.top, f.value(f.top, 0), 1<<63) }, "a tree refers to it"},
		{"root of two buckets", func(f *fsckFile) { f.put64(f.top, f.value(f.top, 0), f.long) }, "referred to twice"},
		{"bucket without its page", func(f *fsckFile) { f.put64(f.top, f.value(f.top, 0), 0) }, "the bucket inside: it has 0 bytes"},
		{"counter of a bucket", func(f *fsckFile) { f.put64(f.top, f.value(f.top, 0)+8, 64) }, "a bucket has counted to 64"},
		{"inline bucket with a root", func(f *fsckFile) { f.put64(f.top, f.value(f.top, 1), 5) }, "a bucket with pages of its own has"},
		{"number of an inline page", func(f *fsckFile) { f.put64(f.top, f.value(f.top, 1)+16, 1) }, "the bucket inside: it says that it is page 1"},
		{"flags of an inline page", func(f *fsckFile) { f.put16(f.top, f.value(f.top, 1)+24, 1) }, "the bucket inside: it says"},
		{"count of an inline page", func(f *fsckFile) { f.put16(f.top, f.value(f.top, 1)+26, 2) }, "the bucket inside: entry 0 begins at"},
		{"count of an empty inline page", func(f *fsckFile) { f.put16(f.top, f.value(f.top, 3)+26, 1) }, "the bucket inside: 1 entries do not fit"},
		{"overflow of an inline page", func(f *fsckFile) { f.put32(f.top, f.value(f.top, 1)+28, 1) }, "and 1 pages more"},
		{"value of an inline page shorter", func(f *fsckFile) {
			at := f.value(f.top, 1) + 32 + 2*16 + 12
			f.put32(f.top, at, f.get32(f.top, at)-1)
		}, "the bucket inside: it takes"},
		{"bucket's name in another order", func(f *fsckFile) { f.key(f.top, 1)[0] = 'a' }, "key 1 does not ascend"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := whole.clone()
			c.damage(f)
			_, err := checkedImage(f.bytes)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want damage with %q in it", err, c.want)
			}
		})
	}
}

// key returns the key of a leaf's entry and the following bytes.
func (f *fsckFile) key(page uint64, i int) []byte {
	e := 16 + 16*i
	return f.at(page)[e+int(f.get32(page, e+4)):]
}

func (f *fsckFile) branchKey(i int) []byte {
	e := 16 + 16*i
	return f.at(f.branch)[e+int(f.get32(f.branch, e)):]
}

// freeInUse replaces a free page by a page in use, so that the list still ascends.
func (f *fsckFile) freeInUse() {
	for i, last := 0, uint64(1); i < int(f.get16(f.free, 10)); i++ {
		id := f.get64(f.free, 16+8*i)
		if id > last+1 {
			f.put64(f.free, 16+8*i, id-1)
			return
		}
		last = id
	}
}

// overflowFree lets a page overflow into a free one.
func (f *fsckFile) overflowFree() {
	for i := range int(f.get16(f.free, 10)) {
		before := f.get64(f.free, 16+8*i) - 1
		if f.get64(before, 0) == before && f.get16(before, 8) == fsckLeaf && f.get16(before, 10) > 0 && f.get32(before, 12) == 0 && f.inUse(before) {
			f.put32(before, 12, 1)
			return
		}
	}
}

func (f *fsckFile) inUse(page uint64) bool {
	for i := range int(f.get16(f.free, 10)) {
		if f.get64(f.free, 16+8*i) == page {
			return false
		}
	}
	return true
}
