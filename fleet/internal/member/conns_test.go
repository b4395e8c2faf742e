package member

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// TestT23RoguePluginsOfAnUpdate covers threat T23: if any plug-in of an update panics or hangs, the
// update ends with an error, and the next update does the rest.
func TestT23RoguePluginsOfAnUpdate(t *testing.T) {
	for _, role := range []string{"dial", "get", "apply", "delete", "probe"} {
		for _, hangs := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				k := newKit(t)
				k.place("A", 1, "r0")
				wake := make(chan struct{})
				rogue := func(at string) {
					if at == role && hangs {
						<-wake
					}
					if at == role {
						panic("rogue")
					}
				}
				u := k.leaderOf(backend.DialerFunc(func(context.Context, placement.Cluster) (backend.Conn, error) {
					rogue("dial")
					return &hookedConn{k.member.Conn(), func(op string, _ snapshot.ID) { rogue(op) }}, nil
				}))
				u.probes.prober = health.ProberFunc(func(context.Context, *unstructured.Unstructured) (health.Status, error) {
					rogue("probe")
					return health.Status{Healthy: true}, nil
				})
				want := backend.ErrPermanent
				if hangs {
					want = context.DeadlineExceeded
				}
				_, err := u.Update(t.Context(), k.want("B", 2, "r1"))
				if !errors.Is(err, want) || !strings.Contains(err.Error(), "c1") {
					t.Errorf("%s, hangs %v: %v", role, hangs, err)
				}
				close(wake)
				synctest.Wait()
				k.must(k.leader(nil), k.want("B", 3, "r1"))
				wantObjects(t, k, k.expected("B", false))
			})
		}
	}
}

// countingDialer counts dials and closes.
type countingDialer struct {
	member        *memory.Cluster
	dials, closes atomic.Int32
	fail          error
	wait          chan struct{}
}

type countedConn struct {
	backend.Conn
	d *countingDialer
}

func (c *countedConn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	if c.d.fail != nil {
		return nil, c.d.fail
	}
	return c.Conn.Get(ctx, id)
}

func (c *countedConn) Close() error {
	c.d.closes.Add(1)
	return c.Conn.Close()
}

func (d *countingDialer) Dial(ctx context.Context, _ placement.Cluster) (backend.Conn, error) {
	d.dials.Add(1)
	if d.wait != nil {
		select {
		case <-d.wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &countedConn{d.member.Conn(), d}, nil
}

func TestOneConnectionToACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &countingDialer{member: memory.NewCluster("c1"), wait: make(chan struct{})}
		c := NewConns(d, 0)
		ends := make(chan *memberConn, 100)
		for range 100 {
			go func() {
				m, err := c.get(t.Context(), placement.Cluster{Name: "c1", UID: "1"})
				if err != nil {
					t.Error(err)
				}
				ends <- m
			}()
		}
		synctest.Wait()
		close(d.wait)
		first := <-ends
		for range 99 {
			if <-ends != first {
				t.Error("two connections to one cluster")
			}
		}
		if n := d.dials.Load(); n != 1 {
			t.Errorf("%d dials", n)
		}
		if again, err := c.get(t.Context(), placement.Cluster{Name: "c1", UID: "2"}); err != nil || again == first {
			t.Errorf("a cluster that was made again keeps the connection of the old one: %v", err)
		}
		c.Close()
		if n := d.closes.Load(); n != 2 {
			t.Errorf("%d of 2 connections were closed", n)
		}
		if _, err := c.get(t.Context(), placement.Cluster{Name: "c1"}); !errors.Is(err, errConnsClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestDeadConnectionIsReplaced checks that a connection is replaced after three calls in a row
// without an answer, and at once if its credentials are not accepted.
func TestDeadConnectionIsReplaced(t *testing.T) {
	d := &countingDialer{member: memory.NewCluster("c1")}
	c := NewConns(d, 0)
	cluster, id := placement.Cluster{Name: "c1"}, configMapID("default", "a")
	reset, busy := errors.New("connection reset"), apierrors.NewTooManyRequestsError("busy")
	for _, step := range []struct {
		fail  error
		dials int32
	}{
		{nil, 1},
		{backend.ErrPermanent, 1},
		{reset, 1},
		{reset, 1},
		{nil, 1},
		{reset, 1},
		{reset, 1},
		{busy, 1},
		{busy, 1},
		{busy, 1},
		{busy, 1},
		{reset, 1},
		{reset, 1},
		{reset, 1},
		{nil, 2},
		{apierrors.NewUnauthorized("expired"), 2},
		{nil, 3},
		{nil, 3},
	} {
		d.fail = step.fail
		m, err := c.get(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.get(t.Context(), id); !errors.Is(err, step.fail) {
			t.Errorf("%v, want %v", err, step.fail)
		}
		if n := d.dials.Load(); n != step.dials {
			t.Errorf("after %v: %d dials, want %d", step.fail, n, step.dials)
		}
	}
	c.Close()
	if n := d.closes.Load(); n != 3 {
		t.Errorf("%d of 3 connections were closed", n)
	}
}

// TestDialGivenUpByAnother checks that a caller which waits for the dial of another caller does not
// fail if that caller's context ends.
func TestDialGivenUpByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &countingDialer{member: memory.NewCluster("c1"), wait: make(chan struct{})}
		c := NewConns(d, 0)
		ctx, cancel := context.WithCancel(t.Context())
		impatient, patient := make(chan error, 1), make(chan error, 1)
		dial := func(ctx context.Context, to chan<- error) {
			_, err := c.get(ctx, placement.Cluster{Name: "c1"})
			to <- err
		}
		go dial(ctx, impatient)
		synctest.Wait()
		go dial(t.Context(), patient)
		synctest.Wait()
		cancel()
		if err := <-impatient; !errors.Is(err, context.Canceled) {
			t.Errorf("impatient: %v", err)
		}
		synctest.Wait()
		close(d.wait)
		if err := <-patient; err != nil {
			t.Errorf("patient: %v", err)
		}
		c.Close()
	})
}
