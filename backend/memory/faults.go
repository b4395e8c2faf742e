package memory

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// errDown is what a member that is cut off answers: a transient error.
var errDown = errors.New("the cluster cannot be reached")

// faults is the fault state of a member.
type faults struct {
	mu    sync.Mutex
	delay func() time.Duration
	down  bool
	hang  chan struct{}                         // closed when the member no longer hangs; nil if it does not
	cut   map[*context.CancelCauseFunc]struct{} // ends the watches
}

// SetDelay makes every call of a connection to the member wait for what delay
// returns before it does anything; the wait ends with the call's context. nil
// ends the delay. delay may be called concurrently. A name that is not in the
// fleet is ignored, here and below.
func (f *Fleet) SetDelay(name string, delay func() time.Duration) {
	f.change(name, func(x *faults) { x.delay = delay })
}

// SetDown cuts the member off, or brings it back. While it is down Dial and
// every call fail with a transient error; watches end with it.
func (f *Fleet) SetDown(name string, down bool) {
	f.change(name, func(x *faults) {
		x.down = down
		if down {
			x.cutAll()
		}
	})
}

// Hang makes Dial and every call block until their context ends, or ends that for later calls. Watches stay
// silent while the member hangs, and deliver the missed changes afterwards.
func (f *Fleet) Hang(name string, hang bool) {
	f.change(name, func(x *faults) {
		switch {
		case hang && x.hang == nil:
			x.hang = make(chan struct{})
		case !hang && x.hang != nil:
			close(x.hang)
			x.hang = nil
		}
	})
}

func (f *Fleet) change(name string, set func(*faults)) {
	m := f.member(name)
	if m == nil {
		return
	}
	m.faults.mu.Lock()
	defer m.faults.mu.Unlock()
	set(&m.faults)
}

// pass waits as the faults of the member demand, and returns nil if the call may go on.
func (x *faults) pass(ctx context.Context) error {
	x.mu.Lock()
	delay, down, hangs := x.delay, x.down, x.hang != nil
	x.mu.Unlock()
	switch {
	case down:
		return errDown
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	case delay != nil:
		return sleep(ctx, delay())
	}
	return ctx.Err()
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// resume waits until the member no longer hangs, then as pass does.
func (x *faults) resume(ctx context.Context) error {
	x.mu.Lock()
	hang := x.hang
	x.mu.Unlock()
	if hang != nil {
		if err := await(ctx, hang); err != nil {
			return err
		}
	}
	return x.pass(ctx)
}

// attach returns a context that ends when the member is cut off.
func (x *faults) attach(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cut == nil {
		x.cut = map[*context.CancelCauseFunc]struct{}{}
	}
	x.cut[&cancel] = struct{}{}
	if x.down {
		cancel(errDown)
	}
	return ctx, func() { x.detach(&cancel) }
}

func (x *faults) detach(cancel *context.CancelCauseFunc) {
	(*cancel)(nil)
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.cut, cancel)
}

// cutAll ends the watches. The lock is held.
func (x *faults) cutAll() {
	for cancel := range x.cut {
		(*cancel)(errDown)
	}
}

// memberConn is a connection to a member of a fleet, with its faults.
type memberConn struct {
	name   string
	faults *faults
	conn   conn
}

var (
	_ backend.ConnWatcher   = (*memberConn)(nil)
	_ backend.ConnDryRunner = (*memberConn)(nil)
	_ backend.ConnFencer    = (*memberConn)(nil)
)

func (m *memberConn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	if err := m.faults.pass(ctx); err != nil {
		return nil, failed("get", m.name, err)
	}
	return m.conn.Get(ctx, id)
}

func (m *memberConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if err := m.faults.pass(ctx); err != nil {
		return nil, failed("apply", m.name, err)
	}
	return m.conn.Apply(ctx, obj, o)
}

func (m *memberConn) DryRun(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if err := m.faults.pass(ctx); err != nil {
		return nil, failed("dry run", m.name, err)
	}
	return m.conn.DryRun(ctx, obj, o)
}

func (m *memberConn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	if err := m.faults.pass(ctx); err != nil {
		return failed("delete", m.name, err)
	}
	return m.conn.Delete(ctx, id, o)
}

func (m *memberConn) Fencing() backend.Fencing { return m.conn.Fencing() }

func (m *memberConn) Close() error { return m.conn.Close() }

func (m *memberConn) Watch(ctx context.Context, ids []snapshot.ID) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		attached, release := m.faults.attach(ctx)
		defer release()
		for _, err := range m.conn.Watch(attached, ids) {
			if err == nil {
				err = m.faults.resume(attached)
			}
			if err != nil {
				yield(struct{}{}, m.watchError(ctx, attached, err))
				return
			}
			if !yield(struct{}{}, nil) {
				return
			}
		}
	}
}

// watchError returns why a watch ended: because of the caller, or the member.
func (m *memberConn) watchError(ctx, attached context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if cause := context.Cause(attached); cause != nil {
		err = cause
	}
	return failed("watch", m.name, err)
}
