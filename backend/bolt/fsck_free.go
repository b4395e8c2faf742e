package bolt

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// fsckManyFree is the count in the header of a list of free pages whose true count is the first
// number behind the header.
const fsckManyFree = 0xFFFF

// freelist claims the free pages, and the pages of their list. bbolt would rebuild a missing list
// in its own goroutine, which panics on damage; our files always have a list.
func (s *fsckState) freelist() error {
	id := s.meta.freelist
	if id < 2 || id >= s.meta.pages {
		return fsckPageDamage(id, "the list of free pages cannot be there, the file's pages end at %d", s.meta.pages)
	}
	at, size := int64(id*s.meta.pageSize), int64((s.meta.pages-id)*s.meta.pageSize)
	l := &fsckList{id: id, r: bufio.NewReaderSize(io.NewSectionReader(s.r, at, size), int(min(size, 1<<16)))}
	var head [fsckHeaderLen]byte
	if _, err := io.ReadFull(l.r, head[:]); err != nil {
		return l.failed(err)
	}
	h := fsckHeaderOf(head[:])
	switch {
	case h.id != id:
		return fsckPageDamage(id, "it says that it is page %d", h.id)
	case h.flags != fsckFreelist:
		return fsckPageDamage(id, "its flags are %#x, those of a list of free pages %#x", h.flags, fsckFreelist)
	}
	n, err := s.freeCount(h, l)
	if err != nil {
		return err
	}
	if err := s.freePages(n, l); err != nil {
		return err
	}
	return s.claim(id, h.extent())
}

// fsckList reads the numbers of a list of free pages.
type fsckList struct {
	id uint64
	r  *bufio.Reader
	b  [8]byte
}

func (l *fsckList) next() (uint64, error) {
	if _, err := io.ReadFull(l.r, l.b[:]); err != nil {
		return 0, l.failed(err)
	}
	return binary.NativeEndian.Uint64(l.b[:]), nil
}

func (l *fsckList) failed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fsckPageDamage(l.id, "the list of free pages goes on behind the file's last page")
	}
	return fmt.Errorf("read the list of free pages: %w", err)
}

// freeCount returns the number of free pages.
func (s *fsckState) freeCount(h fsckHeader, l *fsckList) (n uint64, err error) {
	n = uint64(h.count)
	if h.count == fsckManyFree {
		if n, err = l.next(); err != nil {
			return 0, err
		}
		if n < fsckManyFree {
			return 0, fsckPageDamage(h.id, "it counts %d free pages in the way that is for %d and more", n, fsckManyFree)
		}
	}
	if n >= s.meta.pages {
		return 0, fsckPageDamage(h.id, "it counts %d free pages of %d", n, s.meta.pages)
	}
	if k := h.extent(); k != s.listPages(n) && k != s.listPages(n+k) {
		return 0, fsckPageDamage(h.id, "a list of %d free pages cannot take %d pages", n, k)
	}
	return n, nil
}

// listPages returns the number of pages that bbolt allocates for a list of n free pages. bbolt
// counts the free pages before it allocates the pages of the list itself, possibly from among
// them.
func (s *fsckState) listPages(n uint64) uint64 {
	if n >= fsckManyFree {
		n++
	}
	return (fsckHeaderLen+8*n)/s.meta.pageSize + 1
}

// freePages claims n free pages.
func (s *fsckState) freePages(n uint64, l *fsckList) error {
	last := uint64(1)
	for i := range n {
		id, err := l.next()
		if err != nil {
			return err
		}
		if id <= last {
			return fsckPageDamage(l.id, "free page %d does not ascend: %d follows %d", i, id, last)
		}
		if id >= s.meta.pages {
			return fsckPageDamage(l.id, "free page %d is %d, but the file's pages end at %d", i, id, s.meta.pages)
		}
		if err := s.claim(id, 1); err != nil {
			return err
		}
		last = id
	}
	return nil
}
