package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"go.etcd.io/bbolt"
)

// craftedPage is a page of a tree that is made by hand: a branch if it has
// children.
type craftedPage struct {
	keys     []string
	children []uint64
}

func (p craftedPage) bytes(id uint64) []byte {
	order, b := binary.NativeEndian, make([]byte, 1024)
	order.PutUint64(b, id)
	order.PutUint16(b[8:], fsckLeaf)
	order.PutUint16(b[10:], uint16(len(p.keys)))
	if p.children != nil {
		order.PutUint16(b[8:], fsckBranch)
	}
	end := 16 + 16*len(p.keys)
	for i, key := range p.keys {
		e := b[16+16*i:]
		if p.children != nil {
			order.PutUint32(e, uint32(end-16-16*i))
			order.PutUint32(e[4:], uint32(len(key)))
			order.PutUint64(e[8:], p.children[i])
		} else {
			order.PutUint32(e[4:], uint32(end-16-16*i))
			order.PutUint32(e[8:], uint32(len(key)))
		}
		end += copy(b[end:], key)
	}
	return b
}

// fsckCrafted is a file with the bucket "a" whose tree is made by hand; the
// first page is its root and has the number 4.
func fsckCrafted(t testing.TB, pages ...craftedPage) *fsckFile {
	t.Helper()
	f := &fsckFile{fsckImage: fsckImage{page: 1024, bytes: make([]byte, 4*1024)}}
	for page := range uint64(2) {
		f.put64(page, 0, page)
		f.put16(page, 8, fsckMetaFlag)
		f.put32(page, 16, fsckMagic)
		f.put32(page, fsckAtVersion, fsckVersion)
		f.put32(page, fsckAtPageSize, 1024)
		f.put64(page, fsckAtRoot, 3)
		f.put64(page, fsckAtFreelist, 2)
		f.put64(page, fsckAtPages, uint64(len(pages)+4))
	}
	f.put64(2, 0, 2)
	f.put16(2, 8, fsckFreelist)
	top := craftedPage{keys: []string{"a\x04" + strings.Repeat("\x00", 15)}}.bytes(3)
	binary.NativeEndian.PutUint64(top[33:], 4)
	binary.NativeEndian.PutUint32(top[16:], fsckBucketFlag)
	binary.NativeEndian.PutUint32(top[24:], 1)
	binary.NativeEndian.PutUint32(top[28:], fsckBucketLen)
	copy(f.at(3), top)
	for i, p := range pages {
		f.bytes = append(f.bytes, p.bytes(uint64(4+i))...)
	}
	f.sum()
	return f
}

func TestFsckFindsATreeThatBoltWouldMergeWrongly(t *testing.T) {
	leaf := func(keys ...string) craftedPage { return craftedPage{keys: keys} }
	branch := func(first string, child uint64, second string, other uint64) craftedPage {
		return craftedPage{[]string{first, second}, []uint64{child, other}}
	}
	chain := make([]craftedPage, 60)
	for i := range chain {
		chain[i] = branch("a", uint64(5+i), fmt.Sprintf("b%d", 99-i), 3)
	}
	cases := []struct {
		name, want string
		pages      []craftedPage
	}{
		{"a leaf", "", []craftedPage{leaf("a", "b")}},
		{"a root without entries", "", []craftedPage{leaf()}},
		{"two levels", "", []craftedPage{branch("a", 5, "c", 6), leaf("a", "b"), leaf("c")}},
		{"a branch with one child", "at least 2 are needed", []craftedPage{{[]string{"a"}, []uint64{5}}, leaf("a")}},
		{"a branch without children", "at least 2 are needed", []craftedPage{branch("a", 5, "b", 6), {children: []uint64{}}, leaf("b")}},
		{"a leaf without entries", "a leaf without entries", []craftedPage{branch("a", 5, "b", 6), leaf(), leaf("b")}},
		{"leaves of two levels", "a leaf at level 1 of its tree, where others are at 2", []craftedPage{
			branch("a", 5, "c", 6), branch("a", 7, "b", 8), leaf("c"), leaf("a"), leaf("b"),
		}},
		{"a first key behind the parent's", "its first key", []craftedPage{branch("a", 5, "c", 6), leaf("b"), leaf("c")}},
		{"a branch's first key behind the parent's", "its first key", []craftedPage{
			branch("a", 5, "e", 6), branch("b", 7, "c", 8), branch("e", 9, "f", 10), leaf("b"), leaf("c"), leaf("e"), leaf("f"),
		}},
		{"a key that belongs two branches further", "its last key", []craftedPage{
			branch("a", 5, "e", 6), branch("a", 7, "c", 8), branch("e", 9, "f", 10), leaf("a"), leaf("c", "e"), leaf("e"), leaf("f"),
		}},
		{"a chain of branches", "more than 48 levels", chain},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := fsckCrafted(t, c.pages...)
			got, err := checkedImage(f.bytes)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want == "":
				fsckSafe(t, f.bytes, got)
			case !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want):
				t.Errorf("got %v, want damage with %q in it", err, c.want)
			}
		})
	}
}

func TestFsckOfATruncatedFileFailsOrMissesNothing(t *testing.T) {
	f := fsckDamageable(t)
	end := int(f.get64(0, fsckAtPages)) * 1024
	image := append(slices.Clone(f.bytes[:end]), make([]byte, 2000)...)
	step := 7
	if fsckSoak() {
		step = 1
	}
	for n := 0; n < len(image); n += step {
		got, err := checkedImage(image[:n])
		switch {
		case n < end && !errors.Is(err, ErrDamaged):
			t.Fatalf("%d of %d bytes: %v", n, end, err)
		case n >= end && (err != nil || !slices.Equal(got, f.records)):
			t.Fatalf("%d of %d bytes: %d records, %v", n, end, len(got), err)
		}
	}
}

func TestFsckRefusesForeignFiles(t *testing.T) {
	for name, image := range map[string][]byte{
		"empty":   {},
		"text":    []byte(strings.Repeat("some text\n", 1000)),
		"zeros":   make([]byte, 1<<16),
		"a byte":  {1},
		"ff":      []byte(strings.Repeat("\xff", 1<<16)),
		"a magic": append(make([]byte, 16), 0xED, 0xDA, 0x0C, 0xED),
	} {
		if _, err := checkedImage(image); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, want %v", name, err, ErrDamaged)
		}
	}
}

// sparse is a file with zeros behind its bytes.
type sparse []byte

func (s sparse) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	if at < int64(len(s)) {
		copy(b, s[at:])
	}
	return len(b), nil
}

func TestFsckOfAHugeSparseFileIsQuick(t *testing.T) {
	f := fsckDamageable(t)
	got, err := checked(sparse(f.bytes), 1<<62)
	if err != nil || !slices.Equal(got, f.records) {
		t.Errorf("%d records, %v", len(got), err)
	}
	f.meta(fsckAtPages, 1<<50)
	if _, err := checked(sparse(f.bytes), 1<<62); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a huge high water mark: %v, want %v", err, ErrDamaged)
	}
	g := f.clone()
	g.put64(g.free, 16+8*(int(g.get16(g.free, 10))-1), 1<<49)
	if _, err := checked(sparse(g.bytes), 1<<62); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a huge free page: %v, want %v", err, ErrDamaged)
	}
	g = f.clone()
	g.put16(g.free, 10, 0xFFFF)
	g.put64(g.free, 16, 1<<49)
	g.put32(g.free, 12, 1<<32-1)
	if _, err := checked(sparse(g.bytes), 1<<62); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a huge list of free pages: %v, want %v", err, ErrDamaged)
	}
}

// failing returns an error for reads at or after an offset.
type failing struct {
	io.ReaderAt
	from int64
	err  error
}

func (f failing) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > f.from {
		return 0, f.err
	}
	return f.ReaderAt.ReadAt(b, at)
}

func TestFsckReturnsTheErrorsOfReaderAndVisitor(t *testing.T) {
	f := fsckDamageable(t)
	for from := int64(0); from < int64(f.get64(0, fsckAtPages))*1024; from += 512 {
		_, err := checked(failing{sparse(f.bytes), from, iotest.ErrTimeout}, int64(len(f.bytes)))
		if errors.Is(err, ErrDamaged) || err != nil && !errors.Is(err, iotest.ErrTimeout) {
			t.Errorf("a read at %d that fails: %v", from, err)
		}
	}
	if _, err := checked(failing{sparse(f.bytes), 5 << 10, io.EOF}, int64(len(f.bytes))); err == nil {
		t.Error("a file that becomes shorter passes")
	}
	stop := fmt.Errorf("stop: %w", os.ErrExist)
	if err := fsck(sparse(f.bytes), int64(len(f.bytes)), func(_, _, _ []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the visitor's %v", err, stop)
	}
}

func TestFsckVisitsTheTransactionBeforeIfTheLastMetaPageIsTorn(t *testing.T) {
	for _, page := range []int{1024, 4096, 65536} {
		for commits := range 2 {
			changes := []func(*bbolt.Tx) error{fsckPut("a", 200, 50), fsckPut("b", 3, 50)}
			img := fsckMade(t, "torn", page, changes[:2-commits]...)
			f := &fsckFile{fsckImage: img}
			last, _ := f.current()
			f.at(last)[fsckAtTxid+3]++
			got, err := checkedImage(f.bytes)
			if err != nil || !slices.Equal(got, img.old) {
				t.Fatalf("meta page %d of pages of %d bytes: %d records of %d, %v", last, page, len(got), len(img.old), err)
			}
			fsckSafe(t, f.bytes, got)
		}
	}
}
