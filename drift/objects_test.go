package drift_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift"
)

// objectsIn returns the hub's and the member's object of testdata/objects.
func objectsIn(t testing.TB, name string) (hub, member *unstructured.Unstructured) {
	t.Helper()
	docs, err := documents(objectFile(name))
	if err != nil {
		t.Fatal(err)
	}
	var both [2]*unstructured.Unstructured
	for i := range both {
		o, err := objectOf(docs[i].Content[0])
		if err != nil {
			t.Fatal(err)
		}
		both[i] = &unstructured.Unstructured{Object: o}
	}
	return both[0], both[1]
}

// A difference (K12) in a field that cannot be changed is a difference like others,
// with a note, in a report like others.
func TestAnImmutableFieldIsReportedAsAnyOther(t *testing.T) {
	hub, member := objectsIn(t, "job")
	if err := put(hub.Object, "/spec/template/spec/containers/0/image", "example.com/migrate:2", true); err != nil {
		t.Fatal(err)
	}
	for _, c := range comparisons() {
		r := mustCompare(t, hub, member, drift.Options{Comparison: c})
		if r.State != drift.Present || r.Total != 1 || r.Differences[0].Class != drift.Changed || r.Differences[0].Note != "immutable" {
			t.Errorf("%s: %s", c, compact(r))
		}
	}
}

// Owners (K15) are no difference, whichever of their fields are alike.
func TestOwnersOfTheSameKindOrVersionAreNoDifference(t *testing.T) {
	hub, member := objectsIn(t, "configmap")
	owner := func(version, kind string) any {
		return map[string]any{"apiVersion": version, "kind": kind, "name": "x", "uid": "u"}
	}
	for _, owners := range [][]any{{owner("a/v1", "A")}, {owner("a/v1", "B")}, {owner("b/v1", "A")}, {owner("a/v1", "A"), owner("b/v1", "B")}} {
		for _, c := range comparisons() {
			if r := mustCompare(t, with(hub, "ownerReferences", []any{owner("a/v1", "A")}), with(member, "ownerReferences", owners), drift.Options{Comparison: c}); r.Drifted() {
				t.Errorf("%s: %s", c, compact(r))
			}
		}
	}
}

// A comparison without differences (K16) allocates nothing, despite defaults, managedFields and
// status, and with either comparison.
func TestCompareOfEqualObjectsAllocatesNothing(t *testing.T) {
	for _, name := range []string{"deployment", "statefulset", "daemonset", "job", "cronjob", "pod", "service", "configmap", "secret", "namespace", "ingress", "networkpolicy", "webhook", "crd", "serviceaccount", "gadget", "blank"} {
		hub, member := objectsIn(t, name)
		for _, c := range comparisons() {
			m, err := drift.Compile(hub, drift.Options{Comparison: c, Schemas: schemas(t, "gadget-crd")})
			if err != nil {
				t.Fatal(err)
			}
			var r drift.Report
			allocs := testing.AllocsPerRun(20, func() { r, err = m.Compare(member, nil) })
			if err != nil || allocs > 0 || r.Drifted() {
				t.Errorf("%s, %s: %v allocations, %d differences, %v", name, c, allocs, r.Total, err)
			}
		}
	}
}
