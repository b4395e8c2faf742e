package upgrade_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/stages"
)

// TestUpgradesOfARandomFleet checks random events of clusters, regions and engines: every change is
// begun once and in order, never in more clusters than may be in flight, and a completed cluster
// has reached its goal.
func TestUpgradesOfARandomFleet(t *testing.T) {
	n := 8
	if soak() {
		n = 1000
	}
	for seed := range n {
		synctest.Test(t, func(t *testing.T) { (&chaos{Rand: rand.New(rand.NewPCG(uint64(seed), 0))}).upgrade(t) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// chaos causes random events in a fleet.
type chaos struct {
	*rand.Rand
	r        *env
	names    []string
	most     int
	attempts int
	images   int
	// stop ends the running engine; plan has its planted faults.
	stop func()
	plan *faulty.Plan
}

func (c *chaos) upgrade(t *testing.T) {
	for i := range 2 + c.IntN(8) {
		c.names = append(c.names, fmt.Sprintf("%c%d", "we"[c.IntN(2)], i))
	}
	w := testState(c.names...)
	for _, cl := range w.Clusters {
		cl.Takes.Duration = time.Duration(c.IntN(300)) * time.Second
		cl.Unhealthy.Duration = time.Duration(c.IntN(3)) * time.Minute
	}
	c.r, c.most, c.attempts, c.images = newEnv(t, w, c.target()), 1+c.IntN(3), 1+c.IntN(3), 3
	c.live()
	defer func() { c.stop() }()
	c.r.create("run-1", c.strategy())
	for range 40 {
		time.Sleep(time.Duration(c.IntN(120)) * time.Second)
		c.happen()
	}
	s := c.end()
	for name, state := range ended(s) {
		c.check(t, s.Run.UID, name, state)
	}
	if got := c.inFlight(); got > c.most {
		t.Errorf("%d clusters were upgraded at the same time, and %d may be", got, c.most)
	}
}

func (c *chaos) target() upgrade.Target {
	return []upgrade.Target{
		full(upgrade.Latest), full(upgrade.Consistent, "i2"), imagesOnly(upgrade.Latest),
		{Type: upgrade.ControlPlaneOnly, KubernetesVersion: "1.30.2"},
	}[c.IntN(4)]
}

func (c *chaos) strategy() stages.Strategy {
	return stages.Strategy{
		Profile: stages.ClusterUpdate, Attempts: c.attempts, Stages: []stages.Stage{{
			Name: "all", Selector: &metav1.LabelSelector{},
			MaxConcurrency: new(intstr.FromInt32(int32(min(c.most, len(c.names))))), MaxFailures: new(intstr.FromInt32(100)),
		}},
	}
}

// live starts an engine that drives runs.
func (c *chaos) live() {
	c.plan = faulty.NewPlan()
	c.stop = c.r.running(c.r.engine("one", c.plan.Store(c.r.store)))
}

// happen causes a random event.
func (c *chaos) happen() {
	name := c.names[c.IntN(len(c.names))]
	switch c.IntN(9) {
	case 0:
		c.images++
		c.r.p.Edit(func(w *embedded.State) {
			r := w.Regions[[]string{"west", "east"}[c.IntN(2)]]
			r.Images[""] = slices.Insert(r.Images[""], 0, fmt.Sprint("i", c.images))
		})
	case 1:
		_ = c.r.p.Occupy(name, "scaling", time.Duration(1+c.IntN(600))*time.Second)
	case 2:
		c.r.p.Edit(func(w *embedded.State) { w.Regions["west"].Unavailable = !w.Regions["west"].Unavailable })
	case 3:
		c.r.p.Edit(func(w *embedded.State) { w.Clusters[name].Fail = 1 })
	case 4:
		c.r.p.Edit(func(w *embedded.State) { w.Clusters[name].Unavailable = !w.Clusters[name].Unavailable })
	case 5:
		c.plan.Crash()
		c.stop()
		c.live()
	case 6:
		c.stop()
		c.live()
	case 7:
		_ = c.r.e.Run("run-1").Command(c.r.t.Context(), stages.Command{Verb: stages.Stop})
	case 8:
		_ = c.r.e.Run("run-1").Command(c.r.t.Context(), stages.Command{Verb: stages.Start})
	}
}

// end lets everything complete.
func (c *chaos) end() fleet.Status {
	c.r.p.Edit(func(w *embedded.State) {
		w.Regions["west"].Unavailable = false
		for _, cl := range w.Clusters {
			cl.Unavailable = false
		}
	})
	for range 100 {
		time.Sleep(5 * time.Minute)
		status, err := c.r.e.Run("run-1").Status(c.r.t.Context())
		if err != nil {
			c.r.t.Fatal(err)
		}
		switch status.Run.State {
		case stages.Completed:
			return status
		case stages.Stopped:
			c.r.command("run-1", stages.Command{Verb: stages.Start})
		default:
		}
	}
	return c.r.until("run-1", stages.Completed)
}

// check checks the result of a cluster.
func (c *chaos) check(t *testing.T, uid, name string, state stages.State) {
	t.Helper()
	cl := clusterOf(t, c.r.p, name)
	ids := begun(&cl)
	if d := len(ids) - len(slices.Compact(slices.Sorted(slices.Values(ids)))); d != 0 {
		t.Errorf("%s: %d changes were begun again: %v", name, d, ids)
	}
	last := ""
	for _, id := range ids {
		if !strings.HasPrefix(id, uid+".") || id <= last { // C comes before N
			t.Errorf("%s: change %s came after %s", name, id, last)
		}
		last = id
	}
	switch goal := goalOf(&cl); {
	case state == stages.Completed && (len(ids) == 0 || len(ids) > 2*c.attempts):
		t.Errorf("%s is %s with the changes %v", name, state, ids)
	case state == stages.Completed && !slices.Equal(has(&cl), goal):
		t.Errorf("%s is %s and has %v, want %v", name, state, has(&cl), goal)
	case state == stages.Failed && len(ids) < c.attempts:
		t.Errorf("%s is %s after %v: %s", name, state, ids, c.r.reason("run-1", name))
	case state == stages.Skipped:
		t.Errorf("%s was skipped: %s", name, c.r.reason("run-1", name))
	}
}

// goalOf returns the expected result of the first change of a cluster.
func goalOf(cl *embedded.Cluster) []string {
	if len(cl.Begun) == 0 {
		return nil
	}
	goal := cl.Begun[0].Change.Goal
	out := []string{goal.ControlPlane}
	if goal.ControlPlane == "" {
		out[0] = "1.29.4"
	}
	for i := range cl.Pools {
		version, image := "1.29.4", "i1"
		if i < len(goal.Pools) {
			if goal.Pools[i].Version != "" {
				version = goal.Pools[i].Version
			}
			image = goal.Pools[i].Image
		}
		out = append(out, version+" "+image)
	}
	return out
}

// inFlight returns the largest number of clusters that had changes under way at the same time.
func (c *chaos) inFlight() (most int) {
	type edge struct {
		at time.Time
		by int
	}
	var edges []edge
	for _, name := range c.names {
		cl := clusterOf(c.r.t, c.r.p, name)
		for _, o := range cl.Begun {
			edges = append(edges, edge{o.Began, 1}, edge{o.Ends, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if d := a.at.Compare(b.at); d != 0 {
			return d
		}
		return a.by - b.by
	})
	now := 0
	for _, e := range edges {
		now += e.by
		most = max(most, now)
	}
	return most
}
