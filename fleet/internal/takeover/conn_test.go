package takeover

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// errClosed is the error of a connection that was closed.
var errClosed = errors.New("the connection is closed")

// conn is a connection to a member of the server's fleet.
type conn struct {
	client  *Client
	cluster placement.Cluster
	fencing backend.Fencing
	closed  atomic.Bool
}

var (
	_ backend.ConnWatcher = (*conn)(nil)
	_ backend.ConnFencer  = (*conn)(nil)
)

// Dial returns a connection to a member. It is a [backend.ConnWatcher], and a [backend.ConnFencer]
// that checks fences like the server's connection. See [backend.Dialer].
func (c *Client) Dial(ctx context.Context, cluster placement.Cluster) (backend.Conn, error) {
	p, err := c.ask(ctx, request{Op: opDial, Cluster: cluster})
	if err != nil {
		return nil, err
	}
	return &conn{client: c, cluster: cluster, fencing: p.Fencing}, nil
}

func (c *conn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	p, err := c.ask(ctx, request{Op: opGetObject, IDs: []snapshot.ID{id}})
	return p.Object.Unstructured, err
}

func (c *conn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	p, err := c.ask(ctx, request{Op: opApply, Object: object{obj}, Apply: o})
	return p.Object.Unstructured, err
}

func (c *conn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	_, err := c.ask(ctx, request{Op: opDelete, IDs: []snapshot.ID{id}, Delete: &o})
	return err
}

func (c *conn) Watch(ctx context.Context, ids []snapshot.ID) iter.Seq2[struct{}, error] {
	return each(ctx, c.client, request{Op: opWatchObjects, Cluster: c.cluster, IDs: ids}, sign)
}

func (c *conn) Fencing() backend.Fencing { return c.fencing }

// Close ends the connection here, and in the server if the server is reachable.
func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	_, err := c.client.ask(context.Background(), request{Op: opClose, Cluster: c.cluster})
	return err
}

func (c *conn) ask(ctx context.Context, q request) (reply, error) {
	if c.closed.Load() {
		return reply{}, &backend.Error{Op: q.Op, Object: c.cluster.Name, Err: errClosed}
	}
	q.Cluster = c.cluster
	return c.client.ask(ctx, q)
}
