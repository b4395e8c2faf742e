package approval

import "slices"

// tally is the approvals of a request, by the quorum that they count in.
type tally struct {
	quorums []Quorum
	// approvers are parallel to quorums. Each has at most as many as its quorum needs.
	approvers [][]Identity
	distinct  bool
}

func tallyOf(r *Request) *tally {
	t := &tally{quorums: quorums(r.Policy), distinct: r.Policy.DistinctApprovers}
	t.approvers = make([][]Identity, len(t.quorums))
	for _, d := range r.Decisions {
		if d.Verdict == Approve && d.Binding == r.Binding {
			t.add(d.By)
		}
	}
	return t
}

// add counts the approval of an identity, and reports whether it was needed.
func (t *tally) add(i Identity) bool {
	if t.distinct {
		for q := range t.quorums {
			if t.has(q, i) {
				return false
			}
		}
		return t.place(i, make([]bool, len(t.quorums)))
	}
	needed := false
	for q, quorum := range t.quorums {
		if i.in(quorum.Group) && len(t.approvers[q]) < quorum.Count && !t.has(q, i) {
			t.approvers[q], needed = append(t.approvers[q], i), true
		}
	}
	return needed
}

func (t *tally) has(q int, i Identity) bool {
	return slices.ContainsFunc(t.approvers[q], func(a Identity) bool { return a.Name == i.Name })
}

// place counts an approval in one of the quorums that were not tried. If all of them are met, it
// looks for an approver there who can count in another quorum instead. So no approval is lost: this
// is a maximum matching of approvers and quorums.
func (t *tally) place(i Identity, tried []bool) bool {
	for q, quorum := range t.quorums {
		if tried[q] || !i.in(quorum.Group) || t.has(q, i) {
			continue
		}
		tried[q] = true
		if len(t.approvers[q]) < quorum.Count {
			t.approvers[q] = append(t.approvers[q], i)
			return true
		}
		for k, other := range t.approvers[q] {
			if t.place(other, tried) {
				t.approvers[q][k] = i
				return true
			}
		}
	}
	return false
}

// missing returns the quorums that are not met, with the number of approvals that each lacks.
func (t *tally) missing() (out []Quorum) {
	for q, quorum := range t.quorums {
		if n := quorum.Count - len(t.approvers[q]); n > 0 {
			out = append(out, Quorum{Group: quorum.Group, Count: n})
		}
	}
	return out
}
