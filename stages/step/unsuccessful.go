package step

import (
	"cmp"
	"slices"

	"github.com/slipway-dev/slipway/internal/runstate"
)

// maxReasons is the number of unsuccessful ranges that keep their reason.
const maxReasons = 256

// addUnsuccessful records those positions of e as unsuccessful that are not yet recorded, and
// returns their number.
func (d *draft) addUnsuccessful(e runstate.Unsuccessful) (n int) {
	e.Reason = cut(e.Reason)
	var add []runstate.Unsuccessful
	next, room := e.First, maxReasons
	for _, old := range d.r.form.Unsuccessful {
		if old.Reason != "" {
			room--
		}
		if old.Last < next || old.First > e.Last {
			continue
		}
		if old.First > next {
			add = append(add, e.Spanning(next, old.First-1))
		}
		next = old.Last + 1
	}
	if next <= e.Last {
		add = append(add, e.Spanning(next, e.Last))
	}
	if len(add) == 0 {
		return 0
	}
	for i := range add {
		n += add[i].Last - add[i].First + 1
		if i >= room {
			add[i].Reason = ""
		}
	}
	d.changed = true
	d.r.form.Unsuccessful = mergeUnsuccessful(append(d.r.form.Unsuccessful, add...))
	return n
}

// removeUnsuccessful takes the cluster at pos out of its range.
func (d *draft) removeUnsuccessful(pos int) {
	var out []runstate.Unsuccessful
	for _, e := range d.r.form.Unsuccessful {
		if pos < e.First || pos > e.Last {
			out = append(out, e)
			continue
		}
		if e.First < pos {
			out = append(out, e.Spanning(e.First, pos-1))
		}
		if pos < e.Last {
			out = append(out, e.Spanning(pos+1, e.Last))
		}
	}
	d.r.form.Unsuccessful = out
	d.changed = true
}

// mergeUnsuccessful sorts the ranges, and joins neighbours that differ only in position.
func mergeUnsuccessful(es []runstate.Unsuccessful) []runstate.Unsuccessful {
	slices.SortFunc(es, func(a, b runstate.Unsuccessful) int { return cmp.Compare(a.First, b.First) })
	out := es[:0]
	for _, e := range es {
		if n := len(out); n > 0 && out[n-1].Last+1 == e.First && out[n-1].Spanning(0, 0) == e.Spanning(0, 0) {
			out[n-1].Last = e.Last
			continue
		}
		out = append(out, e)
	}
	return out
}
