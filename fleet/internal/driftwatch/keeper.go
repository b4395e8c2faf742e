package driftwatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// Reconciler watches the clusters of the placements whose strategy asks for it: it
// records what differs, and between runs puts back what the strategy says. Of
// several engines, one keeps a placement at a time.
//
// Two that keep it at once do no harm: what they put back, they put back under
// the ledger's compare-and-swap, and only while the ledger says what it said
// when they looked.
type Reconciler struct {
	e  *Reporter
	mu sync.Mutex
	// kept are the placements that have a watch, and what tells it that something
	// of the placement changed.
	kept map[string]chan struct{}
	All  sync.WaitGroup
	// fleets counts the changes of the inventory.
	fleets int
}

// NewReconciler returns a reconciler that watches nothing yet.
func NewReconciler(e *Reporter) *Reconciler {
	return &Reconciler{e: e, kept: map[string]chan struct{}{}}
}

// Changed begins the watch of a placement, or tells it that something changed.
func (k *Reconciler) Changed(ctx context.Context, name string, read func() (*record.Placement, error)) {
	if k.tell(name) {
		return
	}
	if asks, err := asksForWatch(read()); ctx.Err() != nil || err == nil && !asks {
		return // where it is not known, the watch finds out
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if changed, ok := k.kept[name]; ok {
		backoff.Wake(changed)
		return
	}
	w := &placementWatch{
		k: k, name: name, changed: make(chan struct{}, 1), clusters: map[string]*clusterWatch{},
		notes: notes{e: k.e, placement: name, more: make(chan struct{}, 1)},
	}
	k.kept[name] = w.changed
	k.All.Go(func() { w.run(ctx) })
}

// asksForWatch reports whether a placement asks for a watch. One that is being
// deleted does not.
func asksForWatch(rec *record.Placement, err error) (bool, error) {
	if state.IsNotFound(err) {
		return false, nil
	}
	return err == nil && rec.Deleting == nil && member.Watches(&rec.Placement.ApplyStrategy), err
}

// tell tells the watch of a placement that something changed, and whether there
// is one.
func (k *Reconciler) tell(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed, ok := k.kept[name]
	if ok {
		backoff.Wake(changed)
	}
	return ok
}

// FleetChanged tells every watch that the inventory has changed.
func (k *Reconciler) FleetChanged() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fleets++
	for _, changed := range k.kept {
		backoff.Wake(changed)
	}
}

// fleet tells one state of the inventory from another.
func (k *Reconciler) fleet() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strconv.Itoa(k.fleets)
}

// ended forgets the watch of a placement, and begins another one where the
// placement has come to ask for it meanwhile.
func (k *Reconciler) ended(ctx context.Context, name string) {
	k.mu.Lock()
	delete(k.kept, name)
	k.mu.Unlock()
	if ctx.Err() == nil {
		k.Changed(ctx, name, k.e.state.LastSeen(ctx, name))
	}
}

// placementWatch watches the clusters of one placement.
type placementWatch struct {
	k        *Reconciler
	name     string
	changed  chan struct{}
	clusters map[string]*clusterWatch
	all      sync.WaitGroup
	notes    notes
	noting   sync.WaitGroup
	// last is what the clusters were last told of the placement.
	last string
	// until is how long this engine has the lease, by the clock that does not jump.
	until time.Time
	// sight is the lease of another engine, and since when it stands still.
	sight backend.Revision
	since time.Time
}

// run watches until ctx ends or the placement no longer asks for it.
func (w *placementWatch) run(ctx context.Context) {
	e := w.k.e
	noting, stop := context.WithCancel(ctx)
	w.noting.Go(func() { w.notes.keep(noting) })
	for {
		asks, err := asksForWatch(e.state.LastSeen(ctx, w.name)())
		if ctx.Err() != nil || err == nil && !asks {
			break
		}
		if err == nil {
			err = w.turn(ctx)
		}
		if err != nil && ctx.Err() == nil {
			e.log.Warn("the clusters of a placement are not watched as they should be", "placement", w.name, "error", err)
		}
		w.rest(ctx)
	}
	w.end()
	stop()
	w.noting.Wait()
	if ctx.Err() == nil {
		e.ForgetSightings(ctx, w.name, func(string) bool { return false })
	}
	if !w.until.IsZero() {
		e.giveKeepBack(context.WithoutCancel(ctx), w.name)
	}
	w.k.ended(ctx, w.name)
}

// turn watches the clusters where this engine has the lease, also as long as it
// does not know better.
func (w *placementWatch) turn(ctx context.Context) error {
	held, err := w.hold(ctx)
	if held || err != nil && time.Now().Before(w.until) {
		return errors.Join(err, w.tend(ctx))
	}
	w.end()
	w.last = ""
	return err
}

// rest waits until something changes or the lease is to be renewed.
func (w *placementWatch) rest(ctx context.Context) {
	t := time.NewTimer(w.k.e.cfg.Lease / 3)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-w.changed:
	case <-t.C:
	}
}

// end ends the watch of every cluster.
func (w *placementWatch) end() {
	for name, c := range w.clusters {
		c.stop()
		delete(w.clusters, name)
	}
	w.all.Wait()
}

// tend sees to it that each cluster of the placement has its watch, and that
// those it has know what it is about now.
func (w *placementWatch) tend(ctx context.Context) error {
	rec, _, err := w.k.e.state.Placement(ctx, w.name)
	if err != nil {
		return err
	}
	now := concern(rec) + w.k.fleet()
	if now == w.last {
		return nil
	}
	s, err := w.k.e.survey(ctx, w.name, Query{})
	if err != nil {
		return err
	}
	w.last = now
	wanted := map[string]bool{}
	for _, c := range s.clusters {
		wanted[c.Name] = true
		have := w.clusters[c.Name]
		if have != nil && have.cluster.UID == c.UID {
			have.tell(s)
			continue
		}
		if have != nil {
			have.stop()
		}
		w.clusters[c.Name] = w.begin(ctx, s, c)
	}
	for name, c := range w.clusters {
		if !wanted[name] {
			c.stop()
			delete(w.clusters, name)
		}
	}
	w.k.e.ForgetSightings(ctx, w.name, func(cluster string) bool { return wanted[cluster] })
	return nil
}

// concern is all of a placement's record that what is watched depends on.
func concern(rec *record.Placement) string {
	last, _ := rec.Latest()
	return string(record.Encode(struct {
		Policy   placement.Policy
		Decision *lifecycle.Decision
		Strategy member.ApplyStrategy
		Share    bool
		Roster   lifecycle.Generation
		Snapshot string
		Active   *lifecycle.Entry
	}{rec.Placement.Policy, rec.Decision, rec.Placement.ApplyStrategy, rec.Placement.AllowCoOwnership, rec.Bindings, last.Digest, rec.Queue.Active}))
}

// begin begins the watch of a cluster.
func (w *placementWatch) begin(ctx context.Context, s *survey, cl placement.Cluster) *clusterWatch {
	ctx, stop := context.WithCancel(ctx)
	c := &clusterWatch{e: w.k.e, notes: &w.notes, cluster: cl, stop: stop, s: s, news: make(chan struct{}, 1)}
	w.all.Go(func() { c.run(ctx) })
	return c
}

// hold takes or renews the lease to keep the placement, and reports whether this
// engine has it.
func (w *placementWatch) hold(ctx context.Context) (bool, error) {
	e := w.k.e
	rec, err := e.store.Get(ctx, record.WatchKey(w.name))
	if err != nil && !state.IsNotFound(err) {
		return false, err
	}
	var now record.WatchLease
	if err == nil {
		err = record.Decode(rec, &now)
		if newer := (*stages.FormatError)(nil); errors.As(err, &newer) {
			return false, nil // an engine that is newer keeps it
		}
	}
	if err != nil {
		now = record.WatchLease{} // there is none, or what cannot be read: nobody's
	}
	if now.Holder != e.cfg.Name && !w.free(&now, rec.Revision) {
		return false, nil
	}
	began := time.Now()
	left := now.Until.Time().Sub(e.state.Now())
	if now.Holder == e.cfg.Name && left > e.cfg.Lease*3/4 && left <= e.cfg.Lease {
		w.until = began.Add(left)
		return true, nil // renewed a moment ago
	}
	next := record.WatchLease{Format: record.Format, Holder: e.cfg.Name, Until: stages.At(e.state.Now()).Add(e.cfg.Lease)}
	_, err = e.store.Put(ctx, record.WatchKey(w.name), record.Encode(next), rec.Revision)
	if errors.Is(err, backend.ErrConflict) {
		return false, nil
	}
	if err == nil {
		w.until = began.Add(e.cfg.Lease)
	}
	return err == nil, err
}

// free reports whether a lease of another engine is over, or stands still for as
// long as it lasts, whatever time is in it.
func (w *placementWatch) free(now *record.WatchLease, rev backend.Revision) bool {
	most := w.k.e.cfg.Lease + w.k.e.cfg.Skew
	if w.sight != rev {
		w.sight, w.since = rev, time.Now()
	}
	return now.Holder == "" || w.k.e.state.Now().After(now.Until.Time().Add(w.k.e.cfg.Skew)) || time.Since(w.since) > most
}

// giveKeepBack frees the lease of an engine that ends.
func (r *Reporter) giveKeepBack(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	rec, err := r.store.Get(ctx, record.WatchKey(name))
	var now record.WatchLease
	if err == nil && record.Decode(rec, &now) == nil && now.Holder == r.cfg.Name {
		record.Discard(ctx, r.store, []backend.Write{record.Delete(rec.Key, rec.Revision)})
	}
}

// driftEvent is an event of a placement about a cluster that differs.
func driftEvent(t stages.EventType, c *member.ClusterDrift) stages.Event {
	first := &c.Objects[0]
	text := fmt.Sprintf("%s %s: %s", first.Kind, first.Name, member.Summary(&first.Report))
	if more := c.Total - 1; more > 0 {
		text += fmt.Sprintf("; %d more objects", more)
	}
	return stages.Event{Type: t, Cluster: c.Cluster, Count: c.Total, Message: guard.Clip(text)}
}
