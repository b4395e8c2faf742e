package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

const (
	fsckElementLen = 16
	// fsckMaxKey is the longest key that bbolt accepts.
	fsckMaxKey = 1 << 15
	// bbolt splits a page that is too long until at most four entries are left, so the longest pages
	// have four long keys, or four of our largest values.
	fsckMaxBranch = fsckMaxPage + 6*fsckMaxKey
	fsckMaxLeaf   = 16 << 20
)

// fsckPage is a page of a tree with its overflow.
type fsckPage struct {
	fsckHeader
	// name is the page's number in errors; for a page inside a value it is the number of the page
	// that contains the value.
	name uint64
	// inside describes the page of an inline bucket for errors; otherwise it is empty.
	inside string
	data   []byte
}

func (p *fsckPage) leaf() bool { return p.flags == fsckLeaf }

func (p *fsckPage) len() int { return int(p.count) }

func (p *fsckPage) damage(format string, args ...any) error {
	return fsckPageDamage(p.name, "%s%s", p.inside, fmt.Sprintf(format, args...))
}

// page reads the page id of a tree and claims it. The page is valid until another page is read at
// the same depth.
func (s *fsckState) page(id uint64, depth int) (*fsckPage, error) {
	if id < 2 || id >= s.meta.pages {
		return nil, fsckPageDamage(id, "a tree refers to it, but the file's pages end at %d", s.meta.pages)
	}
	data, err := s.read(id, depth, nil, 1)
	if err != nil {
		return nil, err
	}
	p := &fsckPage{fsckHeader: fsckHeaderOf(data), name: id, data: data}
	if err := s.checkHeader(p); err != nil {
		return nil, err
	}
	if err := s.claim(id, p.extent()); err != nil {
		return nil, err
	}
	p.data, err = s.read(id, depth, data, p.extent())
	return p, err
}

func (s *fsckState) checkHeader(p *fsckPage) error {
	longest := uint64(fsckMaxLeaf)
	switch p.flags {
	case fsckLeaf:
	case fsckBranch:
		longest = fsckMaxBranch
	default:
		return p.damage("its flags are %#x, those of a tree's page %#x or %#x", p.flags, fsckBranch, fsckLeaf)
	}
	switch {
	case p.id != p.name:
		return p.damage("it says that it is page %d", p.id)
	case p.extent()*s.meta.pageSize > longest:
		return p.damage("with what follows it has %d pages, more than %d bytes", p.extent(), longest)
	}
	return nil
}

// read extends data, which has the beginning of page id or nothing, to n pages.
func (s *fsckState) read(id uint64, depth int, data []byte, n uint64) ([]byte, error) {
	have, want := len(data), int(n*s.meta.pageSize)
	for len(s.buffers) <= depth {
		s.buffers = append(s.buffers, nil)
	}
	b := s.buffers[depth]
	if len(b) < want {
		b = make([]byte, want)
		copy(b, data)
		s.buffers[depth] = b
	}
	b = b[:want]
	if have == want {
		return b, nil
	}
	return b, fsckRead(s.r, b[have:], int64(id*s.meta.pageSize)+int64(have))
}

// fsckElement is an entry of a page. A branch has a child, a leaf the other fields.
type fsckElement struct {
	pos, key, value uint32
	flags           uint32
	child           uint64
}

func (p *fsckPage) element(i int) fsckElement {
	b, order := p.data[fsckHeaderLen+i*fsckElementLen:], binary.NativeEndian
	if p.leaf() {
		return fsckElement{flags: order.Uint32(b), pos: order.Uint32(b[4:]), key: order.Uint32(b[8:]), value: order.Uint32(b[12:])}
	}
	return fsckElement{pos: order.Uint32(b), key: order.Uint32(b[4:]), child: order.Uint64(b[8:])}
}

// entry returns the key and the value of an element of a page that was checked.
func (p *fsckPage) entry(i int, e fsckElement) (key, value []byte) {
	b := p.data[fsckHeaderLen+i*fsckElementLen+int(e.pos):]
	return b[:e.key:e.key], b[e.key : e.key+e.value : e.key+e.value]
}

// fsckRange is the range of a page's keys according to its parent. In a root both are nil.
type fsckRange struct{ first, below []byte }

// check checks the entries of a page. Their size, rounded up to a multiple of round, must be the
// length of the page.
func (p *fsckPage) check(in fsckRange, round uint64) error {
	used, err := p.checkLayout()
	if err != nil {
		return err
	}
	if n := (used + round - 1) / round * round; n != uint64(len(p.data)) {
		return p.damage("it takes %d bytes, its entries need %d", len(p.data), n)
	}
	// Unused bytes of a page are zeros, so a page that lost its count does not pass for an empty
	// page.
	if p.count == 0 && len(bytes.Trim(p.data[fsckHeaderLen:], "\x00")) > 0 {
		return p.damage("it has no entries, but something is written there")
	}
	return p.checkKeys(in)
}

// checkLayout checks that the entries follow each other without a gap, and returns the end of the
// last.
func (p *fsckPage) checkLayout() (end uint64, err error) {
	end = fsckHeaderLen + uint64(p.count)*fsckElementLen
	if end > uint64(len(p.data)) {
		return 0, p.damage("%d entries do not fit", p.count)
	}
	for i := range p.len() {
		e := p.element(i)
		at := fsckHeaderLen + uint64(i)*fsckElementLen + uint64(e.pos)
		if at != end {
			return 0, p.damage("entry %d begins at %d, the one before it ends at %d", i, at, end)
		}
		if e.key == 0 || e.key > fsckMaxKey {
			return 0, p.damage("entry %d has a key of %d bytes, 1 to %d are possible", i, e.key, fsckMaxKey)
		}
		end += uint64(e.key) + uint64(e.value)
		if end > uint64(len(p.data)) {
			return 0, p.damage("entry %d ends at %d, the page at %d", i, end, len(p.data))
		}
	}
	return end, nil
}

// checkKeys checks that the keys ascend and are in the range of the parent. bbolt finds a page in
// its parent by its first key, so that key must be equal in both.
func (p *fsckPage) checkKeys(in fsckRange) error {
	var last []byte
	for i := range p.len() {
		key, _ := p.entry(i, p.element(i))
		if i == 0 && in.first != nil && !bytes.Equal(key, in.first) {
			return p.damage("its first key is not the one that its parent has")
		}
		if i > 0 && bytes.Compare(last, key) >= 0 {
			return p.damage("key %d does not ascend", i)
		}
		last = key
	}
	if in.below != nil && last != nil && bytes.Compare(last, in.below) >= 0 {
		return p.damage("its last key belongs into the next page")
	}
	return nil
}
