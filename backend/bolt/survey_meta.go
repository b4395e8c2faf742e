package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// What bbolt's format fixes. Numbers are in the byte order of the machine.
const (
	surveyHeaderLen = 16 // id 8, flags 2, count 2, overflow 4
	surveyMetaLen   = 64

	surveyBranch   = 0x01
	surveyLeaf     = 0x02
	surveyMetaFlag = 0x04
	surveyFreelist = 0x10

	surveyMagic   = 0xED0CDAED
	surveyVersion = 2
)

// What this package allows. bbolt takes the page size of the system, and looks
// for the second meta page at powers of two from 1 KiB on.
const (
	surveyMinFile = 4096
	surveyMinPage = 1 << 10
	surveyMaxPage = 1 << 16
)

// surveyHeader is how every page begins.
type surveyHeader struct {
	id       uint64
	flags    uint16
	count    uint16
	overflow uint32
}

func surveyHeaderOf(b []byte) surveyHeader {
	return surveyHeader{
		id:       binary.NativeEndian.Uint64(b),
		flags:    binary.NativeEndian.Uint16(b[8:]),
		count:    binary.NativeEndian.Uint16(b[10:]),
		overflow: binary.NativeEndian.Uint32(b[12:]),
	}
}

// extent is the number of pages: the one with the header and what it overflows
// into.
func (h surveyHeader) extent() uint64 { return uint64(h.overflow) + 1 }

// surveyMeta is what a meta page says about a file.
type surveyMeta struct {
	header   surveyHeader
	pageSize uint64
	root     uint64
	freelist uint64
	// pages is the high water mark: pages from there on are not the file's.
	pages uint64
	txid  uint64
}

// surveyMetaAt reads the meta page that begins at a place of the file. The
// second error says why it is not valid.
func surveyMetaAt(r io.ReaderAt, size, at int64) (m surveyMeta, invalid, err error) {
	var page [surveyHeaderLen + surveyMetaLen]byte
	if at > size-int64(len(page)) {
		return m, errors.New("it is missing"), nil
	}
	if err = surveyRead(r, page[:], at); err != nil {
		return m, nil, err
	}
	b := page[surveyHeaderLen:]
	order := binary.NativeEndian
	m = surveyMeta{
		header:   surveyHeaderOf(page[:]),
		pageSize: uint64(order.Uint32(b[8:])),
		root:     order.Uint64(b[16:]),
		freelist: order.Uint64(b[32:]),
		pages:    order.Uint64(b[40:]),
		txid:     order.Uint64(b[48:]),
	}
	return m, surveyMetaInvalid(b), nil
}

func surveyMetaInvalid(b []byte) error {
	order := binary.NativeEndian
	if order.Uint32(b) != surveyMagic {
		return errors.New("it is not bbolt's")
	}
	if v := order.Uint32(b[4:]); v != surveyVersion {
		return fmt.Errorf("it has version %d, this one reads %d", v, surveyVersion)
	}
	h := fnv.New64a()
	_, _ = h.Write(b[:surveyMetaLen-8])
	if order.Uint64(b[surveyMetaLen-8:]) != h.Sum64() {
		return errors.New("its checksum is another one")
	}
	return nil
}

// surveyMetas returns the meta page that bbolt goes by: of the valid ones that
// with the higher transaction. One that is not valid is what a loss of power
// leaves of the commit that was under way.
func surveyMetas(r io.ReaderAt, size int64) (surveyMeta, error) {
	if size < surveyMinFile {
		return surveyMeta{}, surveyDamage("it has %d bytes, a bbolt file has at least %d", size, surveyMinFile)
	}
	first, invalid, err := surveyMetaAt(r, size, 0)
	if err != nil {
		return surveyMeta{}, err
	}
	if invalid != nil {
		second, err := surveySecondMeta(r, size, invalid)
		if err != nil {
			return surveyMeta{}, err
		}
		return second, second.check(1, size)
	}
	if err := first.checkPageSize(); err != nil {
		return surveyMeta{}, err
	}
	second, invalid, err := surveyMetaAt(r, size, int64(first.pageSize))
	if err != nil {
		return surveyMeta{}, err
	}
	if invalid == nil && second.pageSize != first.pageSize {
		return surveyMeta{}, surveyDamage("its meta pages give page sizes of %d and %d bytes", first.pageSize, second.pageSize)
	}
	if invalid == nil && second.txid > first.txid {
		return second, second.check(1, size)
	}
	return first, first.check(0, size)
}

// surveySecondMeta looks for the second meta page where the first one does not
// say how long a page is.
func surveySecondMeta(r io.ReaderAt, size int64, first error) (surveyMeta, error) {
	for at := int64(surveyMinPage); at <= surveyMaxPage; at *= 2 {
		m, invalid, err := surveyMetaAt(r, size, at)
		if err != nil {
			return surveyMeta{}, err
		}
		if invalid != nil {
			continue
		}
		if m.pageSize != uint64(at) {
			return surveyMeta{}, surveyDamage("the meta page at %d gives a page size of %d bytes", at, m.pageSize)
		}
		return m, nil
	}
	return surveyMeta{}, surveyDamage("no meta page is valid; of the first one: %v", first)
}

func (m surveyMeta) checkPageSize() error {
	if n := m.pageSize; n < surveyMinPage || n > surveyMaxPage || n&(n-1) != 0 {
		return surveyDamage("a page size of %d bytes is not a power of two from %d to %d", n, surveyMinPage, surveyMaxPage)
	}
	return nil
}

// check checks the meta page that was chosen.
func (m surveyMeta) check(id uint64, size int64) error {
	switch h := m.header; {
	case h.id != id:
		return surveyPageDamage(id, "it says that it is page %d", h.id)
	case h.flags != surveyMetaFlag:
		return surveyPageDamage(id, "its flags are %#x, those of a meta page %#x", h.flags, surveyMetaFlag)
	case m.pages > uint64(size)/m.pageSize:
		return surveyPageDamage(id, "it says that the file has %d pages, but there are %d", m.pages, uint64(size)/m.pageSize)
	case m.txid >= 1<<63:
		return surveyPageDamage(id, "it has the transaction number %d, which nobody counts to", m.txid)
	}
	return nil
}
