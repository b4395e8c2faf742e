package fleet

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// The waits before something is put back that somebody keeps changing: the
// first time none, then longer each time. What was left alone for a while
// begins anew.
const (
	putBackFirst = time.Second
	putBackMost  = 5 * time.Minute
	putBackCalm  = 10 * time.Minute
)

// clusterWatch watches what one cluster has of a placement.
type clusterWatch struct {
	e       *Engine
	cluster placement.Cluster
	stop    context.CancelFunc
	news    chan struct{}

	mu sync.Mutex
	s  *survey
	// about is the revision whose objects are watched.
	about string

	// last is what differed at the last look; wait how long to wait before the
	// next time something is put back, and back when that was last done.
	last string
	wait time.Duration
	back time.Time
	// fight finds out whether somebody else keeps changing what is put back.
	fight drift.Fight
}

// tell gives the watch a newer view of the placement.
func (c *clusterWatch) tell(s *survey) {
	c.mu.Lock()
	c.s = s
	c.mu.Unlock()
	poke(c.news)
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
			for range rewatch(watching, func() iter.Seq2[struct{}, error] { return c.watch(watching) }, c.e.cfg.Poll) {
				poke(changes)
			}
		})
		c.follow(ctx, changes)
		stop()
		watch.Wait()
	}
}

// watch yields when an object that the placement has on the cluster changes.
func (c *clusterWatch) watch(ctx context.Context) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		m, ids, err := c.watched(ctx)
		if err != nil {
			yield(struct{}{}, err)
			return
		}
		m.watch(ctx, ids, c.e.cfg.Poll)(yield)
	}
}

// watched are the objects that a watch is about: what the cluster is compared
// with, and the ledger.
func (c *clusterWatch) watched(ctx context.Context) (*memberConn, []snapshot.ID, error) {
	x := c.examination()
	m, err := x.u.conns.get(ctx, c.cluster)
	if err != nil {
		return nil, nil, err
	}
	l, err := readLedger(ctx, m, x.placement)
	if err != nil {
		return nil, nil, err
	}
	rev := x.revision
	if rev == nil && l.Revision != "" {
		if rev, err = x.u.contents.load(ctx, x.placement, l.Revision); err != nil {
			return nil, nil, err
		}
	}
	c.mu.Lock()
	c.about = ""
	if rev != nil {
		c.about = rev.digest
	}
	c.mu.Unlock()
	ids := []snapshot.ID{ledgerID(x.placement)}
	for _, t := range targetsOf(rev, l.ledger) {
		ids = append(ids, t.id)
	}
	return m, ids, nil
}

func (c *clusterWatch) examination() *examination { return c.survey().examination(c.cluster) }

// follow looks at the cluster after each change, and again where it could not.
// It returns when what is watched has changed: then another watch is needed.
func (c *clusterWatch) follow(ctx context.Context, changes <-chan struct{}) {
	var again <-chan time.Time
	for wait := reachFirst; ; {
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
		case err != nil:
			again, wait = time.After(wait), min(2*wait, reachMost)
			continue
		case delay > 0:
			again = time.After(delay)
		}
		wait = reachFirst
		if c.outdated(revision) {
			return
		}
	}
}

// outdated tells that the cluster should have another revision than the one
// whose objects are watched.
func (c *clusterWatch) outdated(revision string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return revision != "" && revision != c.about
}

// look examines the cluster, records what differs and puts it back. It returns
// the revision that the cluster was compared with, and when to look again.
func (c *clusterWatch) look(ctx context.Context) (revision string, again time.Duration, err error) {
	s := c.survey()
	found := s.look(ctx, c.cluster)
	if ctx.Err() != nil {
		return "", 0, ctx.Err()
	}
	if found.State == Updating {
		return "", 0, c.finish(ctx, s)
	}
	if err := c.e.saw(ctx, found); err != nil {
		return "", 0, err
	}
	if found.State == Unknown {
		return "", 0, errors.New(found.Problems[0])
	}
	c.tellOf(ctx, &found)
	if found.Total > 0 && s.strategy.putsBack() {
		again, err = c.putBack(ctx, s, &found)
	}
	return found.Revision, again, err
}

// tellOf notes in the placement's journal that a cluster differs in another way
// than before.
func (c *clusterWatch) tellOf(ctx context.Context, found *ClusterDrift) {
	now := found.Fingerprint()
	if now != "" && now != c.last {
		c.note(ctx, driftEvent(stages.DriftFound, found))
	}
	c.last = now
}

func (c *clusterWatch) note(ctx context.Context, ev stages.Event) {
	_, err := c.e.updatePlacement(ctx, c.survey().rec.Placement.Name, func(*placementRecord) ([]stages.Event, error) {
		return []stages.Event{ev}, nil
	})
	if err != nil && ctx.Err() == nil {
		c.e.log.Warn("what drifted was not noted", "cluster", c.cluster.Name, "error", err)
	}
}

// putBack applies again what the cluster should have, unless a run has the
// placement or it was done a moment ago. It returns when to try again.
func (c *clusterWatch) putBack(ctx context.Context, s *survey, found *ClusterDrift) (time.Duration, error) {
	if since := time.Since(c.back); since < c.wait {
		return c.wait - since, nil
	} else if since > putBackCalm {
		c.wait = 0
	}
	if busy, err := c.busy(ctx, s); busy || err != nil {
		return 0, err
	}
	done, err := c.restore(ctx, s, found.Revision)
	if err != nil || !done {
		return 0, err
	}
	c.back, c.wait = time.Now(), min(max(2*c.wait, putBackFirst), putBackMost)
	ev := driftEvent(stages.DriftCorrected, found)
	if _, fighting := c.fight.Drifted(c.back); fighting {
		ev.Message += "; somebody keeps changing it: an ignore rule would leave it to them"
	}
	c.fight.PutBack()
	c.note(ctx, ev)
	return 0, nil
}

// busy tells whether a run has the placement: then the run decides.
func (c *clusterWatch) busy(ctx context.Context, s *survey) (bool, error) {
	rec, _, err := c.e.placementAt(ctx, s.rec.Placement.Name)
	if err != nil {
		return false, err
	}
	return rec.Line.Active != nil, nil
}

// restore brings the cluster back to a revision that its ledger proves, and
// tells whether it did anything.
func (c *clusterWatch) restore(ctx context.Context, s *survey, revision string) (bool, error) {
	u := c.e.snapshots
	m, err := u.conns.get(ctx, c.cluster)
	if err != nil {
		return false, err
	}
	l, err := readLedger(ctx, m, s.rec.Placement.Name)
	if err != nil || l.Epoch < 1 || !l.keeps(revision) {
		return false, err
	}
	leave, err := c.e.lanes.enter(ctx, c.cluster.Name)
	if err != nil {
		return false, err
	}
	p := &s.rec.Placement
	sent, err := u.restore(ctx, m, Assignment{
		Placement: p.Name, Run: l.Run, RunUID: l.RunUID, Epoch: l.Epoch, Attempt: l.Attempt, Cluster: c.cluster,
		Revision: revision, AllowCoOwnership: p.AllowCoOwnership, Strategy: s.strategy,
		secretKey: s.rec.secretKey(), keeps: true,
	})
	leave(err)
	if errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrFenced) {
		return false, nil // a run has come to the cluster, and decides
	}
	return sent, err
}

// finish closes an intent to put something back that nobody closed. An intent of
// a run is left to the run.
func (c *clusterWatch) finish(ctx context.Context, s *survey) error {
	m, err := c.e.snapshots.conns.get(ctx, c.cluster)
	if err != nil {
		return err
	}
	l, err := readLedger(ctx, m, s.rec.Placement.Name)
	if err != nil || !l.open() || !l.Keeping {
		return err
	}
	if busy, err := c.busy(ctx, s); busy || err != nil {
		return err
	}
	_, err = c.restore(ctx, s, l.Target)
	return err
}
