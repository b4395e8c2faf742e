package compare

import (
	"slices"

	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
)

const (
	// maxInside is the maximum number of differences of one atomic list that are reported
	// separately: a tenth of the limit of a report. A list with more is one difference.
	maxInside = 10
	// alignLimit is the maximum number of items of an atomic list without a partner that are
	// compared each with each.
	alignLimit = 256
	// workPerNode and workMost limit the comparisons of items each with each, so that their time is
	// proportional to the hub's object.
	workPerNode = 64
	workMost    = 1 << 20
)

// atomic compares a list that is owned as a whole. An apply replaces all of it, but the
// difference may be one field of one item. So atomic finds items that are equal on both sides,
// and compares the items between them.
func (w *walker) atomic(at uint32, l []any) {
	n := &w.tree.nodes[at]
	m := middle{n: n, l: l, hubEnd: int(n.count), memberEnd: len(l), nested: w.inside}
	m.trimStart(w)
	switch {
	case m.hub() == 0 && m.member() == 0:
	case n.count == 0 && n.is(optional) && w.last().item == aField:
		w.here(Finding{Class: Unmanaged, Member: l, InMember: true})
	case w.probing:
		if !m.anyOrder() || m.hub() != m.member() || !m.isMoved(w) {
			w.differs = true
		}
	case w.inside:
		m.report(w, at)
	default:
		w.outermost(at, l, &m)
	}
}

// outermost compares a list that is in no other atomic list. If too much of it differs, it is one
// difference.
func (w *walker) outermost(at uint32, l []any, m *middle) {
	before := w.out
	w.inside, w.since = true, before.counted
	w.whole++
	m.report(w, at)
	w.whole--
	w.inside = false
	if w.tooMuch() {
		w.out.found, w.out.counted = w.out.found[:len(before.found)], before.counted
		w.listDiffers(Changed, at, l, "")
	}
}

// listDiffers adds the list at the current position as one difference.
func (w *walker) listDiffers(class Class, at uint32, l []any, note string) {
	w.here(Finding{Class: class, Hub: w.tree.values[at], Member: l, InHub: true, InMember: true, Note: note})
}

// tooMuch reports whether an atomic list has too many differences for separate reports, or takes
// too long to compare.
func (w *walker) tooMuch() bool { return w.out.counted-w.since > maxInside || w.exhausted() }

func (w *walker) exhausted() bool { return w.work > workMost+workPerNode*len(w.tree.nodes) }

// middle is an atomic list without the equal items at its ends.
type middle struct {
	n *node
	l []any
	// nested is a list inside of another atomic one.
	nested bool
	// first is the first differing item, hubEnd and memberEnd are the ends behind the last.
	first, hubEnd, memberEnd int
	// partner is, for each item of the hub, the member's item that it is compared with, or
	// noPlace. settled marks the hub's items with an equal partner, and taken marks the member's
	// items with a partner.
	partner        []int32
	settled, taken []bool
}

func (m *middle) hub() int    { return m.hubEnd - m.first }
func (m *middle) member() int { return m.memberEnd - m.first }

func (m *middle) trimStart(w *walker) {
	for m.first < min(m.hubEnd, m.memberEnd) && m.equal(w, m.first, m.first) {
		m.first++
	}
}

func (m *middle) trimEnd(w *walker) {
	for m.first < min(m.hubEnd, m.memberEnd) && m.equal(w, m.hubEnd-1, m.memberEnd-1) {
		m.hubEnd--
		m.memberEnd--
	}
}

// equal reports whether two items are equal.
func (m *middle) equal(w *walker, hub, member int) bool {
	w.work++
	return w.equal(m.n.first+uint32(hub), int32(member), m.l[member])
}

// anyOrder reports whether the order of the list has no meaning.
func (m *middle) anyOrder() bool {
	return m.n.is(orderless) || m.n.typ != nil && m.n.typ.Unordered
}

func (m *middle) unpaired() {
	m.partner, m.settled, m.taken = make([]int32, m.hub()), make([]bool, m.hub()), make([]bool, m.member())
	for i := range m.partner {
		m.partner[i] = noPlace
	}
}

func (m *middle) pair(hub, member int) { m.partner[hub], m.taken[member] = int32(member), true }

// report adds the differences between the items.
func (m *middle) report(w *walker, at uint32) {
	m.trimEnd(w)
	m.unpaired()
	if m.hub()*m.member() > 1 {
		m.pairInOrder(w)
		if m.pairMoved(w) {
			m.moved(w, at)
			return
		}
	}
	m.pairGaps()
	if m.anyOrder() {
		m.pairRest()
	}
	if m.replaced() {
		w.listDiffers(Changed, at, m.l, "")
		return
	}
	m.differences(w)
}

// isMoved reports whether both sides have the same items in another order.
func (m *middle) isMoved(w *walker) bool {
	m.unpaired()
	return m.pairMoved(w)
}

// pairMoved compares the items without a partner each with each, and reports whether all have one
// then: they are the same items in another order. If they are not, and the order has a meaning,
// it makes no pairs.
func (m *middle) pairMoved(w *walker) bool {
	hub, member := m.rest()
	if max(len(hub), len(member)) > alignLimit || len(hub) != len(member) && !m.anyOrder() {
		return false
	}
	all := len(hub) == len(member)
	for n, i := range hub {
		for _, j := range member {
			if !m.taken[j] && !w.exhausted() && m.equal(w, m.first+i, m.first+j) {
				m.pair(i, j)
				m.settled[i] = true
				break
			}
		}
		all = all && m.settled[i]
		if !all && !m.anyOrder() {
			for _, i := range hub[:n] {
				m.taken[m.partner[i]] = false
				m.partner[i], m.settled[i] = noPlace, false
			}
			return false
		}
	}
	return all
}

// rest returns the items without a partner.
func (m *middle) rest() (hub, member []int) {
	for i, j := range m.partner {
		if j == noPlace {
			hub = append(hub, i)
		}
	}
	for j, taken := range m.taken {
		if !taken {
			member = append(member, j)
		}
	}
	return hub, member
}

// replaced reports whether every item of the hub is new: none is equal or has a partner.
func (m *middle) replaced() bool {
	return m.hub() == int(m.n.count) && !slices.ContainsFunc(m.partner, func(j int32) bool { return j != noPlace })
}

// differences adds the differences between partners, and the items without a partner.
func (m *middle) differences(w *walker) {
	for i, j := range m.partner {
		switch hub := m.n.first + uint32(m.first+i); {
		case w.tooMuch():
			return
		case j == noPlace:
			w.add(Finding{Class: Missing, Hub: w.tree.values[hub], InHub: true}, hub, noItem)
		case !m.settled[i]:
			w.value(hub, int32(m.first)+j, m.l[m.first+int(j)])
		}
	}
	for j, taken := range m.taken {
		if w.tooMuch() {
			return
		}
		if !taken {
			w.extra(fieldpath.Step{Item: true, Hub: -1, Member: m.first + j}, m.l[m.first+j], nil, "")
		}
	}
}

// moved handles a list of the same items in another order.
func (m *middle) moved(w *walker, at uint32) {
	class, note := Changed, "reordered"
	if m.anyOrder() {
		class, note = Order, ""
	}
	if class == Order && (m.n.is(orderless) || m.nested) {
		return
	}
	w.listDiffers(class, at, m.l, note)
}

// maxEdits is the maximum number of items of both sides without a partner in a list that is
// reported item by item. A changed item counts on both sides.
const maxEdits = 2 * maxInside

// edits has, for a number of items without a partner, the furthest hub item on each diagonal: hub
// item x and member item y are on diagonal x-y+maxEdits.
type edits [maxEdits + 1][2*maxEdits + 1]int

// down reports whether the path to a diagonal comes through an item that only the member has.
func (e *edits) down(d, k int) bool {
	before := &e[d-1]
	return k == -d || k != d && before[k-1+maxEdits] < before[k+1+maxEdits]
}

// pairInOrder pairs as many equal items as possible in increasing order, by the algorithm of
// Myers: its time grows with the list and with the items without a partner. If those are more
// than maxEdits, it makes no pairs.
func (m *middle) pairInOrder(w *walker) {
	var e edits
	for d := 0; d <= maxEdits && !w.exhausted(); d++ {
		for k := -d; k <= d; k += 2 {
			x := 0
			switch {
			case d == 0:
			case e.down(d, k):
				x = e[d-1][k+1+maxEdits]
			default:
				x = e[d-1][k-1+maxEdits] + 1
			}
			for x < m.hub() && x-k < m.member() && m.equal(w, m.first+x, m.first+x-k) {
				x++
			}
			e[d][k+maxEdits] = x
			if x == m.hub() && x-k == m.member() {
				m.pairBack(&e, d)
				return
			}
		}
	}
}

// pairBack pairs the items on the path that pairInOrder found, from its end.
func (m *middle) pairBack(e *edits, d int) {
	x, y := m.hub(), m.member()
	for ; d >= 0; d-- {
		k := x - y
		beforeX, beforeY, beginX := 0, 0, 0
		switch {
		case d == 0:
		case e.down(d, k):
			beforeX = e[d-1][k+1+maxEdits]
			beforeY, beginX = beforeX-k-1, beforeX
		default:
			beforeX = e[d-1][k-1+maxEdits]
			beforeY, beginX = beforeX-k+1, beforeX+1
		}
		for ; x > beginX; x, y = x-1, y-1 {
			m.pair(x-1, y-1)
			m.settled[x-1] = true
		}
		x, y = beforeX, beforeY
	}
}

// pairGaps pairs, by position, items between the same partners, or the ends, if both sides have
// equally many there.
func (m *middle) pairGaps() {
	begin, before := 0, noPlace
	for i := 0; i <= m.hub(); i++ {
		after := int32(m.member())
		if i < m.hub() {
			if after = m.partner[i]; after == noPlace {
				continue
			}
		}
		if count := i - begin; count > 0 && int(after-before)-1 == count && !slices.Contains(m.taken[before+1:after], true) {
			for k := range count {
				m.pair(begin+k, int(before)+1+k)
			}
		}
		begin, before = i+1, after
	}
}

// pairRest pairs the items without a partner, in their order, if both sides have equally many.
func (m *middle) pairRest() {
	if hub, member := m.rest(); len(hub) == len(member) {
		for k := range hub {
			m.pair(hub[k], member[k])
		}
	}
}
