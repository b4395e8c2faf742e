package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// Constants of bbolt's format. Numbers are in the byte order of the machine.
const (
	fsckHeaderLen = 16 // id 8, flags 2, count 2, overflow 4
	fsckMetaLen   = 64

	fsckBranch   = 0x01
	fsckLeaf     = 0x02
	fsckMetaFlag = 0x04
	fsckFreelist = 0x10

	fsckMagic   = 0xED0CDAED
	fsckVersion = 2
)

// Limits of this package. bbolt uses the page size of the system, and searches for the second
// meta page at powers of two from 1 KiB on.
const (
	fsckMinFile = 4096
	fsckMinPage = 1 << 10
	fsckMaxPage = 1 << 16
)

// fsckHeader is the header of every page.
type fsckHeader struct {
	id       uint64
	flags    uint16
	count    uint16
	overflow uint32
}

func fsckHeaderOf(b []byte) fsckHeader {
	return fsckHeader{
		id:       binary.NativeEndian.Uint64(b),
		flags:    binary.NativeEndian.Uint16(b[8:]),
		count:    binary.NativeEndian.Uint16(b[10:]),
		overflow: binary.NativeEndian.Uint32(b[12:]),
	}
}

// extent is the number of pages, including the overflow.
func (h fsckHeader) extent() uint64 { return uint64(h.overflow) + 1 }

// fsckMeta is the content of a meta page.
type fsckMeta struct {
	header   fsckHeader
	pageSize uint64
	root     uint64
	freelist uint64
	// pages is the high water mark: pages from there on do not belong to the file.
	pages uint64
	txid  uint64
}

// fsckMetaAt reads the meta page at an offset of the file. The second result says why it is not
// valid.
func fsckMetaAt(r io.ReaderAt, size, at int64) (m fsckMeta, invalid, err error) {
	var page [fsckHeaderLen + fsckMetaLen]byte
	if at > size-int64(len(page)) {
		return m, errors.New("it is missing"), nil
	}
	if err = fsckRead(r, page[:], at); err != nil {
		return m, nil, err
	}
	b := page[fsckHeaderLen:]
	order := binary.NativeEndian
	m = fsckMeta{
		header:   fsckHeaderOf(page[:]),
		pageSize: uint64(order.Uint32(b[8:])),
		root:     order.Uint64(b[16:]),
		freelist: order.Uint64(b[32:]),
		pages:    order.Uint64(b[40:]),
		txid:     order.Uint64(b[48:]),
	}
	return m, fsckMetaInvalid(b), nil
}

func fsckMetaInvalid(b []byte) error {
	order := binary.NativeEndian
	if order.Uint32(b) != fsckMagic {
		return errors.New("it is not bbolt's")
	}
	if v := order.Uint32(b[4:]); v != fsckVersion {
		return fmt.Errorf("it has version %d, this one reads %d", v, fsckVersion)
	}
	h := fnv.New64a()
	_, _ = h.Write(b[:fsckMetaLen-8])
	if order.Uint64(b[fsckMetaLen-8:]) != h.Sum64() {
		return errors.New("its checksum does not match")
	}
	return nil
}

// fsckMetas returns the meta page that bbolt uses: the valid page with the higher transaction. A
// loss of power leaves an invalid page of the commit in progress.
func fsckMetas(r io.ReaderAt, size int64) (fsckMeta, error) {
	if size < fsckMinFile {
		return fsckMeta{}, fsckDamage("it has %d bytes, a bbolt file has at least %d", size, fsckMinFile)
	}
	first, invalid, err := fsckMetaAt(r, size, 0)
	if err != nil {
		return fsckMeta{}, err
	}
	if invalid != nil {
		second, err := fsckSecondMeta(r, size, invalid)
		if err != nil {
			return fsckMeta{}, err
		}
		return second, second.check(1, size)
	}
	if err := first.checkPageSize(); err != nil {
		return fsckMeta{}, err
	}
	second, invalid, err := fsckMetaAt(r, size, int64(first.pageSize))
	if err != nil {
		return fsckMeta{}, err
	}
	if invalid == nil && second.pageSize != first.pageSize {
		return fsckMeta{}, fsckDamage("its meta pages give page sizes of %d and %d bytes", first.pageSize, second.pageSize)
	}
	if invalid == nil && second.txid > first.txid {
		return second, second.check(1, size)
	}
	return first, first.check(0, size)
}

// fsckSecondMeta looks for the second meta page if the first one does not have the page size.
func fsckSecondMeta(r io.ReaderAt, size int64, first error) (fsckMeta, error) {
	for at := int64(fsckMinPage); at <= fsckMaxPage; at *= 2 {
		m, invalid, err := fsckMetaAt(r, size, at)
		if err != nil {
			return fsckMeta{}, err
		}
		if invalid != nil {
			continue
		}
		if m.pageSize != uint64(at) {
			return fsckMeta{}, fsckDamage("the meta page at %d gives a page size of %d bytes", at, m.pageSize)
		}
		return m, nil
	}
	return fsckMeta{}, fsckDamage("no meta page is valid; of the first one: %v", first)
}

func (m fsckMeta) checkPageSize() error {
	if n := m.pageSize; n < fsckMinPage || n > fsckMaxPage || n&(n-1) != 0 {
		return fsckDamage("a page size of %d bytes is not a power of two from %d to %d", n, fsckMinPage, fsckMaxPage)
	}
	return nil
}

// check checks the chosen meta page.
func (m fsckMeta) check(id uint64, size int64) error {
	switch h := m.header; {
	case h.id != id:
		return fsckPageDamage(id, "it says that it is page %d", h.id)
	case h.flags != fsckMetaFlag:
		return fsckPageDamage(id, "its flags are %#x, those of a meta page %#x", h.flags, fsckMetaFlag)
	case m.pages > uint64(size)/m.pageSize:
		return fsckPageDamage(id, "it says that the file has %d pages, but there are %d", m.pages, uint64(size)/m.pageSize)
	case m.txid >= 1<<63:
		return fsckPageDamage(id, "it has the transaction number %d, which no store reaches", m.txid)
	}
	return nil
}
