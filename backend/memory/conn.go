package memory

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// errClosed is what a connection returns after it was closed.
var errClosed = errors.New("the connection is closed")

// conn is a connection to a cluster, and to nothing else.
type conn struct {
	cluster *Cluster
	closed  atomic.Bool
}

var (
	_ backend.ConnWatcher   = (*conn)(nil)
	_ backend.ConnDryRunner = (*conn)(nil)
	_ backend.ConnFencer    = (*conn)(nil)
)

// Conn returns a connection to the cluster. It is a [backend.ConnWatcher], a
// [backend.ConnDryRunner] and a [backend.ConnFencer] whose fencing is
// [backend.FencingAtomic].
func (c *Cluster) Conn() backend.Conn { return &conn{cluster: c} }

func (c *conn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	if err := c.usable(ctx); err != nil {
		return nil, failed("get", keyOf(id).String(), err)
	}
	return c.cluster.get(ctx, id)
}

func (c *conn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if err := c.usable(ctx); err != nil {
		return nil, failed("apply", c.cluster.name, err)
	}
	return c.cluster.apply(ctx, obj, o)
}

func (c *conn) DryRun(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if err := c.usable(ctx); err != nil {
		return nil, failed("dry run", c.cluster.name, err)
	}
	return c.cluster.dryRun(ctx, obj, o)
}

func (c *conn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	if err := c.usable(ctx); err != nil {
		return failed("delete", keyOf(id).String(), err)
	}
	return c.cluster.delete(ctx, id, o)
}

func (c *conn) Fencing() backend.Fencing { return backend.FencingAtomic }

func (c *conn) Close() error {
	c.closed.Store(true)
	return nil
}

func (c *conn) usable(ctx context.Context) error {
	if c.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

func (c *conn) Watch(ctx context.Context, ids []snapshot.ID) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		w := c.cluster.subscribe(ids)
		defer c.cluster.unsubscribe(w)
		for {
			err := await(ctx, w.signal)
			if err == nil && c.closed.Load() {
				err = failed("watch", c.cluster.name, errClosed)
			}
			if !yield(struct{}{}, err) || err != nil {
				return
			}
		}
	}
}

// subscribe returns a watch that has its first signal already.
func (c *Cluster) subscribe(ids []snapshot.ID) *clusterWatch {
	w := &clusterWatch{keys: make(map[key]struct{}, len(ids)), signal: make(chan struct{}, 1)}
	for _, id := range ids {
		w.keys[keyOf(id)] = struct{}{}
	}
	wake(w.signal)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.watches == nil {
		c.server.watches = map[*clusterWatch]struct{}{}
	}
	c.server.watches[w] = struct{}{}
	return w
}

func (c *Cluster) unsubscribe(w *clusterWatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.server.watches, w)
}
