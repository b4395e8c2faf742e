package faulty_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

var errFault = errors.New("fault")

// A scenario is run with a crash after each of its writes, and then again from
// the start, as a restarted process does.
func ExamplePlan_Crashed() {
	ctx := context.Background()
	scenario := func(s backend.Store) error {
		for _, key := range []string{"a", "b"} {
			_, err := s.Put(ctx, key, nil, "")
			if err != nil && !errors.Is(err, backend.ErrConflict) {
				return err
			}
		}
		return nil
	}
	for n := 1; ; n++ {
		store := memory.NewStore()
		plan := faulty.NewPlan(faulty.CrashAfter(n))
		crash := scenario(plan.Store(store))
		left := store.Len()
		fmt.Printf("%v, %d written; restarted: %v, %d written\n", crash, left, scenario(store), store.Len())
		if !plan.Crashed() {
			break
		}
	}
	// Output:
	// put a: the process crashed, 1 written; restarted: <nil>, 2 written
	// put b: the process crashed, 2 written; restarted: <nil>, 2 written
	// <nil>, 2 written; restarted: <nil>, 2 written
}

func TestAPlanWithoutRulesChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := placement.Cluster{Name: "a"}
		d := faulty.NewPlan().Dialer(memory.NewFleet(a))
		err := errors.Join(
			backendtest.CheckStore(t.Context(), func() (backend.Store, error) { return faulty.NewPlan().Store(memory.NewStore()), nil }),
			backendtest.CheckDialer(t.Context(), d, a),
			backendtest.CheckConn(t.Context(), func() (backend.Conn, error) { return d.Dial(t.Context(), a) }))
		if err != nil {
			t.Error(err)
		}
	})
}

func TestFaultsBeforeAndAfterTheEffect(t *testing.T) {
	for name, tc := range map[string]struct {
		rule    faulty.Rule
		err     error
		written int
	}{
		"before":             {faulty.NthWrite(2, faulty.Before(errFault)), errFault, 2},
		"after":              {faulty.NthWrite(2, faulty.After(errFault)), errFault, 3},
		"nth call":           {faulty.Nth(2, faulty.Before(errFault)), errFault, 2},
		"by key":             {faulty.On(func(c faulty.Call) bool { return c.Key == "b" }, faulty.Before(errFault)), errFault, 2},
		"crash before":       {faulty.CrashBefore(2), faulty.ErrCrashed, 1},
		"crash after":        {faulty.CrashAfter(2), faulty.ErrCrashed, 2},
		"beyond the last":    {faulty.CrashAfter(4), nil, 3},
		"another rule first": {faulty.NthWrite(9, faulty.Before(errFault)), nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inner := memory.NewStore()
			plan := faulty.NewPlan(tc.rule)
			s := plan.Store(inner)
			var errs []error
			for _, key := range []string{"a", "b", "c"} {
				_, err := s.Put(t.Context(), key, nil, "")
				errs = append(errs, err)
			}
			if err := errors.Join(errs...); !errors.Is(err, tc.err) {
				t.Errorf("got %v, want %v", err, tc.err)
			}
			if inner.Len() != tc.written {
				t.Errorf("%d keys are written, want %d", inner.Len(), tc.written)
			}
		})
	}
}

func TestCallsAreDescribed(t *testing.T) {
	var got []faulty.Call
	plan := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
		got = append(got, c)
		return faulty.Fault{}
	})
	ctx := t.Context()
	s := plan.Store(memory.NewStore())
	revision, _ := s.Put(ctx, "a", nil, "")
	_, _ = s.Get(ctx, "a")
	for range s.List(ctx, "x") {
		t.Error("something is listed")
	}
	_ = s.Delete(ctx, "a", revision)
	conn, err := plan.Dialer(memory.NewFleet(placement.Cluster{Name: "east"})).Dial(ctx, placement.Cluster{Name: "east"})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Apply(ctx, configMap(), backend.ApplyOptions{Manager: "m"})
	want := []faulty.Call{
		{Op: "put", Key: "a", N: 1, Write: 1},
		{Op: "get", Key: "a", N: 2},
		{Op: "list", Key: "x", N: 3},
		{Op: "delete", Key: "a", N: 4, Write: 2},
		{Op: "dial", Key: "east", N: 5},
		{Op: "apply", Key: "east/ConfigMap/default/a", N: 6, Write: 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if plan.Calls() != 6 || plan.Writes() != 3 {
		t.Errorf("%d calls and %d writes", plan.Calls(), plan.Writes())
	}
}

func configMap() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"},
	}}
}

func TestACrashStopsStoresConnectionsAndWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		plan := faulty.NewPlan(faulty.CrashAfter(1))
		cluster := memory.NewCluster("east")
		conn := plan.Conn(cluster.Conn(), "east")
		store := plan.Store(memory.NewStore())
		ends := make(chan error, 2)
		go func() { ends <- lastError(backend.Watch(ctx, store, "", 0)) }()
		go func() { ends <- lastError(backend.WatchConn(ctx, conn, []snapshot.ID{{Kind: "ConfigMap"}}, 0)) }()
		synctest.Wait()

		_, applied := conn.Apply(ctx, configMap(), backend.ApplyOptions{Manager: "m"})
		_, put := store.Put(ctx, "a", nil, "")
		for _, err := range []error{applied, put, <-ends, <-ends} {
			if !errors.Is(err, faulty.ErrCrashed) {
				t.Errorf("got %v, want ErrCrashed", err)
			}
		}
		if cluster.Len() != 3 {
			t.Error("the write before the crash is lost")
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A late write fails now, and takes effect after a delay or before a later call, if its
// precondition still holds then.
func TestLateWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		fault  faulty.Fault
		landed []bool // after each of four reads, 100 ms apart
	}{
		"before the next call":     {faulty.LateCalls(errFault, 0), []bool{true, true, true, true}},
		"before the third call":    {faulty.LateCalls(errFault, 3), []bool{false, false, true, true}},
		"after a delay":            {faulty.Late(errFault, 250*time.Millisecond), []bool{false, false, true, true}},
		"a delay before the error": {faulty.Fault{Delay: time.Second, Late: errFault, LateCalls: 2}, []bool{false, true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := faulty.NewPlan(faulty.NthWrite(1, tc.fault)).Store(memory.NewStore())
				ctx, cancel := context.WithCancel(t.Context())
				value := []byte("late")
				if _, err := s.Put(ctx, "a", value, ""); !errors.Is(err, errFault) {
					t.Errorf("the late put: %v", err)
				}
				cancel()
				copy(value, "gone") // it is the caller's
				var landed []bool
				for range tc.landed {
					time.Sleep(100 * time.Millisecond)
					r, err := s.Get(t.Context(), "a")
					landed = append(landed, err == nil && string(r.Value) == "late")
				}
				if diff := cmp.Diff(tc.landed, landed); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestLateWritesKeepTheirPreconditions(t *testing.T) {
	ctx := t.Context()
	late := faulty.LateCalls(errFault, 2)
	inner := memory.NewStore()
	s := faulty.NewPlan(faulty.NthWrite(1, late), faulty.NthWrite(3, late)).Store(inner)
	_, first := s.Put(ctx, "a", []byte("late"), "")
	revision, second := s.Put(ctx, "a", []byte("now"), "")
	deleted := s.Delete(ctx, "a", revision)
	if !errors.Is(first, errFault) || second != nil || !errors.Is(deleted, errFault) {
		t.Errorf("put %v, put %v, delete %v", first, second, deleted)
	}
	if r, err := inner.Get(ctx, "a"); err != nil || string(r.Value) != "now" {
		t.Errorf("%q, %v: the late put came although the key existed by then, or the late delete at once", r.Value, err)
	}
	for range 2 {
		_, _ = s.Get(ctx, "b")
	}
	if inner.Len() != 0 {
		t.Error("the late delete did not come")
	}
}

func TestLateWritesOfObjectsAndOtherCalls(t *testing.T) {
	ctx := t.Context()
	cluster := memory.NewCluster("east")
	before := cluster.Len()
	conn := faulty.NewPlan(faulty.Nth(1, faulty.LateCalls(nil, 1)), faulty.Nth(2, faulty.LateCalls(errFault, 1))).Conn(cluster.Conn(), "east")
	if _, err := conn.Apply(ctx, configMap(), backend.ApplyOptions{Manager: "m"}); err == nil || cluster.Len() != before {
		t.Errorf("the late apply: %v, %d objects", err, cluster.Len())
	}
	id := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}
	if _, err := conn.Get(ctx, id); !errors.Is(err, errFault) {
		t.Errorf("a call that changes nothing: %v", err)
	}
	if _, err := cluster.Get(id); err != nil {
		t.Errorf("the late apply did not come: %v", err)
	}
}

// lastError drains a sequence.
func lastError[T any](seq func(func(T, error) bool)) error {
	var last error
	seq(func(_ T, err error) bool {
		last = err
		return true
	})
	return last
}

func TestDelayAndHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := faulty.NewPlan(
			faulty.Nth(1, faulty.Fault{Delay: time.Minute}),
			faulty.Nth(2, faulty.Fault{Hang: true}),
			faulty.Nth(3, faulty.Fault{Hang: true}))
		inner := memory.NewStore()
		s := plan.Store(inner)
		start := time.Now()
		if _, err := s.Put(t.Context(), "a", nil, ""); err != nil || time.Since(start) != time.Minute {
			t.Errorf("the delayed put: %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := s.Put(ctx, "b", nil, ""); !errors.Is(err, context.DeadlineExceeded) || inner.Len() != 1 {
			t.Errorf("the hanging put: %v, %d keys", err, inner.Len())
		}
		go func() {
			time.Sleep(time.Minute)
			plan.Crash()
		}()
		if _, err := s.Put(t.Context(), "b", nil, ""); !errors.Is(err, faulty.ErrCrashed) {
			t.Errorf("the put that hangs during the crash: %v", err)
		}
	})
}

func TestFaultsInSequences(t *testing.T) {
	inner := memory.NewStore()
	for _, key := range []string{"a", "b"} {
		if _, err := inner.Put(t.Context(), key, nil, ""); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		fault faulty.Fault
		err   error
		n     int
	}{
		"before":       {faulty.Before(errFault), errFault, 0},
		"after":        {faulty.After(errFault), errFault, 1},
		"delay":        {faulty.Fault{Delay: time.Nanosecond}, nil, 2},
		"crash":        {faulty.Fault{Crash: true}, faulty.ErrCrashed, 0},
		"crash during": {faulty.Fault{Crash: true, After: errFault}, faulty.ErrCrashed, 1},
	} {
		n, last := 0, error(nil)
		for _, err := range faulty.NewPlan(faulty.Nth(1, tc.fault)).Store(inner).List(t.Context(), "") {
			if last = err; err == nil {
				n++
			}
		}
		if n != tc.n || !errors.Is(last, tc.err) {
			t.Errorf("%s: %d records, then %v", name, n, last)
		}
	}
}

// during crashes the process while a put is carried out.
type during struct {
	backend.Store
	plan *faulty.Plan
}

func (d during) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	d.plan.Crash()
	return d.Store.Put(ctx, key, value, prev)
}

func TestACallInFlightDoesNotSurviveTheCrash(t *testing.T) {
	plan := faulty.NewPlan()
	inner := memory.NewStore()
	if _, err := plan.Store(during{inner, plan}).Put(t.Context(), "a", nil, ""); !errors.Is(err, faulty.ErrCrashed) {
		t.Errorf("got %v, want ErrCrashed", err)
	}
	if inner.Len() != 1 {
		t.Error("the call was not carried out")
	}
}

func TestWrappersKeepOptionalInterfaces(t *testing.T) {
	plan := faulty.NewPlan()
	_, watches := plan.Store(memory.NewStore()).(backend.Watcher)
	_, pretends := plan.Store(struct{ backend.Store }{memory.NewStore()}).(backend.Watcher)
	if !watches || pretends {
		t.Errorf("a watcher watches: %v, another store pretends to: %v", watches, pretends)
	}
	conn := memory.NewCluster("a").Conn()
	_, watches = plan.Conn(conn, "a").(backend.ConnWatcher)
	_, pretends = plan.Conn(struct{ backend.Conn }{conn}, "a").(backend.ConnWatcher)
	if !watches || pretends {
		t.Errorf("a conn watcher watches: %v, another conn pretends to: %v", watches, pretends)
	}
	heeds, ignores := backend.FencingOf(plan.Conn(conn, "a")), backend.FencingOf(plan.Conn(struct{ backend.Conn }{conn}, "a"))
	if heeds != backend.FencingAtomic || ignores != backend.FencingNone {
		t.Errorf("the fencing of a fencer is %v, of another conn %v", heeds, ignores)
	}
}

func TestADialThatFailsAfterwardsClosesTheConnection(t *testing.T) {
	closed := &closing{}
	d := backend.DialerFunc(func(context.Context, placement.Cluster) (backend.Conn, error) { return closed, nil })
	_, err := faulty.NewPlan(faulty.Nth(1, faulty.After(nil))).Dialer(d).Dial(t.Context(), placement.Cluster{Name: "a"})
	if err == nil || !closed.done {
		t.Errorf("error %v, closed %v", err, closed.done)
	}
}

type closing struct {
	backend.Conn
	done bool
}

func (c *closing) Close() error {
	c.done = true
	return nil
}
