package driftwatch

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// clusterWatch watches what one cluster has of a placement.
type clusterWatch struct {
	e       *Reporter
	notes   *notes
	cluster placement.Cluster
	stop    context.CancelFunc
	news    chan struct{}

	mu sync.Mutex
	s  *survey
	// about is the revision whose objects are watched.
	about string

	// telling and putting are how often it is told that the cluster differs, and
	// something put back.
	telling, putting pace
	// fight finds out whether somebody else keeps changing what is put back.
	fight drift.Fight
}

// tell gives the watch a newer view of the placement. While a run has the
// placement there is no need to look: nothing is put back, and what the run
// changes is seen as it is changed.
func (c *clusterWatch) tell(s *survey) {
	c.mu.Lock()
	c.s = s
	c.mu.Unlock()
	if s.rec.Queue.Active == nil || member.ReportsOnly(&s.strategy) {
		backoff.Wake(c.news)
	}
}

func (c *clusterWatch) survey() *survey {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s
}

// run looks at the cluster whenever it or the placement changes, until ctx ends.
func (c *clusterWatch) run(ctx context.Context) {
	for ctx.Err() == nil {
		watching, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		changes := make(chan struct{}, 1)
		watch.Go(func() {
			for _, err := range guard.Rewatch(watching, func() iter.Seq2[struct{}, error] { return c.watch(watching) }, c.e.cfg.Poll) {
				_ = err // whatever the watch says, the cluster is looked at
				backoff.Wake(changes)
			}
		})
		c.follow(ctx, changes)
		stop()
		watch.Wait()
	}
}

// watch yields when an object that the placement has on the cluster changes.
func (c *clusterWatch) watch(ctx context.Context) iter.Seq2[struct{}, error] {
	return c.e.snapshots.WatchCompared(ctx, c.survey().comparison(c.cluster), c.e.cfg.Poll, func(revision string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.about = revision
	})
}

// follow looks at the cluster after each change, and again where it could not.
// It returns when what is watched has changed: then another watch is needed.
func (c *clusterWatch) follow(ctx context.Context, changes <-chan struct{}) {
	var again <-chan time.Time
	for wait := member.ReachFirst; ; {
		select {
		case <-ctx.Done():
			return
		case <-changes:
		case <-c.news:
		case <-again:
		}
		revision, delay, err := c.look(ctx)
		again = nil
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, backend.ErrPermanent):
			c.e.log.Warn("a cluster is not kept as it should be", "cluster", c.cluster.Name, "error", err)
			again, wait = time.After(max(wait, member.ReachMost)), min(2*wait, paceMost)
			continue
		case err != nil:
			again, wait = time.After(wait), min(2*wait, member.ReachMost)
			continue
		case delay > 0:
			again = time.After(delay)
		}
		wait = member.ReachFirst
		if c.outdated(revision) {
			return
		}
	}
}

// outdated reports whether the cluster should have another revision than the one
// whose objects are watched.
func (c *clusterWatch) outdated(revision string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return revision != "" && revision != c.about
}

// look examines the cluster, records what differs and puts it back. It returns
// the revision that the cluster was compared with, and when to look again. What a
// run records of the cluster meanwhile stays, and it is looked at again.
func (c *clusterWatch) look(ctx context.Context) (revision string, again time.Duration, err error) {
	s := c.survey()
	old, err := c.e.sightingOf(ctx, s.rec.Placement.Name, c.cluster.Name)
	if err != nil {
		return "", 0, err
	}
	found := s.look(ctx, c.cluster)
	if ctx.Err() != nil {
		return "", 0, ctx.Err()
	}
	if found.State == member.Updating {
		return "", 0, c.finish(ctx, s)
	}
	fresh, err := c.e.sight(ctx, old, found)
	if err != nil {
		return "", 0, err
	}
	if found.State == member.Unknown {
		return "", 0, errors.New(found.Problems[0])
	}
	if fresh && c.telling.left() == 0 {
		c.telling.done()
		c.notes.add(driftEvent(stages.DriftFound, &found))
	}
	if member.SelfHeals(&s.strategy) && slices.ContainsFunc(found.Objects, func(o member.ObjectDrift) bool { return o.Reason == member.FoundDrifts }) {
		again, err = c.putBack(ctx, s, &found)
	}
	return found.Revision, again, err
}

// putBack applies again what the cluster should have, unless a run has the
// placement or it was done a moment ago. It returns when to try again.
func (c *clusterWatch) putBack(ctx context.Context, s *survey, found *member.ClusterDrift) (time.Duration, error) {
	if wait := c.putting.left(); wait > 0 {
		return wait, nil
	}
	if may, err := c.mayPutBack(ctx, s); !may || err != nil {
		return 0, err
	}
	done, err := c.restore(ctx, s, found.Revision)
	if err != nil || !done {
		return 0, err
	}
	c.putting.done()
	ev := driftEvent(stages.DriftCorrected, found)
	if _, fighting := c.fight.Drifted(c.putting.last); fighting {
		ev.Message += "; somebody keeps changing it: an ignore rule would leave it to them"
	}
	c.fight.PutBack()
	c.notes.add(ev)
	return 0, nil
}

// mayPutBack reports whether the placement still asks for it and no run has it: a
// run decides itself.
func (c *clusterWatch) mayPutBack(ctx context.Context, s *survey) (bool, error) {
	rec, _, err := c.e.state.Placement(ctx, s.rec.Placement.Name)
	if err != nil {
		return false, err
	}
	return rec.Queue.Active == nil && rec.Deleting == nil && member.StrategyKey(&rec.Placement.ApplyStrategy) == member.StrategyKey(&s.rec.Placement.ApplyStrategy), nil
}

// restore brings the cluster back to a revision that its ledger proves, and
// reports whether it did anything.
func (c *clusterWatch) restore(ctx context.Context, s *survey, revision string) (sent bool, err error) {
	leave, err := c.e.lanes.Enter(ctx, c.cluster.Name)
	if err != nil {
		return false, err
	}
	defer func() { leave(err) }()
	a := c.assignment(s)
	a.Revision = revision
	sent, released, err := c.e.snapshots.Restore(ctx, a)
	if released != "" {
		c.notes.add(stages.Event{Type: stages.ObjectsReleased, Cluster: c.cluster.Name, Message: released})
	}
	if errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrFenced) {
		return false, nil // a run has come to the cluster, and decides
	}
	return sent, err
}

// assignment is what the placement asks of the cluster between runs.
func (c *clusterWatch) assignment(s *survey) member.Assignment {
	p := &s.rec.Placement
	return member.WithKey(member.Assignment{
		Placement: p.Name, Cluster: c.cluster, AllowCoOwnership: p.AllowCoOwnership, Strategy: s.strategy,
	}, s.rec.Key)
}

// finish closes an intent to put something back that an engine left open.
func (c *clusterWatch) finish(ctx context.Context, s *survey) error {
	revision, err := c.e.snapshots.Unrestored(ctx, c.assignment(s))
	if err != nil || revision == "" {
		return err
	}
	if may, err := c.mayPutBack(ctx, s); !may || err != nil {
		return err
	}
	_, err = c.restore(ctx, s, revision)
	return err
}
