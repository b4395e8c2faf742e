package bolt

import "encoding/binary"

const (
	// fsckMaxDepth is more than the depth of any tree whose branches have at least two children.
	fsckMaxDepth = 48
	// fsckBucketLen is the length of the value of a bucket: its root page, or 0 if the page follows,
	// and a counter that our buckets do not use.
	fsckBucketLen    = 16
	fsckBucketFlag   = 0x01
	fsckInlineBucket = "the bucket inside: "
)

// fsckTree is a tree during its check.
type fsckTree struct {
	// top is the depth of its root, which is below the tree that contains it.
	top int
	// leaves is the depth of the first leaf plus 1, and so of all leaves; 0 before the first.
	leaves int
	// entry handles an entry of a leaf.
	entry func(t *fsckTree, p *fsckPage, e fsckElement, key, value []byte) error
	// bucket is the name of the tree's bucket; nil for the tree of buckets.
	bucket []byte
}

// buckets checks the buckets of the file.
func (s *fsckState) buckets() error {
	return s.tree(&fsckTree{entry: s.bucket}, s.meta.root, 0, fsckRange{})
}

// tree checks the subtree at page id, whose keys must be in a range.
func (s *fsckState) tree(t *fsckTree, id uint64, depth int, in fsckRange) error {
	if depth-t.top >= fsckMaxDepth {
		return fsckPageDamage(id, "it is more than %d levels below its root", fsckMaxDepth)
	}
	p, err := s.page(id, depth)
	if err != nil {
		return err
	}
	if err := p.check(in, s.meta.pageSize); err != nil {
		return err
	}
	if p.leaf() {
		return s.leaf(t, p, depth, in)
	}
	return s.branch(t, p, depth, in)
}

// branch checks the children of a branch.
func (s *fsckState) branch(t *fsckTree, p *fsckPage, depth int, in fsckRange) error {
	if p.count < 2 {
		return p.damage("a branch of the tree has %d entries, at least 2 are needed", p.count)
	}
	e := p.element(0)
	key, _ := p.entry(0, e)
	for i := range p.len() {
		child, below := fsckRange{first: key, below: in.below}, e.child
		if i+1 < p.len() {
			e = p.element(i + 1)
			key, _ = p.entry(i+1, e)
			child.below = key
		}
		if err := s.tree(t, below, depth+1, child); err != nil {
			return err
		}
	}
	return nil
}

// leaf checks the entries of a leaf. bbolt merges only neighbours of one kind, so all leaves must
// be equally deep.
func (s *fsckState) leaf(t *fsckTree, p *fsckPage, depth int, in fsckRange) error {
	switch {
	case p.count == 0 && in.first != nil:
		return p.damage("a leaf without entries that is not the root")
	case t.leaves == 0:
		t.leaves = depth + 1
	case t.leaves != depth+1:
		return p.damage("a leaf at level %d of its tree, where others are at %d", depth-t.top, t.leaves-1-t.top)
	}
	return s.entries(t, p)
}

func (s *fsckState) entries(t *fsckTree, p *fsckPage) error {
	for i := range p.len() {
		e := p.element(i)
		key, value := p.entry(i, e)
		if err := t.entry(t, p, e, key, value); err != nil {
			return err
		}
	}
	return nil
}

// record handles an entry of a bucket.
func (s *fsckState) record(t *fsckTree, p *fsckPage, e fsckElement, key, value []byte) error {
	if e.flags != 0 {
		return p.damage("an entry of a bucket has the flags %#x instead of 0; a bucket in a bucket is not ours", e.flags)
	}
	return s.visit(t.bucket, key, value)
}

// bucket handles an entry of the tree of buckets.
func (s *fsckState) bucket(t *fsckTree, p *fsckPage, e fsckElement, name, value []byte) error {
	if e.flags != fsckBucketFlag {
		return p.damage("an entry has the flags %#x instead of %#x, which tells a bucket", e.flags, fsckBucketFlag)
	}
	if len(value) < fsckBucketLen {
		return p.damage("a bucket has %d bytes, at least %d are needed", len(value), fsckBucketLen)
	}
	root, counter := binary.NativeEndian.Uint64(value), binary.NativeEndian.Uint64(value[8:])
	if counter != 0 {
		return p.damage("a bucket has counted to %d; ours do not count", counter)
	}
	inside := &fsckTree{top: t.leaves, entry: s.record, bucket: name}
	if root == 0 {
		return s.inline(inside, p, value[fsckBucketLen:])
	}
	if len(value) != fsckBucketLen {
		return p.damage("a bucket with pages of its own has %d bytes, %d are needed", len(value), fsckBucketLen)
	}
	return s.tree(inside, root, inside.top, fsckRange{})
}

// inline checks a bucket whose only page is in the bucket's value.
func (s *fsckState) inline(t *fsckTree, in *fsckPage, data []byte) error {
	p := &fsckPage{name: in.name, inside: fsckInlineBucket, data: data}
	if len(data) < fsckHeaderLen {
		return p.damage("it has %d bytes, at least %d are needed", len(data), fsckHeaderLen)
	}
	p.fsckHeader = fsckHeaderOf(data)
	if p.id != 0 || p.flags != fsckLeaf || p.overflow != 0 {
		return p.damage("it says that it is page %d with the flags %#x and %d pages more, instead of 0, %#x and 0", p.id, p.flags, p.overflow, fsckLeaf)
	}
	if err := p.check(fsckRange{}, 1); err != nil {
		return err
	}
	return s.entries(t, p)
}
