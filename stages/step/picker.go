package step

import (
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// Limits for the deferred clusters that a run keeps.
const (
	// maxDeferred is the maximum number of deferred ranges of a group, and maxDeferredOfAll the
	// maximum of all groups of a stage together. Each group may have at least one.
	maxDeferred, maxDeferredOfAll = 1024, 2048
	// maxDeferredReasons is the number of deferred ranges of a group that keep their reason, and
	// maxReasonsOfAll the number of all groups.
	maxDeferredReasons, maxReasonsOfAll = 64, 256
)

// picker picks the next cluster of a group to start, by the calendar. It defers clusters that may
// not start now, so that others go first.
type picker struct {
	*starter
	cursor
	// pending are the first clusters that are Pending from now on, n is the number of all of them,
	// and first is the cluster whose window changes first.
	pending []pendingCluster
	n       int
	first   pendingCluster
}

type pendingCluster struct {
	pos   int
	until stages.Instant
	why   string
}

// pick takes the next cluster of a group to start and returns its position, or -1 if none may
// start.
func (s *starter) pick(c cursor) int {
	pk := picker{starter: s, cursor: c}
	if !s.anytime() {
		pos := pk.next()
		pk.emitPending()
		return pos
	}
	crowded := pk.crowded()
	head, _ := c.head()
	for _, r := range c.gr.Deferred {
		if pos := c.startable(r, crowded); pos >= 0 && (head < 0 || pos < head) {
			s.undefer(pos)
			return pos
		}
	}
	return c.takeNext()
}

// next takes the cluster that starts next. Clusters whose windows are open come first. Clusters
// without windows come after them in profile ClusterUpdate; in all other profiles they keep their
// turn in the order of the plan.
func (k *picker) next() int {
	for {
		before, _ := k.head()
		if before < 0 {
			before = k.g.First + k.g.Len
		}
		if pos := k.nextDue(before); pos >= 0 {
			return pos
		}
		pos, retry := k.nextNew()
		if pos < 0 && !retry {
			pos, retry = k.nextUnwindowed()
		}
		if !retry {
			return pos
		}
	}
}

// nextDue takes the first cluster before a position that may start now, from the deferred ranges
// that are due.
func (k *picker) nextDue(before int) int {
	now, found := k.now, -1
	ranges, crowded := k.gr.Deferred, k.crowded()
	if !slices.ContainsFunc(ranges, func(r runstate.Deferred) bool { return r.IsDue(now) && k.startableBefore(r, before, crowded) >= 0 }) {
		return -1
	}
	k.gr.Deferred = make([]runstate.Deferred, 0, len(ranges)+1)
	for _, r := range ranges {
		if found >= 0 || !r.IsDue(now) {
			k.deferRange(r)
			continue
		}
		// Find the first cluster of the range that may start, and record the windows of the
		// clusters before it. Clusters whose domains are full stay unchanged, and the calendar is
		// not read for them. If there are too many ranges, none is divided.
		pos := r.First
		for found < 0 && pos <= r.Last {
			next := k.startableBefore(r.Spanning(pos, r.Last), before, crowded || k.crowded())
			if next < 0 {
				break
			}
			if next > pos {
				k.deferRange(r.Spanning(pos, next-1))
			}
			if k.admits(next, r.Closed) {
				found = next
			}
			pos = next + 1
		}
		if pos <= r.Last {
			k.deferRange(r.Spanning(pos, r.Last))
		}
	}
	k.changed = true
	return found
}

// startableBefore is startable, limited to clusters before a position.
func (k *picker) startableBefore(r runstate.Deferred, before int, whole bool) int {
	pos := k.startable(r, whole)
	if pos >= before {
		return -1
	}
	return pos
}

// nextNew takes the first cluster, from the cursor on, that may start now. It defers the clusters
// before it, up to the limit. With failure domains, a cluster that cannot start may come after
// deferred clusters that are due: retry is true if those must be checked first.
func (k *picker) nextNew() (pos int, retry bool) {
	for k.passSkipped(); !k.crowded(); k.passSkipped() {
		pos := k.takeNext()
		if pos < 0 || k.admits(pos, false) {
			return pos, false
		}
		if len(k.gr.Cells) > 0 {
			return -1, true
		}
	}
	return -1, false
}

// nextUnwindowed takes the first deferred cluster without a window. retry is true if that cluster
// has got a window since it was deferred.
func (k *picker) nextUnwindowed() (pos int, retry bool) {
	crowded := k.crowded()
	for i := range k.gr.Deferred {
		r := &k.gr.Deferred[i]
		if r.Closed || r.NotYet != 0 {
			continue
		}
		pos := k.startable(*r, crowded)
		if pos < 0 {
			continue
		}
		if w := k.window(pos); !w.Open {
			r.NotYet = k.now
			return -1, true
		}
		k.undefer(pos)
		return pos, false
	}
	return -1, false
}

// admits reports whether the cluster at pos starts next; otherwise it is deferred. was reports
// whether the cluster was outside its window before.
func (k *picker) admits(pos int, was bool) bool {
	w := k.window(pos)
	switch {
	case w.Open && (w.Limited || k.p.Strategy.Profile != stages.ClusterUpdate):
		return true
	case w.Open:
		k.deferRange(runstate.Deferred{First: pos, Last: pos})
	default:
		r := runstate.Deferred{First: pos, Last: pos, Closed: true, NotYet: w.Changes(k.now), Reason: windowReason(&w)}
		if !was {
			k.notePending(pendingCluster{pos, r.NotYet, r.Reason})
		}
		k.deferRange(r)
	}
	return false
}

// crowded reports whether the group has the maximum number of deferred ranges.
func (k *picker) crowded() bool {
	return len(k.gr.Deferred) >= min(maxDeferred, max(1, maxDeferredOfAll/k.groups()))
}

// groups returns the number of groups that share the limits.
func (k *picker) groups() int { return len(k.p.Stages[k.r.form.Stage].Groups) }

// deferRange adds a range to the deferred ones, mostly at the end.
func (k *picker) deferRange(r runstate.Deferred) {
	all := k.gr.Deferred
	i := len(all)
	for i > 0 && all[i-1].First > r.First {
		i--
	}
	if i > 0 && all[i-1].Join(r, k.now) {
		return
	}
	if len(all) >= min(maxDeferredReasons, maxReasonsOfAll/k.groups()) {
		r.Reason = ""
	}
	k.gr.Deferred = slices.Insert(all, i, r)
}

// notePending records that a cluster waits for its window from now on.
func (k *picker) notePending(c pendingCluster) {
	k.n++
	if k.n <= maxSingleEvents {
		k.pending = append(k.pending, c)
	}
	if k.n == 1 || c.until != 0 && (k.first.until == 0 || c.until < k.first.until) {
		k.first = c
	}
}

// emitPending emits the events of clusters that wait for their windows.
func (k *picker) emitPending() {
	if k.n <= maxSingleEvents {
		for _, c := range k.pending {
			k.emitCluster(c.pos, stages.Event{Type: stages.ClusterPending, Attempt: 1, Message: c.why, Until: c.until.Time()})
		}
		return
	}
	k.emitStage(stages.Event{
		Type: stages.ClusterPending, Group: k.g.Name, Count: k.n, Until: k.first.until.Time(),
		Message: fmt.Sprintf("the first is %s: %s", k.p.Clusters[k.first.pos].Name, k.first.why),
	})
}
