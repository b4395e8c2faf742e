package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/placement"
)

// Provider is an [upgrade.Watcher] in memory. Its methods may be called concurrently.
type Provider struct {
	now func() time.Time

	mu    sync.Mutex
	state State
	// changed is closed and replaced on every change.
	changed chan struct{}
}

var _ upgrade.Watcher = (*Provider)(nil)

// New returns a provider with a copy of the environment w. A nil clock means time.Now.
func New(w State, clock func() time.Time) *Provider {
	if clock == nil {
		clock = time.Now
	}
	return &Provider{now: clock, state: w.clone(), changed: make(chan struct{})}
}

// State returns a copy of the whole state.
func (p *Provider) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
	return p.state.clone()
}

// Edit calls f, which changes the state. No other call reads the state during f. f must not call a
// method of the provider, or keep references to the state.
func (p *Provider) Edit(f func(*State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
	f(&p.state)
	p.tell()
}

// Cluster returns a copy of the current state of a cluster, and false if there is none.
func (p *Provider) Cluster(name string) (Cluster, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.state.Clusters[name]
	if c == nil {
		return Cluster{}, false
	}
	c.settle(p.now())
	return *c.clone(), true
}

// Occupy simulates an operation of another operator on a cluster for d, or with 0 until Edit ends
// it. The error is ErrNotFound if there is no such cluster, and ErrConflict if something else is
// under way.
func (p *Provider) Occupy(name, message string, d time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.state.Clusters[name]
	if c == nil {
		return failed("occupy", name, backend.ErrNotFound)
	}
	c.settle(p.now())
	if err := c.free(); err != nil {
		return failed("occupy", name, err)
	}
	c.Busy = cmp.Or(message, "an operation")
	if d > 0 {
		c.BusyUntil = p.now().Add(d)
	}
	p.tell()
	return nil
}

// Describe returns the current state of a cluster. See [upgrade.Provider].
func (p *Provider) Describe(ctx context.Context, pc placement.Cluster) (upgrade.Cluster, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.reach(ctx, pc)
	if err != nil {
		return upgrade.Cluster{}, failed("describe", pc.Name, err)
	}
	out := upgrade.Cluster{
		Region: c.Region, ControlPlane: c.ControlPlane, Pools: clonePools(c.Pools),
		Versions: slices.Clone(p.state.Versions), Busy: c.Busy, Healthy: !c.UnhealthyUntil.After(p.now()),
	}
	for i := range out.Pools {
		out.Pools[i].Images = p.state.images(c.Region, out.Pools[i].Family)
	}
	if c.Operation != nil {
		o := c.Operation.clone().Operation
		out.Operation = &o
	}
	if !out.Healthy {
		out.Message = "the cluster is not healthy"
	}
	return out, nil
}

// Begin begins a change. See [upgrade.Provider].
func (p *Provider) Begin(ctx context.Context, pc placement.Cluster, change upgrade.Change) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.reach(ctx, pc)
	if err == nil {
		err = p.begin(c, change)
	}
	if err != nil {
		return failed("begin change "+change.ID+" of", pc.Name, err)
	}
	return nil
}

func (p *Provider) begin(c *Cluster, change upgrade.Change) error {
	if change.ID == "" {
		return fmt.Errorf("a change needs an ID: %w", backend.ErrPermanent)
	}
	if known := p.state.Epochs[change.Placement]; change.Epoch < known {
		return fmt.Errorf("placement %s is at epoch %d, the change has %d: %w", change.Placement, known, change.Epoch, backend.ErrFenced)
	}
	if p.state.Epochs == nil {
		p.state.Epochs = map[string]int64{}
	}
	p.state.Epochs[change.Placement] = change.Epoch
	if c.Operation != nil && c.Operation.Change.ID == change.ID {
		return nil
	}
	if err := c.free(); err != nil {
		return err
	}
	if c.Refuse != "" {
		return fmt.Errorf("%s: %w", c.Refuse, backend.ErrPermanent)
	}
	c.start(change, p.now(), p.state.Takes.Duration)
	p.tell()
	return nil
}

// free returns an error if a change or another operation is under way.
func (c *Cluster) free() error {
	switch {
	case c.changing():
		return fmt.Errorf("change %s is under way: %w", c.Operation.Change.ID, backend.ErrConflict)
	case c.Busy != "":
		return fmt.Errorf("another client works on it: %s: %w", c.Busy, backend.ErrConflict)
	}
	return nil
}

// start begins a change.
func (c *Cluster) start(change upgrade.Change, now time.Time, takes time.Duration) {
	if c.Takes.Duration > 0 {
		takes = c.Takes.Duration
	}
	o := Operation{
		Operation: upgrade.Operation{Change: change, State: upgrade.Running, Message: "upgrading " + string(change.Part)},
		Began:     now, Ends: now.Add(takes),
	}
	c.Operation = o.clone()
	c.Begun = append(c.Begun, *o.clone())
}

// reach returns a cluster at the current time, or an error if it cannot be reached.
func (p *Provider) reach(ctx context.Context, pc placement.Cluster) (*Cluster, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := p.state.Clusters[pc.Name]
	if c == nil || c.UID != "" && pc.UID != "" && c.UID != pc.UID {
		return nil, backend.ErrNotFound
	}
	if r := p.state.Regions[c.Region]; r != nil && r.Unavailable {
		return nil, fmt.Errorf("region %s is not available", c.Region)
	}
	if c.Unavailable {
		return nil, errors.New("the cluster is not available")
	}
	c.settle(p.now())
	return c, nil
}

// Watch yields when a cluster has changed. See [upgrade.Watcher].
func (p *Provider) Watch(ctx context.Context, pc placement.Cluster) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		for {
			changed, at := p.alarm(pc.Name)
			if !yield(struct{}{}, nil) {
				return
			}
			if err := p.wait(ctx, changed, at); err != nil {
				yield(struct{}{}, err)
				return
			}
		}
	}
}

// alarm returns a channel that is closed on the next change of the state, and when the cluster
// changes by itself.
func (p *Provider) alarm(cluster string) (<-chan struct{}, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.state.Clusters[cluster]
	if c == nil {
		return p.changed, time.Time{}
	}
	c.settle(p.now())
	return p.changed, c.next(p.now())
}

// wait waits until changed is closed, or until at by the provider's clock.
func (p *Provider) wait(ctx context.Context, changed <-chan struct{}, at time.Time) error {
	var alarm <-chan time.Time
	if !at.IsZero() {
		t := time.NewTimer(max(at.Sub(p.now()), time.Millisecond))
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-alarm:
	}
	return nil
}

// tell wakes the watches. The caller holds the lock.
func (p *Provider) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// settle brings all clusters to the current time. The caller holds the lock.
func (p *Provider) settle() {
	now := p.now()
	for _, c := range p.state.Clusters {
		c.settle(now)
	}
}

// images returns a copy of the images that a region offers to a family.
func (w *State) images(region, family string) []string {
	r := w.Regions[region]
	if r == nil {
		return nil
	}
	return slices.Clone(r.Images[family])
}

func failed(op, cluster string, err error) error {
	return &backend.Error{Op: op, Object: "cluster " + cluster, Err: err}
}
