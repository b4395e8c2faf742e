package stages

import (
	"cmp"
	"slices"
)

// maxReasons is how many exceptions keep their reason.
const maxReasons = 256

// addException records an exception for the positions of e that have none yet, and
// returns how many those are.
func (d *draft) addException(e Exception) (n int) {
	e.Reason = cut(e.Reason)
	var add []Exception
	next, room := e.First, maxReasons
	for _, old := range d.r.Exceptions {
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
	d.r.Exceptions = mergeExceptions(append(d.r.Exceptions, add...))
	return n
}

// removeException takes the cluster at pos out of its exception.
func (d *draft) removeException(pos int) {
	var out []Exception
	for _, e := range d.r.Exceptions {
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
	d.r.Exceptions = out
	d.changed = true
}

// mergeExceptions sorts and joins neighbours that say the same.
func mergeExceptions(es []Exception) []Exception {
	slices.SortFunc(es, func(a, b Exception) int { return cmp.Compare(a.First, b.First) })
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
