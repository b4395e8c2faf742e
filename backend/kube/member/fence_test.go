package member_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// fencedConn returns a connection to a server that has the policies.
func fencedConn(t *testing.T, s *kubeenv.Server) backend.Conn {
	t.Helper()
	c, err := member.NewConn(s.Config(), member.Options{Fenced: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestConnsToMembersWithTheFenceKeepTheContract(t *testing.T) {
	s := clusters.Server(t, "two")
	installFence(t, connTo(t, s))
	backendtest.TestConn(t, func(t *testing.T) backend.Conn { return fencedConn(t, s) })
}

// sentCreation is a creation that a leader has sent and that has not arrived.
type sentCreation struct {
	name    string
	arrived chan struct{} // at the test
	release chan struct{}
	ended   chan error
	conn    backend.Conn
	obj     *unstructured.Unstructured
	options backend.ApplyOptions
}

func newSentCreation(name string) *sentCreation {
	return &sentCreation{name: name, arrived: make(chan struct{}), release: make(chan struct{}), ended: make(chan error, 1)}
}

// dialer returns connections that delay the creation, even after its caller has stopped waiting.
func (s *sentCreation) dialer(d backend.Dialer) backend.Dialer {
	return backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
		conn, err := d.Dial(ctx, c)
		if err != nil {
			return nil, err
		}
		return &sendingConn{conn.(backend.ConnWatcher), s}, nil
	})
}

type sendingConn struct {
	backend.ConnWatcher
	s *sentCreation
}

// Close keeps the connection open for the request in transit.
func (c *sendingConn) Close() error { return nil }

func (c *sendingConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if obj.GetName() != c.s.name || !o.Absent {
		return c.ConnWatcher.Apply(ctx, obj, o)
	}
	c.s.conn, c.s.obj, c.s.options = c.ConnWatcher, obj, o
	close(c.s.arrived)
	<-c.s.release
	got, err := c.ConnWatcher.Apply(context.WithoutCancel(ctx), obj, o)
	c.s.ended <- err
	return got, err
}

// late lets an engine send the creation of an object. Another engine takes over its run and
// removes the object. Then the creation arrives, and late returns its error. It calls ready
// before the arrival.
func (s *sentCreation) late(t *testing.T, r *kubeenv.Server, ns string, fenced bool, ready func()) (*rollout, error) {
	t.Helper()
	dialer := member.NewDialer(configOf(r.Config()), member.Options{Fenced: fenced})
	cfg := fleet.Config{Name: "old", Store: memory.NewStore(), Dialer: s.dialer(dialer), Lease: 3 * time.Second, CallTimeout: 2 * time.Second, Skew: 500 * time.Millisecond}
	member := placement.Cluster{Name: "one"}
	old := newRolloutOver(t, ns, cfg, member)
	cfg.Name, cfg.Dialer = "new", dialer
	next := newRolloutOver(t, ns, cfg, member)
	old.put(configMap(ns, "a"), configMap(ns, "b"))
	end := old.start()
	old.begin("first")
	<-s.arrived
	end()
	next.start()
	if status := next.wait("first"); status.Run.State != stages.Completed {
		t.Fatalf("the run is %s", status.Run.State)
	}
	next.put(configMap(ns, "a", "v", "2"))
	next.run("second")
	if _, err := connTo(t, r).Get(t.Context(), snapshot.IDOf(configMap(ns, "b"))); !errors.Is(err, backend.ErrNotFound) {
		t.Fatalf("the object is to be gone: %v", err)
	}
	ready()
	close(s.release)
	return next, <-s.ended
}

// TestT16ALateCreationIsRefusedByTheFence is about a case that no precondition prevents: the
// newer leader has removed an object, and an older leader, which was paused right before its
// creation, creates it.
func TestT16ALateCreationIsRefusedByTheFence(t *testing.T) {
	s := clusters.Server(t, "two")
	c, ns := connTo(t, s), s.Namespace(t)
	installFence(t, c)
	sent := newSentCreation("b")
	_, err := sent.late(t, s, ns, true, func() {
		kubetest.Eventually(t, "the policies having seen the ledger", func() bool {
			_, err := backend.DryRun(t.Context(), sent.conn, sent.obj, sent.options)
			return errors.Is(err, backend.ErrFenced)
		})
	})
	if !errors.Is(err, backend.ErrFenced) || errors.Is(err, backend.ErrPermanent) {
		t.Errorf("the creation ended with %v, want that it is fenced", err)
	}
	if _, err := c.Get(t.Context(), snapshot.IDOf(configMap(ns, "b"))); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("the object is there: %v", err)
	}
}

// TestT16ALateCreationWithoutTheFence shows that without the fence a late creation takes effect,
// and that the next update removes the object.
func TestT16ALateCreationWithoutTheFence(t *testing.T) {
	s := clusters.Server(t, "one")
	c, ns := connTo(t, s), s.Namespace(t)
	next, err := newSentCreation("b").late(t, s, ns, false, func() {})
	if err != nil {
		t.Errorf("the creation: %v", err)
	}
	next.put(configMap(ns, "a", "v", "3"))
	next.run("third")
	if _, err := c.Get(t.Context(), snapshot.IDOf(configMap(ns, "b"))); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("the object is still there: %v", err)
	}
}

// TestTheMarkOfACreationIsNoDrift reads an object with the creation mark of its leader. The next
// change of the object removes the mark.
func TestTheMarkOfACreationIsNoDrift(t *testing.T) {
	s := clusters.Server(t, "two")
	c, ns := connTo(t, s), s.Namespace(t)
	dialer := member.NewDialer(configOf(s.Config()), member.Options{Fenced: true})
	r := newRolloutOver(t, ns, fleet.Config{Store: memory.NewStore(), Dialer: dialer}, placement.Cluster{Name: "one"})
	r.put(configMap(ns, "a", "v", "1"))
	r.start()
	r.run("first")
	created, err := c.Get(t.Context(), snapshot.IDOf(configMap(ns, "a")))
	if err != nil || created.GetAnnotations()["epoch.slipway.dev/"+ns] == "" || created.GetLabels()["slipway.dev/applied"] == "" {
		t.Fatalf("it carries no mark, or no label: %v, %v", created, err)
	}
	for d, err := range r.engine.Placement(ns).Drift(t.Context(), fleet.DriftOptions{}) {
		if err != nil || len(d.Objects) > 0 || len(d.Problems) > 0 {
			t.Errorf("%+v, %v", d, err)
		}
	}
	r.run("again")
	same, err := c.Get(t.Context(), snapshot.IDOf(created))
	if err != nil || same.GetResourceVersion() != created.GetResourceVersion() {
		t.Errorf("it was written again: %v, %v", same, err)
	}
	r.put(configMap(ns, "a", "v", "2"))
	r.run("second")
	changed, err := c.Get(t.Context(), snapshot.IDOf(created))
	if err != nil || changed.GetAnnotations()["epoch.slipway.dev/"+ns] != "" {
		t.Errorf("it still carries the mark: %v, %v", changed, err)
	}
}
