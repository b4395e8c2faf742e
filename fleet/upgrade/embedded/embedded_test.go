package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/placement"
)

func testState() embedded.State {
	return embedded.State{
		Regions:  map[string]*embedded.Region{"west": {Images: map[string][]string{"": {"i2", "i1"}}}},
		Versions: []string{"1.29.4", "1.30.2"},
		Takes:    metav1.Duration{Duration: time.Minute},
		Clusters: map[string]*embedded.Cluster{
			"a": {UID: "uid-a", Region: "west", ControlPlane: "1.29.4", Pools: []upgrade.Pool{{Name: "p", Version: "1.29.4", Image: "i1"}}},
			"b": {Region: "west", ControlPlane: "1.29.4"},
		},
	}
}

func a() placement.Cluster { return placement.Cluster{Name: "a", UID: "uid-a"} }

func change(id string, part upgrade.Part) upgrade.Change {
	return upgrade.Change{ID: id, Placement: "prod", Epoch: 1, Part: part, Goal: upgrade.Goal{
		ControlPlane: "1.30.2", Pools: []upgrade.PoolGoal{{Name: "p", Image: "i2"}, {Name: "gone", Image: "i2"}},
	}}
}

func describe(t *testing.T, p *embedded.Provider) upgrade.Cluster {
	t.Helper()
	c, err := p.Describe(t.Context(), a())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func begin(t *testing.T, p *embedded.Provider, c upgrade.Change) {
	t.Helper()
	if err := p.Begin(t.Context(), a(), c); err != nil {
		t.Fatal(err)
	}
}

func TestAChangeTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := embedded.New(testState(), nil)
		want := upgrade.Cluster{
			Region: "west", ControlPlane: "1.29.4", Versions: []string{"1.29.4", "1.30.2"}, Healthy: true,
			Pools: []upgrade.Pool{{Name: "p", Version: "1.29.4", Image: "i1", Images: []string{"i2", "i1"}}},
		}
		begin(t, p, change("1", upgrade.ControlPlane))
		time.Sleep(time.Minute - 1)
		want.Operation = &upgrade.Operation{Change: change("1", upgrade.ControlPlane), State: upgrade.Running, Message: "upgrading ControlPlane"}
		if d := cmp.Diff(want, describe(t, p)); d != "" {
			t.Errorf("while it is under way (-want +got):\n%s", d)
		}
		time.Sleep(time.Nanosecond)
		want.ControlPlane, want.Operation.State, want.Operation.Message = "1.30.2", upgrade.Succeeded, ""
		if d := cmp.Diff(want, describe(t, p)); d != "" {
			t.Errorf("when it has ended (-want +got):\n%s", d)
		}
		p.Edit(func(w *embedded.State) { w.Clusters["a"].Takes.Duration = time.Hour })
		begin(t, p, change("2", upgrade.Nodes))
		time.Sleep(time.Hour - 1)
		if c := describe(t, p); c.Operation.State != upgrade.Running {
			t.Errorf("%+v", c)
		}
		time.Sleep(time.Nanosecond)
		if c := describe(t, p); c.Pools[0].Image != "i2" || c.Pools[0].Version != "1.29.4" || len(c.Pools) != 1 {
			t.Errorf("%+v", c)
		}
	})
}

func TestBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := embedded.New(testState(), nil)
		begin(t, p, change("1", upgrade.ControlPlane))
		newer := change("1", upgrade.ControlPlane)
		newer.Epoch = 5
		begin(t, p, newer) // the same change
		other := change("2", upgrade.Nodes)
		other.Epoch = 5
		elsewhere := change("2", upgrade.Nodes)
		elsewhere.Placement = "test"
		nameless := change("", upgrade.Nodes)
		nameless.Epoch = 5
		for name, tc := range map[string]struct {
			cluster placement.Cluster
			change  upgrade.Change
			want    error
		}{
			"the same":              {a(), newer, nil},
			"an older epoch":        {a(), change("1", upgrade.ControlPlane), backend.ErrFenced},
			"an older, elsewhere":   {placement.Cluster{Name: "b"}, change("1", upgrade.ControlPlane), backend.ErrFenced},
			"another change":        {a(), other, backend.ErrConflict},
			"another placement":     {a(), elsewhere, backend.ErrConflict},
			"no ID":                 {a(), nameless, backend.ErrPermanent},
			"an unknown cluster":    {placement.Cluster{Name: "x"}, other, backend.ErrNotFound},
			"a cluster made again":  {placement.Cluster{Name: "a", UID: "other"}, other, backend.ErrNotFound},
			"without a UID":         {placement.Cluster{Name: "a"}, newer, nil},
			"a cluster without one": {placement.Cluster{Name: "b", UID: "any"}, newer, nil},
		} {
			if err := p.Begin(t.Context(), tc.cluster, tc.change); !errors.Is(err, tc.want) {
				t.Errorf("%s: %v, want %v", name, err, tc.want)
			}
		}
		time.Sleep(time.Minute)
		begin(t, p, newer) // still the last one
		if c := describe(t, p); c.Operation.State != upgrade.Succeeded {
			t.Errorf("%+v", c.Operation)
		}
		p.Edit(func(w *embedded.State) { w.Clusters["a"].Refuse = "no quota" })
		if err := p.Begin(t.Context(), a(), other); !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("refused: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Begin(ended, a(), other); !errors.Is(err, context.Canceled) {
			t.Errorf("after the context: %v", err)
		}
		if w := p.State(); len(w.Clusters["a"].Begun) != 1 || len(w.Clusters["b"].Begun) != 1 {
			t.Errorf("%+v", w.Clusters)
		}
	})
}

func TestUnavailableProviderErrorsAreTransient(t *testing.T) {
	for name, edit := range map[string]func(*embedded.State){
		"the region":  func(w *embedded.State) { w.Regions["west"].Unavailable = true },
		"the cluster": func(w *embedded.State) { w.Clusters["a"].Unavailable = true },
	} {
		p := embedded.New(testState(), nil)
		p.Edit(edit)
		_, described := p.Describe(t.Context(), a())
		for _, err := range []error{described, p.Begin(t.Context(), a(), change("1", upgrade.Nodes))} {
			if err == nil || errors.Is(err, backend.ErrPermanent) || errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrConflict) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if c, ok := p.Cluster("a"); !ok || len(c.Begun) != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestConfiguredNumberOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := testState()
		w.Clusters["a"].Fail = 2
		p := embedded.New(w, nil)
		for i, want := range []upgrade.OperationState{upgrade.Failed, upgrade.Failed, upgrade.Succeeded} {
			begin(t, p, change(string(rune('1'+i)), upgrade.ControlPlane))
			time.Sleep(time.Minute)
			c := describe(t, p)
			if c.Operation.State != want || (c.ControlPlane == "1.30.2") != (want == upgrade.Succeeded) || (c.Operation.Message == "") != (want == upgrade.Succeeded) {
				t.Errorf("change %d: %+v", i+1, c)
			}
		}
		p.Edit(func(w *embedded.State) { w.Clusters["a"].Fail, w.Clusters["a"].Failure = -1, "no quota" })
		for i := range 3 {
			begin(t, p, change(string(rune('x'+i)), upgrade.ControlPlane))
			time.Sleep(time.Minute)
			if c := describe(t, p); c.Operation.State != upgrade.Failed || c.Operation.Message != "no quota" {
				t.Errorf("%+v", c.Operation)
			}
		}
	})
}

func TestAClusterIsUnhealthyForAWhileAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := testState()
		w.Clusters["a"].Unhealthy.Duration = time.Minute
		p := embedded.New(w, nil)
		begin(t, p, change("1", upgrade.ControlPlane))
		for i, want := range []bool{true, false, true} {
			c := describe(t, p)
			if c.Healthy != want || (c.Message == "") != want {
				t.Errorf("after %d minutes: %+v", i, c)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestAnotherClientsOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := embedded.New(testState(), nil)
		if err := p.Occupy("x", "", 0); !errors.Is(err, backend.ErrNotFound) {
			t.Error(err)
		}
		if err := p.Occupy("a", "scaling", time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := p.Occupy("a", "scaling", 0); !errors.Is(err, backend.ErrConflict) {
			t.Error(err)
		}
		if err := p.Begin(t.Context(), a(), change("1", upgrade.Nodes)); !errors.Is(err, backend.ErrConflict) {
			t.Error(err)
		}
		if c := describe(t, p); c.Operation != nil || c.Busy != "scaling" {
			t.Errorf("%+v", c)
		}
		time.Sleep(time.Hour)
		if c := describe(t, p); c.Operation != nil || c.Busy != "" || c.ControlPlane != "1.29.4" {
			t.Errorf("%+v", c)
		}
		begin(t, p, change("1", upgrade.Nodes))
		if err := p.Occupy("a", "scaling", 0); !errors.Is(err, backend.ErrConflict) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if err := p.Occupy("a", "", 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1000 * time.Hour)
		if c := describe(t, p); c.Operation.State != upgrade.Succeeded || c.Busy == "" {
			t.Errorf("%+v", c)
		}
	})
}

func TestRestoredStateContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := embedded.New(testState(), nil)
		begin(t, p, change("1", upgrade.ControlPlane))
		before := p.State()
		body, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		var kept embedded.State
		if err := json.Unmarshal(body, &kept); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		p, q := embedded.New(before, nil), embedded.New(kept, nil)
		begin(t, q, change("1", upgrade.ControlPlane))
		if d := cmp.Diff(describe(t, p), describe(t, q)); d != "" {
			t.Errorf("(-before +kept):\n%s", d)
		}
		if c := describe(t, q); c.ControlPlane != "1.30.2" {
			t.Errorf("%+v", c)
		}
	})
}

func TestCopiesShareNothing(t *testing.T) {
	given := testState()
	p := embedded.New(given, nil)
	begin(t, p, change("1", upgrade.Nodes))
	spoil := func(w *embedded.State) {
		w.Versions[0] = "?"
		w.Regions["west"].Images[""][0] = "?"
		w.Clusters["a"].Pools[0].Image = "?"
		if o := w.Clusters["a"].Operation; o != nil {
			o.Change.Goal.Pools[0].Image = "?"
			w.Clusters["a"].Begun[0].Change.Goal.Pools[0].Image = "?"
		}
	}
	before := p.State()
	spoil(&given)
	got := p.State()
	spoil(&got)
	c := describe(t, p)
	c.Versions[0], c.Pools[0].Images[0], c.Operation.Change.Goal.Pools[0].Image = "?", "?", "?"
	one, _ := p.Cluster("a")
	one.Pools[0].Image = "?"
	if d := cmp.Diff(before, p.State()); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
	if _, ok := p.Cluster("x"); ok {
		t.Error("there is no cluster x")
	}
}

func TestAWatchReportsEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := testState()
		w.Clusters["a"].Unhealthy.Duration = time.Hour
		p := embedded.New(w, nil)
		ctx, cancel := context.WithCancel(t.Context())
		start, told := time.Now(), make(chan time.Duration, 10)
		var last error
		var watch sync.WaitGroup
		watch.Go(func() {
			for _, err := range p.Watch(ctx, a()) {
				if last = err; err == nil {
					told <- time.Since(start)
				}
			}
		})
		next := func(want time.Duration) {
			t.Helper()
			if got := <-told; got != want {
				t.Errorf("told after %v, want %v", got, want)
			}
		}
		next(0)
		synctest.Wait()
		begin(t, p, change("1", upgrade.ControlPlane))
		next(0)
		next(time.Minute)             // it has ended
		next(time.Minute + time.Hour) // it is healthy
		time.Sleep(time.Hour)
		p.Edit(func(w *embedded.State) { w.Regions["west"].Unavailable = true })
		next(time.Minute + 2*time.Hour)
		cancel()
		watch.Wait()
		if !errors.Is(last, context.Canceled) || len(told) != 0 {
			t.Errorf("the end: %v, %d more", last, len(told))
		}
		for range p.Watch(t.Context(), placement.Cluster{Name: "x"}) {
			break
		}
	})
}

func TestAProviderIsUsedConcurrently(t *testing.T) {
	p := embedded.New(testState(), nil)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				_, _ = p.Describe(t.Context(), a())
				_ = p.Begin(t.Context(), a(), change(string(rune('1'+i)), upgrade.Nodes))
				p.Edit(func(w *embedded.State) { w.Clusters["a"].Takes.Duration = time.Nanosecond })
				_ = p.State()
				_, _ = p.Cluster("b")
				for range p.Watch(t.Context(), a()) {
					break
				}
			}
		})
	}
	all.Wait()
}
