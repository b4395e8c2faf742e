package migrate

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
)

// surveyOf returns a fleet of one member with a placement in a namespace and KubeFleet's objects
// for it.
func surveyOf(t *testing.T) (*survey, map[api.Key]*wanted) {
	t.Helper()
	k := api.Key{Namespace: "shop", Name: "web"}
	objects := func(gvr schema.GroupVersionResource, texts ...string) map[schema.GroupVersionResource][]*unstructured.Unstructured {
		out := map[schema.GroupVersionResource][]*unstructured.Unstructured{}
		for _, text := range texts {
			out[gvr] = append(out[gvr], read(t, text))
		}
		return out
	}
	s := &survey{members: []*memberSurvey{{name: "m1"}}}
	s.declared = objects(api.NamespaceScope.GVR(api.PlacementKind), `
kind: ResourcePlacement
apiVersion: placement.kubernetes-fleet.io/v1beta1
metadata: {namespace: shop, name: web}
`)
	s.declared[api.MemberGVR()] = []*unstructured.Unstructured{read(t, `
{apiVersion: cluster.kubernetes-fleet.io/v1beta1, kind: MemberCluster, metadata: {name: m1}, spec: {}}`)}
	s.kept = objects(api.NamespaceScope.GVR(api.BindingKind), `
kind: ResourceBinding
metadata: {namespace: shop, name: b, labels: {kubernetes-fleet.io/parent-CRP: web}}
spec: {state: Bound, targetCluster: m1, resourceSnapshotName: web-2-snapshot}
`, `
kind: ResourceBinding
metadata: {namespace: other, name: b, labels: {kubernetes-fleet.io/parent-CRP: web}}
spec: {state: Unscheduled, targetCluster: m2}
`)
	s.kept[workGVR()] = []*unstructured.Unstructured{read(t, `
kind: Work
metadata:
  namespace: fleet-member-m1
  name: shop.web-work
  generation: 1
  labels: {kubernetes-fleet.io/parent-CRP: web, kubernetes-fleet.io/parent-placement-namespace: shop}
spec:
  workload:
    manifests:
    - {apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: a}, data: {k: "1"}}
    - {apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: s}, data: {password: aHVudGVyMg==}}
status: {conditions: [{type: Applied, status: "True", observedGeneration: 1}]}
`), read(t, `
kind: Work
metadata: {namespace: fleet-member-m1, name: web-work, labels: {kubernetes-fleet.io/parent-CRP: web}}
`)}
	w := &wanted{rollout: kubefleet.Rollout{Type: v1beta1.RollingUpdateRolloutStrategyType}, objects: []*unstructured.Unstructured{
		read(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: a}, data: {k: "1"}}`),
		read(t, `{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: s}, data: {password: aHVudGVyMg==}}`),
	}}
	return s, map[api.Key]*wanted{k: w}
}

// The obstacles to a take-over, and the facts that are only notes.
func TestPlansOfOnePlacement(t *testing.T) {
	k := api.Key{Namespace: "shop", Name: "web"}
	binding := func(s *survey) map[string]any {
		return s.kept[api.NamespaceScope.GVR(api.BindingKind)][0].Object["spec"].(map[string]any)
	}
	for name, c := range map[string]struct {
		change         func(*survey, *wanted)
		accept         bool
		blocked, noted string
	}{
		"as it should be":               {func(*survey, *wanted) {}, false, "", ""},
		"it is to be removed":           {func(s *survey, _ *wanted) { binding(s)["state"] = "Unscheduled" }, false, "ResourcePlacement shop/web on m1: it is to be removed", ""},
		"a member without a kubeconfig": {func(s *survey, _ *wanted) { s.members[0].err = errors.New("no file") }, false, "member m1 cannot be read: no file", ""},
		"what is refused":               {func(_ *survey, w *wanted) { w.refused = errors.New("spec.x: unknown") }, false, "Slipway does not serve it: spec.x", ""},
		"a change": {
			func(_ *survey, w *wanted) { w.objects[0].Object["data"] = map[string]any{"k": "2"} },
			false, "Update ConfigMap shop/a /data/k", "",
		},
		"a change that is accepted": {
			func(_ *survey, w *wanted) { w.objects[0].Object["data"] = map[string]any{"k": "2"} },
			true, "", "Update ConfigMap shop/a /data/k",
		},
		"a change of an External placement": {
			func(_ *survey, w *wanted) {
				w.rollout.Type = v1beta1.ExternalRolloutStrategyType
				w.objects[0].Object["data"] = map[string]any{"k": "2"}
			}, false, "", "Update ConfigMap shop/a /data/k",
		},
		"an object that is new":       {func(_ *survey, w *wanted) { w.objects[0].SetName("b") }, false, "Create ConfigMap shop/b", "Leave ConfigMap shop/a"},
		"Secrets that are not placed": {func(_ *survey, w *wanted) { w.objects = w.objects[:1] }, false, "", "Leave Secret shop/s"},
		"a Secret that differs": {
			func(_ *survey, w *wanted) { w.objects[1].Object["data"] = map[string]any{"password": "aHVudGVyMw=="} },
			false, "Update Secret shop/s /data/password", "",
		},
		"a Work that is not applied": {
			func(s *survey, _ *wanted) { s.kept[workGVR()][0].SetGeneration(2) }, false, "", "Work shop.web-work is not applied",
		},
		"a Work that is being deleted": {
			func(s *survey, _ *wanted) {
				s.kept[workGVR()][0].Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
			}, false, "Work fleet-member-m1/shop.web-work is being deleted", "",
		},
		"a run that goes on": {
			func(s *survey, _ *wanted) {
				s.declared[api.NamespaceScope.GVR(api.RunKind)] = []*unstructured.Unstructured{read(t, `
{kind: StagedUpdateRun, metadata: {namespace: shop, name: r}, status: {conditions: [{type: Progressing, status: "True", reason: UpdateRunProgressing}]}}`)}
			}, false, "StagedUpdateRun shop/r is under way (UpdateRunProgressing)", "",
		},
		"a hub of Slipway": {
			func(s *survey, _ *wanted) { s.hub = &Agent{Cluster: onHub, Kind: "Lease", Running: true} }, false, "which is a hub of Slipway", "",
		},
		"an AppliedWork that is deleted with its objects": {
			func(s *survey, _ *wanted) {
				s.members[0].applied = []*unstructured.Unstructured{read(t, `
{kind: AppliedWork, metadata: {name: w, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [foregroundDeletion]}}`)}
			}, false, "AppliedWork w is being deleted", "",
		},
	} {
		s, want := surveyOf(t)
		c.change(s, want[k])
		plan := newPlan(s, want, c.accept)
		has := func(lines []string, words string) bool {
			return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, words) })
		}
		if (c.blocked == "") != (len(plan.Blockers) == 0) || c.blocked != "" && !has(plan.Blockers, c.blocked) {
			t.Errorf("%s: it is blocked by %q, want %q", name, plan.Blockers, c.blocked)
		}
		if (c.noted == "") != (len(plan.Notes) == 0) || c.noted != "" && !has(plan.Notes, c.noted) {
			t.Errorf("%s: it has the notes %q, want %q", name, plan.Notes, c.noted)
		}
		if strings.Contains(plan.String(), "hunter") || strings.Contains(plan.String(), "aHVudGVy") {
			t.Errorf("%s: what is in a Secret is shown: %s", name, plan)
		}
	}
}
