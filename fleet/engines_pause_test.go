package fleet_test

import (
	"context"
	"iter"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// pause stops a process at a call: it and all later ones block, whatever their
// contexts say, until the process wakes up.
type pause struct {
	at      int
	mu      sync.Mutex
	calls   int
	awake   bool
	held    chan struct{}
	release chan struct{}
	// late are the accepted writes to existing records after the process woke up.
	late []string
}

func newPause(at int) *pause {
	return &pause{at: at, held: make(chan struct{}), release: make(chan struct{})}
}

func (p *pause) pass() {
	p.mu.Lock()
	p.calls++
	if p.calls == p.at {
		close(p.held)
	}
	stop := p.calls >= p.at
	p.mu.Unlock()
	if stop {
		<-p.release
	}
}

func (p *pause) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awake = true
	close(p.release)
}

func (p *pause) accepted(op, key string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.awake && err == nil {
		p.late = append(p.late, op+" "+key)
	}
}

type pausedStore struct {
	backend.Watcher
	p *pause
}

func (s *pausedStore) Get(ctx context.Context, key string) (backend.Record, error) {
	s.p.pass()
	return s.Watcher.Get(ctx, key)
}

// A write reaches the store even if its caller no longer waits for it.
func (s *pausedStore) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	s.p.pass()
	rev, err := s.Watcher.Put(context.WithoutCancel(ctx), key, value, prev)
	if prev != "" {
		s.p.accepted("put", key, err)
	}
	return rev, err
}

func (s *pausedStore) Delete(ctx context.Context, key string, prev backend.Revision) error {
	s.p.pass()
	err := s.Watcher.Delete(context.WithoutCancel(ctx), key, prev)
	s.p.accepted("delete", key, err)
	return err
}

func (s *pausedStore) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	s.p.pass()
	return s.Watcher.List(ctx, prefix)
}

func (p *pause) dialer(d backend.Dialer) backend.Dialer {
	return backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
		p.pass()
		conn, err := d.Dial(ctx, c)
		if err != nil {
			return nil, err
		}
		return &pausedConn{conn.(backend.ConnWatcher), p}, nil
	})
}

type pausedConn struct {
	backend.ConnWatcher
	p *pause
}

func (c *pausedConn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	c.p.pass()
	return c.ConnWatcher.Get(ctx, id)
}

func (c *pausedConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	c.p.pass()
	return c.ConnWatcher.Apply(context.WithoutCancel(ctx), obj, o)
}

func (c *pausedConn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	c.p.pass()
	return c.ConnWatcher.Delete(context.WithoutCancel(ctx), id, o)
}
