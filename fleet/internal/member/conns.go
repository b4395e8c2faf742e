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

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/lenient"
	"github.com/slipway-dev/slipway/internal/flight"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// errConnsClosed is returned after Close.
var errConnsClosed = errors.New("the connections are closed")

// Conns keeps one connection to each cluster that is in use. A cluster that was created again under
// the same name gets a new connection. Every call passes through the guard, and every answer of a
// member is checked.
type Conns struct {
	dialer backend.Dialer
	guard  *guard.Guard

	dials flight.Group[*memberConn]

	mu      sync.Mutex
	open    map[string]*memberConn // by the name of the cluster
	closed  bool
	closing sync.WaitGroup // dials, and connections that are being closed
}

// NewConns returns connections that d opens; each call is limited to timeout.
func NewConns(d backend.Dialer, timeout time.Duration) *Conns {
	return &Conns{dialer: d, guard: guard.New(timeout), open: map[string]*memberConn{}}
}

// get returns the connection to a cluster. Concurrent calls for the same cluster share one dial; a
// failed dial is not remembered.
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

// find returns the open connection to a cluster, or nil if there is none. If the caller then dials,
// Close waits until the caller calls closing.Done.
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
		c.discard(other) // another UID was dialed concurrently
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

// evictIdle closes the connections that were not used for d.
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

// Close closes all connections. It waits until they are closed, or left behind by the guard, and
// until no dial is under way.
func (c *Conns) Close() {
	c.mu.Lock()
	c.closed = true
	for _, m := range c.open {
		c.discard(m)
	}
	c.mu.Unlock()
	c.closing.Wait()
}

// memberConn is a connection to a member behind the guard. Answers of a member are not trusted: a
// returned object must be the requested one, and must have the uid and resourceVersion that guard
// later writes.
type memberConn struct {
	name, uid string
	conn      backend.Conn
	guard     *guard.Guard
	broken    func()
	// used is the time of the last call in Unix nanoseconds; watches counts the open watches.
	used, watches atomic.Int64
	// lost counts consecutive calls that the member did not answer.
	lost    atomic.Int64
	ledgers ledgerCache
}

func (m *memberConn) use() { m.used.Store(time.Now().UnixNano()) }

// idle reports whether the connection was not used for d.
func (m *memberConn) idle(d time.Duration) bool {
	return m.watches.Load() == 0 && time.Since(time.Unix(0, m.used.Load())) >= d
}

// get returns the object that id names, or nil if there is none.
func (m *memberConn) get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	obj, err := m.show(ctx, id)
	if errors.Is(err, backend.ErrNoSuchKind) {
		return nil, nil
	}
	return obj, err
}

// show is get, except that it returns an error that matches ErrNoSuchKind if the cluster cannot
// have such an object.
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

// dryRun returns the result of a dry run of an apply.
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

// lostMost is the number of unanswered calls in a row after which a connection counts as dead.
// Then all watches of the member end, too.
const lostMost = 3

// note names the cluster in an error. It drops the connection if it looks dead, or if its
// credentials are no longer accepted, because the next connection may have other credentials. A
// connection is alive if the member answers, even if the answer is that the member is too busy.
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

// A connection is closed once it was unused for connIdle; connSweep is the interval of the
// checks.
const (
	connIdle  = 5 * time.Minute
	connSweep = time.Minute
)

// CloseIdle closes idle connections until ctx ends.
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

// Reopen allows dials again after Close.
func (c *Conns) Reopen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = false
}

// ReachFirst and ReachMost are a worker's first and longest wait between tries of an unreachable
// cluster.
const (
	ReachFirst = 200 * time.Millisecond
	ReachMost  = 5 * time.Second
)

// applyAs applies an object, for real or as a dry run, through write. With apply.ClientSide it
// drops the parts that kubectl accepts and the API server refuses, and returns their paths, see
// package lenient.
func applyAs(s *apply.Strategy, obj *unstructured.Unstructured, write func(*unstructured.Unstructured) (*unstructured.Unstructured, error)) (live *unstructured.Unstructured, dropped []string, err error) {
	if s.Type != apply.ClientSide {
		live, err = write(obj)
		return live, nil, err
	}
	return lenient.Apply(obj, write)
}
