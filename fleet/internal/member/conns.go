package member

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/internal/flight"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// errConnsClosed is what is returned after Close.
var errConnsClosed = errors.New("the connections are closed")

// Conns keeps one connection to each cluster that is worked on. A cluster that
// was made again under the same name gets another one. Every call goes through
// the guard, and what members return is checked.
type Conns struct {
	dialer backend.Dialer
	guard  *guard.Guard

	dials flight.Group[*memberConn]

	mu      sync.Mutex
	open    map[string]*memberConn // by the name of the cluster
	closed  bool
	closing sync.WaitGroup // dials, and connections that are being closed
}

// NewConns returns connections that d opens; a call may take as long as
// timeout.
func NewConns(d backend.Dialer, timeout time.Duration) *Conns {
	return &Conns{dialer: d, guard: guard.New(timeout), open: map[string]*memberConn{}}
}

// get returns the connection to a cluster. Concurrent calls for the same cluster share
// one dial, and one that fails is not remembered.
func (c *Conns) get(ctx context.Context, cluster placement.Cluster) (*memberConn, error) {
	if m, err := c.find(cluster, false); m != nil || err != nil {
		return m, err
	}
	return c.dials.Do(ctx, cluster.Name+"/"+cluster.UID, func(ctx context.Context) (*memberConn, error) {
		if m, err := c.find(cluster, true); m != nil || err != nil {
			return m, err // another dial has just ended
		}
		defer c.closing.Done()
		return c.dial(ctx, cluster)
	})
}

// find returns the open connection to a cluster, nil if there is none. Where the caller
// dials then, Close waits until it calls closing.Done.
func (c *Conns) find(cluster placement.Cluster, dials bool) (*memberConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errConnsClosed
	}
	m := c.open[cluster.Name]
	if m != nil && m.uid == cluster.UID {
		return m, nil
	}
	if m != nil {
		c.discard(m)
	}
	if dials {
		c.closing.Add(1)
	}
	return nil, nil
}

func (c *Conns) dial(ctx context.Context, cluster placement.Cluster) (*memberConn, error) {
	conn, err := guard.Call(ctx, c.guard, "Dial", cluster.Name, func(ctx context.Context) (backend.Conn, error) {
		return c.dialer.Dial(ctx, cluster)
	})
	if err == nil && conn == nil {
		err = fmt.Errorf("the dialer returned neither a connection nor an error: %w", backend.ErrPermanent)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", cluster.Name, err)
	}
	m := &memberConn{name: cluster.Name, uid: cluster.UID, conn: conn, guard: c.guard, ledgers: newLedgerCache()}
	m.broken = func() { c.drop(m) }
	m.use()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		c.closing.Go(m.close)
		return nil, errConnsClosed
	}
	if other := c.open[m.name]; other != nil {
		c.discard(other) // dialled under another UID meanwhile
	}
	c.open[m.name] = m
	return m, nil
}

// drop closes a connection that looks dead; the next get dials again.
func (c *Conns) drop(m *memberConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[m.name] == m {
		c.discard(m)
	}
}

// evictIdle closes the connections that nothing has been done with for d.
func (c *Conns) evictIdle(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.open {
		if m.idle(d) {
			c.discard(m)
		}
	}
}

// discard closes an open connection in the background. The lock is held.
func (c *Conns) discard(m *memberConn) {
	delete(c.open, m.name)
	c.closing.Go(m.close)
}

// Close closes all connections and waits until they are, or were left behind, and until
// no dial is under way.
func (c *Conns) Close() {
	c.mu.Lock()
	c.closed = true
	for _, m := range c.open {
		c.discard(m)
	}
	c.mu.Unlock()
	c.closing.Wait()
}

// memberConn is a connection to a member behind the guard. What a member
// returns is not trusted: an object must be the one that was asked for, and
// must have the uid and the resourceVersion without which a write could not be
// guarded.
type memberConn struct {
	name, uid string
	conn      backend.Conn
	guard     *guard.Guard
	broken    func()
	// used is when a call was last made, in Unix nanoseconds; watches counts
	// those that go on.
	used, watches atomic.Int64
	// lost counts the calls in a row that the member did not answer.
	lost    atomic.Int64
	ledgers ledgerCache
}

func (m *memberConn) use() { m.used.Store(time.Now().UnixNano()) }

// idle reports whether nothing has been done with the connection for d.
func (m *memberConn) idle(d time.Duration) bool {
	return m.watches.Load() == 0 && time.Since(time.Unix(0, m.used.Load())) >= d
}

// get returns the object that id names, nil if there is none.
func (m *memberConn) get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	obj, err := m.show(ctx, id)
	if errors.Is(err, backend.ErrNoSuchKind) {
		return nil, nil
	}
	return obj, err
}

// show is get, but for the error that matches ErrNoSuchKind where the cluster cannot have such an object.
func (m *memberConn) show(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	m.use()
	obj, err := guard.Call(ctx, m.guard, "Get", m.name, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return m.conn.Get(ctx, id)
	})
	if errors.Is(err, backend.ErrNotFound) {
		m.lost.Store(0)
		if errors.Is(err, backend.ErrNoSuchKind) {
			return nil, err
		}
		return nil, nil
	}
	if err == nil {
		err = checkReturned(id, obj)
	}
	if err := m.note(ctx, err); err != nil {
		return nil, err
	}
	return obj, nil
}

func (m *memberConn) apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	m.use()
	got, err := guard.Call(ctx, m.guard, "Apply", m.name, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return m.conn.Apply(ctx, obj, o)
	})
	if err == nil {
		err = checkReturned(snapshot.IDOf(obj), got)
	}
	if err := m.note(ctx, err); err != nil {
		return nil, err
	}
	return got, nil
}

// dryRun returns what an apply would come to.
func (m *memberConn) dryRun(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	m.use()
	got, err := guard.Call(ctx, m.guard, "DryRun", m.name, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return backend.DryRun(ctx, m.conn, obj, o)
	})
	if err == nil && (got == nil || objectKey(snapshot.IDOf(got)) != objectKey(snapshot.IDOf(obj))) {
		err = fmt.Errorf("%s: the member returned another object: %w", snapshot.IDOf(obj), backend.ErrPermanent)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", m.name, err)
	}
	return got, nil
}

// list returns the objects of a namespace, of every kind.
func (m *memberConn) list(ctx context.Context, namespace string) ([]*unstructured.Unstructured, error) {
	m.use()
	all, err := guard.Call(ctx, m.guard, "List", m.name, func(ctx context.Context) (all []*unstructured.Unstructured, err error) {
		for obj, err := range backend.ListNamespace(ctx, m.conn, namespace) {
			if err != nil {
				return nil, err
			}
			all = append(all, obj)
		}
		return all, nil
	})
	if err := m.note(ctx, err); err != nil {
		return nil, err
	}
	return all, nil
}

func (m *memberConn) delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	m.use()
	_, err := guard.Call(ctx, m.guard, "Delete", m.name, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, m.conn.Delete(ctx, id, o)
	})
	return m.note(ctx, err)
}

func (m *memberConn) watch(ctx context.Context, ids []snapshot.ID, poll time.Duration) iter.Seq2[struct{}, error] {
	changes := guard.Stream(ctx, m.guard, "Watch", m.name, func(ctx context.Context) iter.Seq2[struct{}, error] {
		return backend.WatchConn(ctx, m.conn, ids, poll)
	})
	return func(yield func(struct{}, error) bool) {
		m.watches.Add(1)
		defer m.watches.Add(-1)
		defer m.use()
		changes(yield)
	}
}

func (m *memberConn) close() {
	m.ledgers.close()
	_, _ = guard.Call(context.Background(), m.guard, "Close", m.name, func(context.Context) (struct{}, error) {
		return struct{}{}, m.conn.Close()
	})
}

// lostMost is how many calls in a row a member does not answer before its
// connection is taken for dead. With it end all watches of the member.
const lostMost = 3

// note names the cluster in an error, and drops the connection where that looks
// dead, or its credentials are no longer accepted: the next one may have others. A
// member that answers, that it is too busy for example, has a good one.
func (m *memberConn) note(ctx context.Context, err error) error {
	switch {
	case apierrors.IsUnauthorized(err) && guard.Transient(err):
		m.broken()
	case !guard.Transient(err) || answered(err):
		m.lost.Store(0)
	case ctx.Err() == nil && m.lost.Add(1) >= lostMost:
		m.broken()
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("cluster %s: %w", m.name, err)
}

// answered reports whether err is an answer of an API server.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

func checkReturned(id snapshot.ID, obj *unstructured.Unstructured) error {
	if obj == nil || obj.Object == nil {
		return fmt.Errorf("%s: the member returned neither the object nor an error: %w", id, backend.ErrPermanent)
	}
	if got := snapshot.IDOf(obj); objectKey(got) != objectKey(id) {
		return fmt.Errorf("%s: the member returned another object: %w", id, backend.ErrPermanent)
	}
	if obj.GetUID() == "" || obj.GetResourceVersion() == "" {
		return fmt.Errorf("%s: the member returned the object without uid or resourceVersion, so that no write of it can be guarded: %w", id, backend.ErrPermanent)
	}
	return nil
}

// Connections that nothing was done with for connIdle are closed, within
// connSweep.
const (
	connIdle  = 5 * time.Minute
	connSweep = time.Minute
)

// CloseIdle closes connections that are idle, until ctx ends.
func (c *Conns) CloseIdle(ctx context.Context) {
	tick := time.NewTicker(connSweep)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.evictIdle(connIdle)
		case <-ctx.Done():
			return
		}
	}
}

// Reopen lets connections be dialled again after Close.
func (c *Conns) Reopen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = false
}

// The waits of a worker between tries of a cluster that cannot be reached.
const (
	ReachFirst = 200 * time.Millisecond
	ReachMost  = 5 * time.Second
)
