package planning

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// frozen is the content of a snapshot that was loaded and verified, or just captured.
type frozen struct {
	snapshot.Snapshot
	set       snapshot.Set
	overrides []placement.Override
	// document is the stored form of the overrides; nil for none.
	document []byte
	// Fresh reports whether the snapshot is not recorded yet.
	Fresh bool
}

// Capture takes a snapshot of the source's current content. It tries again if the placement changes
// at the same time.
func (pl *Planner) Capture(ctx context.Context, name string) (taken snapshot.Snapshot, err error) {
	for {
		err = pl.state.WithPlacement(ctx, name, func(rec *record.Placement) error {
			taken, err = pl.capture(ctx, rec)
			return err
		})
		if !errors.Is(err, backend.ErrConflict) {
			return taken, err
		}
	}
}

// PreviewCapture returns the snapshot that Capture would take, and its items. It stores nothing.
func (pl *Planner) PreviewCapture(ctx context.Context, name string) (taken snapshot.Snapshot, items []snapshot.Item, err error) {
	err = pl.state.WithPlacement(ctx, name, func(rec *record.Placement) error {
		if err := state.Open(rec); err != nil {
			return err
		}
		f, err := pl.captureNow(ctx, rec)
		taken, items = f.Snapshot, f.set.Items
		return err
	})
	return taken, items, err
}

// capture takes a snapshot if the content differs from the latest one. It returns ErrConflict if
// another engine has changed the placement since rec was read.
func (pl *Planner) capture(ctx context.Context, rec *record.Placement) (snapshot.Snapshot, error) {
	if err := state.Open(rec); err != nil {
		return snapshot.Snapshot{}, err
	}
	f, err := pl.captureNow(ctx, rec)
	if err != nil || !f.Fresh {
		return f.Snapshot, err
	}
	if err := pl.take(ctx, rec, f, false); err != nil {
		return snapshot.Snapshot{}, err
	}
	return f.Snapshot, nil
}

// take stores the content of a snapshot and makes it the latest one. It returns ErrConflict as
// recordSnapshot does.
func (pl *Planner) take(ctx context.Context, rec *record.Placement, f frozen, forRun bool) error {
	if err := pl.persist(ctx, rec, f); err != nil {
		return err
	}
	return pl.recordSnapshot(ctx, rec, f, forRun)
}

// Take records the snapshot of a draft if it is not recorded yet, so that the run gets the planned
// content even if the source has changed since. If another snapshot was taken since rec was read,
// the draft uses that one, provided that both hold the same content. Otherwise the error is
// ErrConflict. It is ErrConflict too if the placement was deleted and declared again.
func (pl *Planner) Take(ctx context.Context, rec *record.Placement, d *Draft) error {
	if !d.Frozen.Fresh {
		return nil
	}
	for uid := rec.UID; ; {
		err := pl.take(ctx, rec, d.Frozen, true)
		if !errors.Is(err, backend.ErrConflict) {
			return err
		}
		if rec, _, err = pl.state.Placement(ctx, rec.Placement.Name); err != nil {
			return err
		}
		last, ok := rec.Latest()
		switch {
		case rec.UID == uid && ok && last.Index == d.Frozen.Index && holdsSame(&last, &d.Frozen.Snapshot):
			return nil
		case rec.UID != uid || rec.NextIndex != d.Frozen.Index:
			return fmt.Errorf("placement %s: another snapshot was taken at the same time: try again: %w", rec.Placement.Name, backend.ErrConflict)
		}
	}
}

// captureNow captures the current content of the source. It stores nothing.
func (pl *Planner) captureNow(ctx context.Context, rec *record.Placement) (frozen, error) {
	p := rec.Placement
	if pl.cfg.Source == nil {
		return frozen{}, fmt.Errorf("placement %s: the engine has no source to take a snapshot from: name the index of a snapshot, or give the engine a source", p.Name)
	}
	if err := problems.About("placement "+p.Name, pl.Bans(p.Namespace).InSelectors(p.Selectors, field.NewPath("selectors"))); err != nil {
		return frozen{}, err
	}
	authors := snapshot.Rules{} // an administrator vouches for the envelopes of a namespace by selecting them
	if p.Namespace != "" {
		authors = pl.cfg.NamespaceRules
	}
	set, err := guard.Call(ctx, pl.sources, "source", p.Name, func(ctx context.Context) (snapshot.Set, error) {
		return pl.cfg.Rules.CaptureFrom(ctx, pl.cfg.Source, p.Selectors, authors, p.Carry...)
	})
	if err != nil {
		return frozen{}, fmt.Errorf("placement %s: %w", p.Name, err)
	}
	if len(set.Items) == 0 && (!p.AllowEmpty || len(set.Unplaced) > 0) {
		beside := ""
		if len(set.Unplaced) > 0 {
			beside = fmt.Sprintf(", and %s is not placed: %s", set.Unplaced[0], set.Unplaced[0].Problem())
		}
		return frozen{}, fmt.Errorf("placement %s: its selectors pick no object that may be placed: %s%s; correct them, or see to the source",
			p.Name, selected(p.Selectors), beside)
	}
	f := frozen{set: set, overrides: placement.Selecting(p.Overrides, objectsOf(set.Items)), Fresh: true}
	digest := ""
	if len(f.overrides) > 0 {
		if digest, f.document, err = placement.OverridesDigest(f.overrides); err != nil {
			return frozen{}, fmt.Errorf("placement %s: %w", p.Name, err)
		}
	}
	f.Snapshot = snapshot.New(p.Name, rec.NextIndex, set, digest, pl.state.Now())
	last, ok := rec.Latest()
	switch {
	case !ok:
	case holdsSame(&last, &f.Snapshot):
		last.Omitted = set.Omitted // the omitted objects may have changed since
		f.Snapshot, f.Fresh = last, false
	case holdsSameObjects(&last, &f.Snapshot):
		f.Snapshot.Repeats = last.Repeats + 1
	default:
		f.Snapshot.Repeats = last.Repeats
	}
	return f, nil
}

// holdsSame reports whether two snapshots hold the same content, out of the same envelopes.
func holdsSame(last, now *snapshot.Snapshot) bool {
	return last.Digest == now.Digest && holdsSameObjects(last, now)
}

// holdsSameObjects reports whether two snapshots hold the same objects, out of the same envelopes,
// whatever their overrides.
func holdsSameObjects(last, now *snapshot.Snapshot) bool {
	return last.Set == now.Set && sameOrigins(last, now)
}

// sameOrigins reports whether the objects of two snapshots came in the same envelopes. A snapshot
// from before origins were recorded counts as the same, so that an upgrade alone takes no snapshot.
func sameOrigins(last, now *snapshot.Snapshot) bool {
	return last.Origins == now.Origins || last.Origins == "" && last.Envelopes > 0
}

// objectsOf yields the objects of a set in the form that overrides select, each with its namespace.
func objectsOf(items []snapshot.Item) iter.Seq2[placement.ObjectSelector, string] {
	return func(yield func(placement.ObjectSelector, string) bool) {
		for _, it := range items {
			if !yield(placement.ObjectSelector{Group: it.Group, Version: it.Version, Kind: it.Kind, Name: it.Name}, it.Namespace) {
				return
			}
		}
	}
}

// selected returns the queries of selectors as text.
func selected(selectors []snapshot.Selector) string {
	var out []string
	for _, s := range selectors {
		q := snapshot.Query{Group: s.Group, Version: s.Version, Kind: s.Kind, Name: s.Name}
		out = append(out, q.String())
	}
	return strings.Join(out, ", ")
}

// persist stores the contents of a snapshot that the latest snapshot lacks.
func (pl *Planner) persist(ctx context.Context, rec *record.Placement, f frozen) error {
	known, err := pl.knownDigests(ctx, rec)
	if err != nil {
		return err
	}
	if f.document != nil {
		if err := pl.contents.SaveBlob(ctx, rec.Placement.Name, f.Overrides, f.document); err != nil {
			return err
		}
	}
	if f.Origins != "" {
		if err := pl.contents.SaveBlob(ctx, rec.Placement.Name, f.Origins, f.set.Origins()); err != nil {
			return err
		}
	}
	return pl.contents.Save(ctx, rec.Placement.Name, f.set, func(d string) bool { return known[d] })
}

// knownDigests returns the digests of the latest snapshot. They need not be stored again, because
// no collection deletes them while it is the latest.
func (pl *Planner) knownDigests(ctx context.Context, rec *record.Placement) (map[string]bool, error) {
	known := map[string]bool{}
	last, ok := rec.Latest()
	if !ok {
		return known, nil
	}
	return known, pl.state.DigestsOf(ctx, rec.Placement.Name, last.Set, known)
}

// recordSnapshot makes f the latest snapshot. It returns ErrConflict if another snapshot was taken,
// a collection has begun, or the placement was deleted and declared again since rec was read.
func (pl *Planner) recordSnapshot(ctx context.Context, rec *record.Placement, f frozen, forRun bool) error {
	_, _, err := pl.state.Advance(ctx, rec.Placement.Name, &state.Transition{
		Input: state.Always(lifecycle.SnapshotTaken{Snapshot: f.Snapshot, UID: rec.UID, GCGeneration: rec.GCGeneration, ForRun: forRun}),
	})
	return err
}

// load reads and verifies the snapshot with this index.
func (pl *Planner) load(ctx context.Context, rec *record.Placement, index int) (frozen, error) {
	name := rec.Placement.Name
	kept, err := state.SnapshotAt(rec, index)
	if err != nil {
		return frozen{}, err
	}
	f := frozen{Snapshot: kept}
	if f.set, err = pl.contents.LoadSet(ctx, name, f.Set); err != nil {
		return frozen{}, fmt.Errorf("snapshot %s: %w", f.Name(), err)
	}
	if f.overrides, f.document, err = pl.state.FrozenOverrides(ctx, name, &f.Snapshot); err != nil {
		return frozen{}, err
	}
	return f, nil
}

// objects decodes the objects of the snapshot.
func (f *frozen) objects() ([]*unstructured.Unstructured, error) {
	out := make([]*unstructured.Unstructured, len(f.set.Bodies))
	for i, body := range f.set.Bodies {
		var err error
		if out[i], err = snapshot.Decode(body); err != nil {
			return nil, fmt.Errorf("snapshot %s: %s: %w", f.Name(), f.set.Items[i].ID, err)
		}
	}
	return out, nil
}
