package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// TestEnginesWithSkewedClocks: three engines complete all runs, although two have clocks that
// are wrong by more than the lease and the skew, and one is killed; no update happens twice.
func TestEnginesWithSkewedClocks(t *testing.T) {
	c := newCrew(t, 5)
	c.apart = true
	names := c.declare(9, time.Second)
	c.start("right")
	c.start("ahead", engineClock+"=20s")
	c.start("behind", engineClock+"=-20s")
	time.Sleep(2 * time.Second)
	c.kill("right")
	c.hold(names)
}

// span is the interval of an update or of a run.
type span struct {
	what   string
	begins time.Time
	ends   time.Time
}

// spans returns the intervals between two kinds of events, grouped by the result of the function
// of.
func (c *crew) spans(begin, end stages.EventType, of func(stages.Event) string) []span {
	c.t.Helper()
	f, err := c.host.Follow("")
	if err != nil {
		c.t.Fatal(err)
	}
	open := map[string]time.Time{}
	var out []span
	for e, err := range f.Past(c.t.Context()) {
		if err != nil {
			c.t.Fatal(err)
		}
		switch key := of(e); e.Type {
		case begin:
			open[key] = e.Time
		case end:
			out = append(out, span{key, open[key], e.Time})
		default:
		}
	}
	return out
}

// most returns the maximum number of simultaneous spans. A span that ends at the start of another
// one does not overlap it.
func most(all []span) (n int) {
	for _, s := range all {
		at := 0
		for _, other := range all {
			if !other.begins.After(s.begins) && other.ends.After(s.begins) {
				at++
			}
		}
		n = max(n, at)
	}
	return n
}

// create creates a run of a placement on all clusters, one after the other, or with all all at
// once.
func (c *crew) create(name, placement, limit string, all bool) {
	c.t.Helper()
	stage := stages.Stage{Name: "all", Selector: &metav1.LabelSelector{}}
	if all {
		everything := intstr.FromString("100%")
		stage.MaxConcurrency = &everything
	}
	_, err := c.host.CreateRun(c.t.Context(), fleet.RunSpec{Name: name, Placement: placement, Strategy: stages.Strategy{Cap: limit, Stages: []stages.Stage{stage}}})
	if err != nil {
		c.t.Fatal(err)
	}
}

// slow has every call to a cluster take a while.
func (c *crew) slow(d time.Duration) {
	for cl := range c.fleet.Clusters(c.t.Context()) {
		c.fleet.SetDelay(cl.Name, func() time.Duration { return d })
	}
}

// TestRunsOfSeveralProcessesShareACap: however many engines drive the runs, no more clusters are
// in flight together than the cap says, and it is used up.
func TestRunsOfSeveralProcessesShareACap(t *testing.T) {
	const limit = 3
	c := newCrew(t, 6)
	c.slow(50 * time.Millisecond)
	if err := c.host.SetCap(t.Context(), "database", limit); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		c.place(i, metav1.LabelSelector{}, apply.Strategy{})
		c.create(fmt.Sprint("b", i), fmt.Sprint("b", i), "database", true)
	}
	for i := range 3 {
		c.start(fmt.Sprint("engine-", i))
	}
	for i := range 6 {
		c.completes(fmt.Sprint("b", i))
	}
	flights := c.spans(stages.ClusterStarted, stages.ClusterCompleted, func(e stages.Event) string { return e.Run + "/" + e.Cluster })
	if n := most(flights); n != limit || len(flights) != 36 {
		t.Errorf("up to %d of %d clusters were in flight together, and %d may be", n, len(flights), limit)
	}
}

// TestQueueOrderAcrossProcesses: runs of one placement are driven one after the other,
// in the order of their creation, by any engine.
func TestQueueOrderAcrossProcesses(t *testing.T) {
	c := newCrew(t, 3)
	c.slow(20 * time.Millisecond)
	for i := range 3 {
		c.start(fmt.Sprint("engine-", i))
	}
	var names []string
	for i := range 3 {
		c.place(i, metav1.LabelSelector{}, apply.Strategy{})
		for n := range 4 {
			name := fmt.Sprintf("b%d-%d", i, n)
			c.create(name, fmt.Sprint("b", i), "", false)
			names = append(names, name)
		}
	}
	for _, name := range names {
		c.completes(name)
	}
	for i := range 3 {
		place := fmt.Sprint("b", i)
		var runs []span
		for _, s := range c.spans(stages.RunStarted, stages.RunCompleted, func(e stages.Event) string { return e.Run }) {
			if s.what[:2] == place {
				runs = append(runs, s)
			}
		}
		slices.SortFunc(runs, func(a, b span) int { return a.begins.Compare(b.begins) })
		if n := most(runs); n != 1 || len(runs) != 4 {
			t.Errorf("placement %s: %d of %d runs went on together", place, n, len(runs))
		}
		for n, s := range runs {
			if s.what != fmt.Sprintf("b%d-%d", i, n) {
				t.Errorf("placement %s: run %s was number %d", place, s.what, n)
			}
		}
	}
}

// completes waits until a run is over, and fails the test unless it is Completed.
func (c *crew) completes(run string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 3*time.Minute)
	defer cancel()
	if s, err := c.host.Run(run).Wait(ctx); err != nil || s.Run.State != stages.Completed {
		c.t.Fatalf("run %s is %s (%s), %v", run, s.Run.State, s.Run.Reason, err)
	}
}

// TestDriftIsRestoredByOneOfSeveralEngines: a change on a cluster is reverted once and reported
// once; when the watching engine ends, another one takes over.
func TestDriftIsRestoredByOneOfSeveralEngines(t *testing.T) {
	c := newCrew(t, 1)
	c.place(0, metav1.LabelSelector{}, apply.Strategy{WhenToApply: apply.Always})
	ends := map[string]func(){}
	for _, name := range []string{"one", "two", "three"} {
		s := open(t, shared.DSN(), postgres.Options{Schema: c.schema})
		e, err := fleet.New(fleet.Config{Store: s, Inventory: c.fleet, Dialer: c.fleet, Name: name, Lease: enginesLease, Skew: enginesSkew})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = e.Start(ctx)
		}()
		ends[name] = func() { cancel(); <-done }
		t.Cleanup(ends[name])
	}
	c.create("b0", "b0", "", false)
	c.completes("b0")
	settings := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "b0", Name: "settings"}
	value := func() string {
		obj, err := c.fleet.Cluster("c000").Get(settings)
		if err != nil {
			t.Fatal(err)
		}
		data, _, _ := unstructured.NestedString(obj.Object, "data", "key")
		return data
	}
	for n, who := range []string{"first", "second"} {
		edit(t, c.fleet, settings, who)
		eventually(t, "the value of the placement", func() bool { return value() == "b0" })
		time.Sleep(time.Second) // wait for a possible second restoration
		var by []string
		f, err := c.host.Follow("")
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range f.Past(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == stages.DriftCorrected {
				by = append(by, e.Cluster)
			}
		}
		if len(by) != n+1 {
			t.Errorf("after the %s change drift was put back %d times", who, len(by))
		}
		lease, err := c.store.Get(t.Context(), "watch/b0")
		if err != nil {
			t.Fatal(err)
		}
		for name, end := range ends {
			if strings.Contains(string(lease.Value), `"`+name+`"`) {
				end()
			}
		}
	}
}

// edit changes the ConfigMap of a cluster, as another client of it would.
func edit(t *testing.T, f *memory.Fleet, id snapshot.ID, value string) {
	t.Helper()
	obj, err := f.Cluster("c000").Get(id)
	if err == nil {
		err = unstructured.SetNestedField(obj.Object, value, "data", "key")
	}
	if err == nil {
		err = f.Cluster("c000").Update(obj)
	}
	if err != nil {
		t.Fatal(err)
	}
}
