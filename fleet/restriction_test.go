package fleet_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// If the host forbids an override, the declaration of the placement is refused, together with its
// other problems. If the override was frozen before, the planning of a run is refused, and nothing
// starts.
func TestAHostForbidsOverrides(t *testing.T) {
	w, before := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{replaceFor("canary", "mine")} })
	w.capture(before, "v0")
	data := placement.Restriction{Kind: "ConfigMap", Paths: []string{"/data/*"}}
	e := w.newEngine(fleet.Config{Name: "strict", Restrictions: []placement.Restriction{data}})
	p := tutorialPlacement()
	p.HistoryLimit = -1
	p.Overrides = []placement.Override{replaceFor("canary", "other")}
	refused(t, w.store, "a placement", func() error { return e.PutPlacement(t.Context(), p) },
		"historyLimit", "overrides[0].overrideRules[0].jsonPatchOverrides[0].path: Forbidden: the host forbids overrides to change /data/* of ConfigMap")
	for _, try := range []func() error{
		func() error { _, err := e.CreateRun(t.Context(), specOf("r", 0)); return err },
		func() error { _, err := e.Preview(t.Context(), specOf("r", 0)); return err },
		func() error { _, err := e.Preview(t.Context(), specOf("r", 0)); return err },
	} {
		err := refused(t, w.store, "a run", try, "clusters member1, member3: ConfigMap test-namespace/test-cm: override test-namespace/o: overrideRules[0]: jsonPatchOverrides[0]: replace /data/key: the host forbids")
		if !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("the error is %v, want ErrPermanent", err)
		}
	}
	if _, err := fleet.New(fleet.Config{Store: w.store, Inventory: w.fleet, Dialer: w.fleet, Restrictions: []placement.Restriction{{Kind: "Role", Paths: []string{"rules"}}}}); err == nil {
		t.Error("a restriction whose path is no pointer is accepted")
	}
}

// A catch-up run is planned too: forbidden content is refused for a cluster that joined, and other
// clusters keep theirs.
func TestACatchUpBringsNothingForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{replaceFor("canary", "mine")} })
		defer running(t, e)()
		w.capture(e, "v0")
		ranTo(t, e, specOf("r", 0), stages.Completed)
		w.fleet.Add(placement.Cluster{Name: "member4", Labels: map[string]string{"environment": "canary"}})
		strict := w.newEngine(fleet.Config{Name: "strict", Restrictions: []placement.Restriction{{Kind: "ConfigMap", Paths: []string{"/data"}}}})
		refused(t, w.store, "a catch-up", func() error {
			_, err := strict.Run("r").CatchUp(t.Context(), "r2", approval.Identity{})
			return err
		}, "cluster member4: ConfigMap test-namespace/test-cm", "the host forbids overrides to change /data of ConfigMap")
		if got := w.value("member1"); got != "mine" {
			t.Errorf("member1 holds %s", got)
		}
	})
}
