package fleet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// A rollback restores the content of its index, including the overrides of that time, whatever the
// overrides are now.
func TestRollbackRestoresOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{replaceFor("canary", "old")} })
		defer running(t, e)()
		w.capture(e, "v0")
		p := tutorialPlacement()
		p.Overrides = []placement.Override{replaceFor("canary", "new")}
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		w.capture(e, "v0")
		for i, step := range []struct {
			index int
			want  string
		}{{0, "old"}, {1, "new"}, {0, "old"}} {
			ranTo(t, e, specOf("run-"+string(rune('a'+i)), step.index), stages.Completed)
			if m1, m2 := w.value("member1"), w.value("member2"); m1 != step.want || m2 != "v0" {
				t.Errorf("at index %d member1 holds %s and member2 %s", step.index, m1, m2)
			}
		}
	})
}

// The plan has the content of each cluster. Content that several clusters share is stored once.
func TestVariantsAreStoredOnce(t *testing.T) {
	w, e := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{replaceFor("canary", "x")} })
	w.capture(e, "v0")
	before := w.keys("content/")
	s := must(e.CreateRun(t.Context(), specOf("r", 0)))(t)
	revision := map[string]string{}
	for _, c := range s.Plan.Clusters {
		revision[c.Name] = s.Plan.Revisions[c.Revision]
	}
	if revision["member1"] != revision["member3"] || revision["member1"] == revision["member2"] || len(s.Plan.Revisions) != 2 {
		t.Errorf("the plan has %v", revision)
	}
	var fresh []string
	for _, key := range w.keys("content/") {
		if !slices.Contains(before, key) {
			fresh = append(fresh, key)
		}
	}
	if len(fresh) != 3 || !slices.Contains(fresh, "content/"+ep+"/"+revision["member1"]) {
		t.Errorf("stored for two clusters with one variant: %v, want one body, one page, one root", fresh)
	}
	if err := e.Run("r").Delete(t.Context(), forced); err != nil {
		t.Fatal(err)
	}
	if after := w.keys("content/"); !slices.Equal(after, before) {
		t.Errorf("the run was deleted, its variants were not: %v", after)
	}
}

// The error of a rule that cannot be applied names the override, the rule, the object and every
// cluster, and nothing is written.
func TestRenderErrorsNameEverything(t *testing.T) {
	for what, change := range map[string]func(*placement.Override){
		"a path that is not there": func(o *placement.Override) { o.Rules[0].Patches[0].Path = "/data/nope/deeper" },
		"a label that is not there": func(o *placement.Override) {
			o.Rules[0].Patches[0].Value = []byte(`"${MEMBER-CLUSTER-LABEL-KEY-region}"`)
		},
	} {
		o := replaceFor("canary", "x")
		change(&o)
		w, e := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{o} })
		w.capture(e, "v0")
		for _, try := range []func() error{
			func() error { _, err := e.CreateRun(t.Context(), specOf("r", 0)); return err },
			func() error { _, err := e.Preview(t.Context(), specOf("r", 0)); return err },
		} {
			refused(t, w.store, what, try, "test-namespace/o", "overrideRules[0]", "member1", "member3", "test-cm")
		}
		if got := w.value("member1"); !strings.Contains(got, "not found") {
			t.Errorf("%s: member1 holds %s", what, got)
		}
	}
}

// A failure that many clusters share is reported once, and its text does not grow with the fleet.
func TestSharedRenderErrorsAreReportedOnce(t *testing.T) {
	o := replaceFor("canary", `${MEMBER-CLUSTER-LABEL-KEY-none}`)
	w, e := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{o} })
	for i := range 500 {
		w.fleet.Add(placement.Cluster{Name: "c" + string(rune('a'+i%26)) + string(rune('a'+i/26)), Labels: map[string]string{"environment": "canary"}})
	}
	w.capture(e, "v0")
	_, err := e.CreateRun(t.Context(), specOf("r", 0))
	if err == nil || len(err.Error()) > 1000 {
		t.Errorf("the error is %v", err)
	}
	refused(t, w.store, "a run", func() error { return err }, "clusters caa, cab,", "and 492 more: ConfigMap test-namespace/test-cm: override test-namespace/o", `no label "none"`)
}

// The error has the failure of each cluster. It distinguishes an override that cannot be applied
// from an override whose result is refused.
func TestARenderingErrorHasEachCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*placement.Override)
		invalid bool
	}{
		"a path that is not there":  {func(o *placement.Override) { o.Rules[0].Patches[0].Path = "/data/none" }, false},
		"a value that is no string": {func(o *placement.Override) { o.Rules[0].Patches[0].Value = []byte("5") }, true},
	} {
		o := replaceFor("canary", "x")
		tc.change(&o)
		w, e := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{o} })
		w.capture(e, "v0")
		_, err := e.CreateRun(t.Context(), specOf("r", 0))
		var failed *placement.RenderingError
		if !errors.As(err, &failed) || !errors.Is(err, backend.ErrPermanent) || len(failed.Failures) != 2 {
			t.Fatalf("%s: %v, want a permanent RenderingError of two clusters", name, err)
		}
		for i, cluster := range []string{"member1", "member3"} {
			f := failed.Failures[i]
			if f.Cluster != cluster || !strings.Contains(f.Object, "test-cm") || f.Invalid != tc.invalid || !strings.Contains(f.Err.Error(), "override test-namespace/o: overrideRules[0]") {
				t.Errorf("%s: of %s it says %+v", name, cluster, f)
			}
		}
	}
}
