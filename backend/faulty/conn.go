package faulty

import (
	"context"
	"iter"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// conn is a connection with the faults of a plan.
type conn struct {
	plan  *Plan
	name  string
	inner backend.Conn
}

// connWatcher is a conn that is also a watcher.
type connWatcher struct {
	conn
	inner backend.ConnWatcher
}

// Conn returns c with the plan's faults; name is the cluster in the keys of the calls. It is a
// [backend.ConnWatcher] if c is, and a [backend.ConnFencer] that checks fences as c does.
func (p *Plan) Conn(c backend.Conn, name string) backend.Conn {
	if w, ok := c.(backend.ConnWatcher); ok {
		return &connWatcher{conn{p, name, c}, w}
	}
	return &conn{p, name, c}
}

// Dialer returns d with the plan's faults, for itself and for the connections
// it opens.
func (p *Plan) Dialer(d backend.Dialer) backend.Dialer {
	return backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
		f, err := p.enter(ctx, "dial", c.Name)
		if err != nil {
			return nil, err
		}
		inner, err := d.Dial(ctx, c)
		failed := p.leave(f, "dial", c.Name, err)
		if failed == nil {
			return p.Conn(inner, c.Name), nil
		}
		if err == nil {
			_ = inner.Close() // no caller has it
		}
		return nil, failed
	})
}

func (c *conn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	return c.object(ctx, "get", id, func(ctx context.Context) (*unstructured.Unstructured, error) { return c.inner.Get(ctx, id) })
}

func (c *conn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	var id snapshot.ID
	if obj != nil {
		id = snapshot.ID{Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
	}
	return c.object(ctx, "apply", id, func(ctx context.Context) (*unstructured.Unstructured, error) { return c.inner.Apply(ctx, obj, o) })
}

// DryRun is unsupported if the inner connection is not a [backend.ConnDryRunner].
func (c *conn) DryRun(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	var id snapshot.ID
	if obj != nil {
		id = snapshot.ID{Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
	}
	return c.object(ctx, "dryrun", id, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return backend.DryRun(ctx, c.inner, obj, o)
	})
}

// List is unsupported if the inner connection is not a [backend.ConnLister].
func (c *conn) List(ctx context.Context, namespace string) iter.Seq2[*unstructured.Unstructured, error] {
	key := c.key(snapshot.ID{Namespace: namespace})
	return sequence(ctx, c.plan, "list", key, func(ctx context.Context) iter.Seq2[*unstructured.Unstructured, error] {
		return backend.ListNamespace(ctx, c.inner, namespace)
	})
}

func (c *conn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	_, err := c.object(ctx, "delete", id, func(ctx context.Context) (*unstructured.Unstructured, error) { return nil, c.inner.Delete(ctx, id, o) })
	return err
}

// object performs a call on one object.
func (c *conn) object(ctx context.Context, op string, id snapshot.ID, call func(context.Context) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	key := c.key(id)
	f, err := c.plan.enter(ctx, op, key)
	if err != nil {
		return nil, err
	}
	if f.Late != nil {
		return nil, c.plan.postpone(ctx, f, op, key, func(ctx context.Context) { _, _ = call(ctx) })
	}
	obj, err := call(ctx)
	if err = c.plan.leave(f, op, key, err); err != nil {
		return nil, err
	}
	return obj, nil
}

// Fencing returns how the wrapped connection checks fences.
func (c *conn) Fencing() backend.Fencing { return backend.FencingOf(c.inner) }

// Close always closes the connection, whatever the plan says.
func (c *conn) Close() error { return c.inner.Close() }

func (c *connWatcher) Watch(ctx context.Context, ids []snapshot.ID) iter.Seq2[struct{}, error] {
	return sequence(ctx, c.plan, "watch", c.name, func(ctx context.Context) iter.Seq2[struct{}, error] {
		return c.inner.Watch(ctx, ids)
	})
}

func (c *conn) key(id snapshot.ID) string {
	parts := make([]string, 0, 4)
	for _, part := range []string{c.name, id.Kind, id.Namespace, id.Name} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}
