package hub

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/seals"
	"github.com/slipway-dev/slipway/hub/internal/status"
)

// The seal of a request proves its run, its gate and the policies at its creation. A copy proves
// nothing if its name, its namespace, its run or any other sealed content differs.
func TestSealOfARequestCoversItsContent(t *testing.T) {
	s, _ := lonely(t)
	for name, c := range map[string]struct {
		change func(u *unstructured.Unstructured)
		proves bool
	}{
		"as it was made":    {func(*unstructured.Unstructured) {}, true},
		"with other labels": {func(u *unstructured.Unstructured) { u.SetLabels(nil) }, true},
		"no seal":           {func(u *unstructured.Unstructured) { u.SetAnnotations(nil) }, false},
		"a wrong seal":      {func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{api.AnnotationSeal: "0123"}) }, false},
		"of other policies": {func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{api.AnnotationSeal: u.GetAnnotations()[api.AnnotationSeal], api.AnnotationPolicies: "w"})
		}, false},
		"another name":      {func(u *unstructured.Unstructured) { u.SetName("copy") }, false},
		"another namespace": {func(u *unstructured.Unstructured) { u.SetNamespace("shop") }, false},
		"another run":       {func(u *unstructured.Unstructured) { setSpec(u, "other", "parentStageRollout") }, false},
		"another UID":       {func(u *unstructured.Unstructured) { setSpec(u, "u2", "runUID") }, false},
		"another stage":     {func(u *unstructured.Unstructured) { setSpec(u, "prod", "targetStage") }, false},
		"another attempt":   {func(u *unstructured.Unstructured) { setSpec(u, int64(2), "attempt") }, false},
		"another plan":      {func(u *unstructured.Unstructured) { setSpec(u, "sha256:bb", "planDigest") }, false},
		"no spec":           {func(u *unstructured.Unstructured) { u.Object["spec"] = "none" }, false},
		"no owner":          {func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) }, false},
		"another owner": {func(u *unstructured.Unstructured) {
			u.SetOwnerReferences([]metav1.OwnerReference{status.OwnedBy(api.ClusterScope, api.RunKind, "example-run", "another")})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := tutorialRequest()
			f.Request.When = approval.Before
			obj := askedOf(t, f)
			want := &seals.Proof{Run: "run-object", Binding: f.Request.Binding, Policies: "v"}
			if err := s.requests.Seals.Sign(t.Context(), obj, want); err != nil {
				t.Fatal(err)
			}
			c.change(obj)
			got, err := s.requests.Seals.ProofOf(t.Context(), obj)
			if err != nil {
				t.Fatal(err)
			}
			if !c.proves {
				want = nil
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func setSpec(u *unstructured.Unstructured, value any, field string) {
	u.Object["spec"].(map[string]any)[field] = value
}

// A request belongs to another run only as long as the run for which it was made exists.
func TestRequestBelongsToAnExistingRun(t *testing.T) {
	run := objectAt(api.Key{Name: "example-run"})
	s, _ := lonely(t, run)
	obj := askedOf(t, tutorialRequest())
	other := objectAt(api.Key{Name: "example"})
	for owner, want := range map[types.UID]bool{run.GetUID(): true, "that-of-a-run-before": false, other.GetUID(): false} {
		if got := s.requests.IsOfAnother(obj, &seals.Proof{Run: owner}, other); got != want {
			t.Errorf("of %s: %t", owner, got)
		}
	}
	if s.requests.IsOfAnother(obj, nil, other) {
		t.Error("without a seal")
	}
}

// A request that changes or is deleted enqueues its run, and the runs that may wait for its name.
func TestARequestWakesTheRunsThatMayWaitForItsName(t *testing.T) {
	s, _ := lonely(t, objectAt(api.Key{Name: "a"}), objectAt(api.Key{Name: "a-before"}), objectAt(api.Key{Name: "a-before-z"}), objectAt(api.Key{Namespace: "web", Name: "a"}))
	woken(&s.queues.Runs)
	f := tutorialRequest()
	f.Run, f.Request.Stage = "a-before", "s1"
	s.onApproval(askedOf(t, f))
	got := map[api.Key]bool{}
	for _, k := range woken(&s.queues.Runs) {
		got[k] = true
	}
	if d := cmp.Diff(map[api.Key]bool{{Name: "a"}: true, {Name: "a-before"}: true}, got); d != "" {
		t.Error(d)
	}
}

// tutorialRequest returns the facts of a request of a run.
func tutorialRequest() *status.ApprovalFacts {
	return &status.ApprovalFacts{Run: "example-run", RunUID: "run-object", Request: &approval.Request{
		Name: "example-run-staging", Run: "example-run", Placement: "example-placement",
		Binding: approval.Binding{RunUID: "run-of-the-engine", Stage: "staging", When: approval.After, Attempt: 1, Plan: "the-plan"},
	}}
}

// askedOf returns the object of a request.
func askedOf(t *testing.T, f *status.ApprovalFacts) *unstructured.Unstructured {
	t.Helper()
	obj, err := status.ApprovalRequest(f)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}
