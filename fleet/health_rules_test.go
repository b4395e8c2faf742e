package fleet_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// phaseProber reports health like [probed]; its rules name the value of status.phase.
type phaseProber struct{ health.Prober }

func (p phaseProber) ProbeBy(ctx context.Context, rules []health.Rule, obj *unstructured.Unstructured) (health.Status, error) {
	gvk := obj.GroupVersionKind()
	i := health.Find(rules, gvk.Group, gvk.Version, gvk.Kind)
	if i < 0 {
		return p.Probe(ctx, obj)
	}
	r := rules[i]
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	return health.Status{Healthy: phase == r.Ready, Failed: phase != "" && phase == r.Failed, Message: "its phase is " + phase}, nil
}

func (phaseProber) ValidateRules(rules []health.Rule, at *field.Path) (errs field.ErrorList) {
	for i, r := range rules {
		if strings.Contains(r.Ready, " ") {
			errs = append(errs, field.Invalid(at.Index(i).Child("ready"), r.Ready, "is not a phase"))
		}
	}
	return errs
}

func withHealth(rules ...health.Rule) fleet.Placement {
	p := smallPlacement("p")
	p.ApplyStrategy.Health = rules
	return p
}

func TestTheHealthRulesOfAPlacementAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		prober health.Prober
		rule   health.Rule
		want   string
	}{
		"evaluated":             {phaseProber{probed}, health.Rule{Kind: "K", Ready: "Up"}, ""},
		"malformed":             {phaseProber{probed}, health.Rule{Ready: "not a phase"}, "applyStrategy.health[0].kind: Required"},
		"refused by the prober": {phaseProber{probed}, health.Rule{Kind: "K", Ready: "not a phase"}, "applyStrategy.health[0].ready: Invalid"},
		"of kstatus":            {nil, health.Rule{Kind: "K", Ready: "Up"}, "applyStrategy.health: Forbidden"},
		"of a simple prober":    {probed, health.Rule{Kind: "K", Ready: "Up"}, "applyStrategy.health: Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSmallEnv(t, 1)
			err := w.newEngine(fleet.Config{Name: "one", Prober: c.prober}).PutPlacement(t.Context(), withHealth(c.rule))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A run keeps the rules that its placement had when the run was created. An engine whose Prober
// evaluates no rules does not fall back to kstatus.
func TestARunWaitsForTheHealthRulesOfItsPlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 1)
		one := w.newEngine(fleet.Config{Name: "one", Prober: phaseProber{probed}})
		gvk := plain("v1").GroupVersionKind()
		w.declare(one, withHealth(health.Rule{Group: gvk.Group, Kind: gvk.Kind, Ready: "Up"}))
		w.create(one, fleet.RunSpec{Name: "run", Placement: "p", Strategy: allAtOnce(1)})
		must(0, one.PutPlacement(t.Context(), smallPlacement("p")))(t)

		stop := running(t, w.newEngine(fleet.Config{Name: "two"}))
		time.Sleep(time.Minute)
		if state := must(one.Run("run").Status(t.Context()))(t).Run.State; state != stages.Running {
			t.Errorf("without a prober of rules the run is %s", state)
		}
		stop()

		defer running(t, one)()
		time.Sleep(time.Minute)
		if state := must(one.Run("run").Status(t.Context()))(t).Run.State; state != stages.Running {
			t.Errorf("before its objects are ready the run is %s", state)
		}
		must(0, w.fleet.Cluster("c00").SetStatus(snapshot.IDOf(plain("v1")), map[string]any{"phase": "Up"}))(t)
		w.within(time.Minute, "run", stages.Completed)
	})
}
