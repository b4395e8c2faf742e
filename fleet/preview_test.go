package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/placement"
)

// A preview writes nothing and has the plan digest of the run that is created after it. If the plan
// has changed, the run is refused, and leaves nothing.
func TestPreviewHasThePlanOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{replaceFor("canary", "x")} })
		w.holds("v0")
		for i, index := range []*int{nil, new(0)} {
			spec := fleet.RunSpec{Placement: ep, Index: index, Strategy: tutorialStrategy()}
			before := dump(t, w.store)
			p := must(e.Preview(t.Context(), spec))(t).Plan
			if after := dump(t, w.store); len(after) != len(before) || after["placement/"+ep] != before["placement/"+ep] {
				t.Errorf("a preview writes: %v", w.keys(""))
			}
			spec.Name, spec.Plan = fmt.Sprint("r-", i), p.Digest
			if s := must(e.CreateRun(t.Context(), spec))(t); s.Plan.Digest != p.Digest || s.Run.Plan != p.Digest {
				t.Errorf("previewed %s, created %s", p.Digest, s.Plan.Digest)
			}
		}
		spec := fleet.RunSpec{Placement: ep, Strategy: tutorialStrategy()}
		digest := must(e.Preview(t.Context(), spec))(t).Plan.Digest
		spec.Name, spec.Plan = "late", digest
		for what, change := range map[string]func(){
			"the source": func() { w.holds("v1") },
			"a cluster": func() {
				w.fleet.Add(placement.Cluster{Name: "member4", Labels: map[string]string{"environment": "canary"}})
			},
			"the strategy": func() { spec.Strategy.Stages[0].MaxConcurrency = percent("50%") },
		} {
			change()
			err := refused(t, w.store, what, func() error { return second1(e.CreateRun(t.Context(), spec)) }, "run late", digest, "preview it again")
			if changed, ok := errors.AsType[*errdef.Error](err); !ok || !errors.Is(err, errdef.ErrPlanChanged) || changed.Name != "late" || strings.Count(err.Error(), digest) != 1 {
				t.Errorf("%s changed: %v", what, err)
			}
		}
	})
}

// A preview warns of the fields and objects that its snapshot leaves out, because the clusters get
// other content than the source has. The event of a snapshot has the same texts.
func TestPreviewWarnsOfOmissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		spec := fleet.RunSpec{Placement: ep, Strategy: tutorialStrategy()}
		if p := must(e.Preview(t.Context(), spec))(t).Plan; len(p.Warnings) > 0 {
			t.Errorf("a preview of everything warns: %q", p.Warnings)
		}
		deployment := configMap("web", "")
		deployment.SetAPIVersion("apps/v1")
		deployment.SetKind("Deployment")
		deployment.Object["spec"] = map[string]any{"replicas": int64(1)}
		byApply := metav1.NewFieldsV1(`{"f:spec": {"f:template": {}}}`)
		deployment.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: byApply}})
		claim := configMap("data", "")
		claim.SetAnnotations(map[string]string{"pv.kubernetes.io/bound-by-controller": "yes"})
		claim.SetKind("PersistentVolumeClaim")
		claim.Object["spec"] = map[string]any{"volumeName": "pv-7"}
		if err := errors.Join(w.source.Put(deployment), w.source.Put(claim)); err != nil {
			t.Fatal(err)
		}
		p := must(e.Preview(t.Context(), spec))(t).Plan
		for _, want := range []string{
			"spec.replicas of Deployment.apps test-namespace/web is not carried: nobody set it",
			"spec.volumeName of PersistentVolumeClaim test-namespace/data is not carried: a controller of the hub wrote it",
		} {
			if !strings.Contains(strings.Join(p.Warnings, "\n"), want) {
				t.Errorf("no warning %q in %q", want, p.Warnings)
			}
		}
	})
}
