package upgrade

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/slipway-dev/slipway/backend"
)

// targetsKept is the number of targets that an updater caches.
const targetsKept = 16

// NewUpdater returns an updater that upgrades clusters through p. It is a backend.Preflighter, and
// a backend.UpdaterWatcher if p is a [Watcher]. Its methods may be called concurrently. A restarted
// engine may continue with a new updater.
//
// An assignment without a revision, for a cluster that has left or a placement that is being
// deleted, completes at once and changes nothing, because an upgrade leaves nothing to remove.
func NewUpdater(p Provider) backend.Updater {
	u := &updater{provider: p, targets: map[string]Target{}}
	if w, ok := p.(Watcher); ok {
		return &watchingUpdater{u, w}
	}
	return u
}

type updater struct {
	provider Provider

	mu      sync.Mutex
	targets map[string]Target
}

var _ backend.Preflighter = (*updater)(nil)

// watchingUpdater is an updater whose provider announces changes.
type watchingUpdater struct {
	*updater
	watcher Watcher
}

var _ backend.UpdaterWatcher = (*watchingUpdater)(nil)

// Watch yields when the cluster may have changed.
func (u *watchingUpdater) Watch(ctx context.Context, a backend.Assignment) iter.Seq2[struct{}, error] {
	return u.watcher.Watch(ctx, a.Cluster)
}

// Update describes the cluster, and begins the next change that it needs.
func (u *updater) Update(ctx context.Context, a backend.Assignment) (backend.Proof, error) {
	if a.Revision == "" {
		return nothing(), nil
	}
	v, err := u.describe(ctx, a)
	if err != nil {
		return backend.Proof{}, err
	}
	r, done := v.settled()
	other := v.other()
	switch {
	case done && (v.ours || other == ""):
		return r, nil
	case other != "":
		return backend.Proof{Sent: v.ours}, v.errorf("it waits for another client: %s", other)
	case v.aim.without != "":
		return backend.Proof{Skipped: true, Unchanged: true, Message: clip(v.aim.without)}, nil
	}
	if err := v.refusal(); err != nil {
		return backend.Proof{}, err
	}
	return u.begin(ctx, v)
}

// Observe describes the cluster and begins nothing.
func (u *updater) Observe(ctx context.Context, a backend.Assignment) (backend.Proof, error) {
	if a.Revision == "" {
		return nothing(), nil
	}
	v, err := u.describe(ctx, a)
	if err != nil {
		return backend.Proof{}, err
	}
	if r, done := v.settled(); done {
		return r, nil
	}
	return backend.Proof{Sent: v.ours, Message: v.pending()}, nil
}

// nothing returns the proof for an assignment without a revision.
func nothing() backend.Proof {
	return backend.Proof{Applied: true, Unchanged: true, Current: true, Healthy: true}
}

// begin begins the first missing change.
func (u *updater) begin(ctx context.Context, v *view) (backend.Proof, error) {
	change := Change{
		ID: v.id(v.missing[0]), Placement: v.a.Placement, Epoch: v.a.Epoch, Part: v.missing[0], Goal: v.aim.Goal,
	}
	err := u.provider.Begin(ctx, v.a.Cluster, change)
	switch {
	case err == nil:
		return backend.Proof{Sent: true, Message: v.pending()}, nil
	case errors.Is(err, backend.ErrFenced), errors.Is(err, backend.ErrConflict),
		errors.Is(err, backend.ErrPermanent), errors.Is(err, backend.ErrNotFound):
		return backend.Proof{Sent: v.ours}, v.errorf("%w", permanently(err))
	}
	return backend.Proof{Sent: true}, v.errorf("%w", err)
}

// describe describes the cluster of an assignment and resolves the target for it. It does not call
// the provider for a cluster that the target leaves out.
func (u *updater) describe(ctx context.Context, a backend.Assignment) (*view, error) {
	v := &view{a: a}
	t, err := u.target(ctx, a)
	if err != nil {
		return nil, v.errorf("%w", err)
	}
	if v.aim.without = t.exclusionReason(a.Cluster.Name); v.aim.without != "" {
		return v, nil
	}
	if v.c, err = u.provider.Describe(ctx, a.Cluster); err != nil {
		return nil, v.errorf("%w", permanently(err))
	}
	v.ours = v.c.Operation != nil && strings.HasPrefix(v.c.Operation.Change.ID, a.RunUID+".")
	if v.ours {
		v.aim = aim{Goal: v.c.Operation.Change.Goal}
	} else {
		v.aim = aimAt(t, &v.c)
	}
	v.missing = v.aim.missing(&v.c)
	return v, nil
}

// target returns the target of an assignment. It caches targets by their digests.
func (u *updater) target(ctx context.Context, a backend.Assignment) (Target, error) {
	u.mu.Lock()
	t, known := u.targets[a.Revision]
	u.mu.Unlock()
	if known {
		return t, nil
	}
	if a.Content == nil {
		return t, fmt.Errorf("the assignment has no Content: %w", backend.ErrPermanent)
	}
	set, err := a.Content(ctx)
	if err != nil {
		return t, err
	}
	if t, err = TargetOf(set); err != nil {
		return t, fmt.Errorf("%w: %w", backend.ErrPermanent, err)
	}
	u.remember(a.Revision, t)
	return t, nil
}

func (u *updater) remember(revision string, t Target) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.targets) >= targetsKept {
		clear(u.targets)
	}
	u.targets[revision] = t
}
