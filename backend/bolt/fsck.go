package bolt

import (
	"fmt"
	"io"
)

// fsck checks the bbolt file in r, which has size bytes, and calls visit for every key of every
// top-level bucket, ascending by bucket and key. The arguments of visit are valid during the call
// only, and must be discarded if fsck fails later.
//
// bbolt maps the file and trusts its content: on a damaged file it panics, also in its own
// goroutines, or silently loses rows, at once or with a later write. If a file passes, bbolt can
// have written it: every page below the high water mark is reached exactly once, as part of a
// tree or of the list of free pages, and has the content that its place requires. Unreferenced
// bytes may be anything: free pages, the rest of a page, and bytes behind the high water mark. So
// may the bytes of keys and values, if the keys ascend.
//
// The error matches [ErrDamaged], or is an error of r or of visit. fsck holds only a few pages
// and a bit for each page, takes time linear in size, and does not panic on any input.
func fsck(r io.ReaderAt, size int64, visit func(bucket, key, value []byte) error) error {
	m, err := fsckMetas(r, size)
	if err != nil {
		return err
	}
	s := &fsckState{r: r, meta: m, visit: visit}
	for _, check := range []func() error{s.metas, s.freelist, s.buckets, s.complete} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// fsckState is the state of an fsck.
type fsckState struct {
	r     io.ReaderAt
	meta  fsckMeta
	visit func(bucket, key, value []byte) error
	// seen has the pages that something refers to.
	seen fsckSet
	// buffers hold the pages on the path to the current page, by their depth.
	buffers [][]byte
}

// fsckDamage returns an error that is ErrDamaged. It never contains bytes of the file, because
// they can be anything, including secrets.
func fsckDamage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

func fsckPageDamage(id uint64, format string, args ...any) error {
	return fsckDamage("page %d: %s", id, fmt.Sprintf(format, args...))
}

// fsckRead fills b. An early end of the file is not damage here: its size was known, so it is
// being truncated now.
func fsckRead(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == io.EOF || err == nil {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at %d: %w", len(b), at, err)
}

// claim records a reference to n pages from id on.
func (s *fsckState) claim(id, n uint64) error {
	if id >= s.meta.pages || n > s.meta.pages-id {
		return fsckPageDamage(id, "with what follows it has %d pages, but the file's end at %d", n, s.meta.pages)
	}
	for ; n > 0; id, n = id+1, n-1 {
		if !s.seen.add(id) {
			return fsckPageDamage(id, "it is referred to twice, or is in use and free")
		}
	}
	return nil
}

func (s *fsckState) metas() error { return s.claim(0, 2) }

// complete checks that no page is lost.
func (s *fsckState) complete() error {
	if s.seen.len == s.meta.pages {
		return nil
	}
	id := uint64(0)
	for s.seen.has(id) {
		id++
	}
	return fsckPageDamage(id, "it is neither in use nor free")
}

// fsckSet is a set of pages. The zero value is empty. Its memory grows with its elements, not
// with the size that a file claims to have.
type fsckSet struct {
	blocks map[uint64]*fsckBlock
	len    uint64
}

// fsckBlock has a bit for each of 4,096 successive pages.
type fsckBlock [64]uint64

func fsckBit(id uint64) (block, word, bit uint64) { return id >> 12, id >> 6 & 63, 1 << (id & 63) }

// add puts id into the set, and returns false if it was in the set already.
func (s *fsckSet) add(id uint64) bool {
	block, word, bit := fsckBit(id)
	b := s.blocks[block]
	if b == nil {
		if s.blocks == nil {
			s.blocks = map[uint64]*fsckBlock{}
		}
		b = &fsckBlock{}
		s.blocks[block] = b
	}
	if b[word]&bit != 0 {
		return false
	}
	b[word] |= bit
	s.len++
	return true
}

func (s *fsckSet) has(id uint64) bool {
	block, word, bit := fsckBit(id)
	b := s.blocks[block]
	return b != nil && b[word]&bit != 0
}
