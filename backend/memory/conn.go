package memory

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/feed"
	"github.com/slipway-dev/slipway/snapshot"
)

// conn is a connection to a cluster. Its calls are subject to the faults of the member.
type conn struct {
	cluster *Cluster
	faults  *faults
	closed  atomic.Bool
}

var (
	_ backend.ConnWatcher   = (*conn)(nil)
	_ backend.ConnDryRunner = (*conn)(nil)
	_ backend.ConnLister    = (*conn)(nil)
	_ backend.ConnFencer    = (*conn)(nil)
)

// errClosed is transient, like the error of an interrupted connection.
var errClosed = errors.New("the connection is closed")

// Conn returns a connection to the cluster without faults. It is a [backend.ConnWatcher], a
// [backend.ConnDryRunner], a [backend.ConnLister] and a [backend.ConnFencer] whose fencing is
// [backend.FencingAtomic].
func (c *Cluster) Conn() backend.Conn { return &conn{cluster: c, faults: &faults{}} }

func (c *conn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	if err := c.ready(ctx); err != nil {
		return nil, failed("get", c.cluster.name, err)
	}
	return c.cluster.Get(id)
}

func (c *conn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if err := c.ready(ctx); err != nil {
		return nil, failed("apply", c.cluster.name, err)
	}
	return c.cluster.apply(obj, o, false)
}

func (c *conn) DryRun(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if err := c.ready(ctx); err != nil {
		return nil, failed("dry run", c.cluster.name, err)
	}
	return c.cluster.apply(obj, o, true)
}

func (c *conn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	if err := c.ready(ctx); err != nil {
		return failed("delete", c.cluster.name, err)
	}
	return c.cluster.delete(id, o)
}

func (c *conn) List(ctx context.Context, namespace string) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		if err := c.ready(ctx); err != nil {
			yield(nil, failed("list", c.cluster.name, err))
			return
		}
		for _, obj := range c.cluster.List(namespace) {
			if !yield(obj, nil) {
				return
			}
		}
	}
}

func (c *conn) Fencing() backend.Fencing { return backend.FencingAtomic }

func (c *conn) Close() error {
	c.closed.Store(true)
	return nil
}

// ready applies the delay and the other faults of the member, and returns nil if the call may
// proceed.
func (c *conn) ready(ctx context.Context) error {
	if c.closed.Load() {
		return errClosed
	}
	return c.faults.pass(ctx)
}

func (c *conn) Watch(ctx context.Context, ids []snapshot.ID) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		w := c.cluster.subscribe(ids)
		defer c.cluster.unsubscribe(w)
		for {
			err := c.next(ctx, w)
			if err != nil && ctx.Err() == nil {
				err = failed("watch", c.cluster.name, err)
			}
			if !yield(struct{}{}, err) || err != nil {
				return
			}
		}
	}
}

// next waits until an object of the watch has changed and the member is not hanging.
func (c *conn) next(ctx context.Context, w *watch) error {
	for changed := false; ; {
		f := c.faults.now()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case f.down:
			return errDown
		case changed && !f.hang:
			return c.ready(ctx)
		}
		select {
		case <-ctx.Done():
		case <-f.changed:
		case <-w.signal:
			changed = true
		}
	}
}

// watch waits for changes of some objects.
type watch struct {
	keys   map[key]struct{}
	signal chan struct{}
}

// subscribe returns a watch with a first pending signal.
func (c *Cluster) subscribe(ids []snapshot.ID) *watch {
	w := &watch{keys: make(map[key]struct{}, len(ids)), signal: make(chan struct{}, 1)}
	for _, id := range ids {
		w.keys[keyOf(id)] = struct{}{}
	}
	feed.Wake(w.signal)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches == nil {
		c.watches = map[*watch]struct{}{}
	}
	c.watches[w] = struct{}{}
	return w
}

func (c *Cluster) unsubscribe(w *watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watches, w)
}

// errDown is transient: the member may come back.
var errDown = errors.New("the cluster cannot be reached")

// faults are the simulated faults of a member. The zero value has none.
type faults struct {
	mu sync.Mutex
	fault
}

// fault is the state of the faults at one time.
type fault struct {
	delay      func() time.Duration
	down, hang bool
	changed    chan struct{} // closed when the state changes
}

func (x *faults) set(change func(*faults)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change(x)
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
}

// now returns the current state; its changed is not nil.
func (x *faults) now() fault {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.changed == nil {
		x.changed = make(chan struct{})
	}
	return x.fault
}

// pass applies the faults, and returns nil if a call may proceed.
func (x *faults) pass(ctx context.Context) error {
	x.mu.Lock()
	f := x.fault
	x.mu.Unlock()
	var wait <-chan time.Time
	switch {
	case f.down:
		return errDown
	case f.hang: // until ctx ends
	case f.delay == nil:
		return ctx.Err()
	default:
		d := f.delay()
		if d <= 0 {
			return ctx.Err()
		}
		t := time.NewTimer(d)
		defer t.Stop()
		wait = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wait:
		return nil
	}
}
