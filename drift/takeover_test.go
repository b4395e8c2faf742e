package drift_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift"
)

// owner is an entry of managedFields.
func owner(manager, operation string, fields map[string]any) map[string]any {
	return map[string]any{"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
}

type fieldsOf = map[string]any

// leaf is a field that is owned with all that is below it.
func leaf() fieldsOf { return fieldsOf{} }

func TestTakeOver(t *testing.T) {
	data := func(names ...string) fieldsOf {
		below := fieldsOf{}
		for _, n := range names {
			below[n] = leaf()
		}
		return fieldsOf{"f:data": below}
	}
	ours := owner("slipway/p", "Apply", data("f:a", "f:b"))
	port := func(below fieldsOf) fieldsOf {
		return fieldsOf{"f:spec": fieldsOf{"f:ports": fieldsOf{`k:{"port":80}`: below}}}
	}
	status := owner("kubectl-edit", "Update", data("f:a"))
	status["subresource"] = "status"
	other := owner("kubectl-edit", "Update", data("f:a"))
	other["apiVersion"] = "v2"
	for name, c := range map[string]struct {
		managed []any
		rules   []drift.IgnoreRule
		want    []any
	}{
		"client-side apply": {
			managed: []any{ours, owner("kubectl-client-side-apply", "Update", data(".", "f:a", "f:b", "f:theirs"))},
			want:    []any{ours, owner("kubectl-client-side-apply", "Update", data(".", "f:theirs"))},
		},
		"an entry of which nothing is left": {
			managed: []any{ours, owner("helm", "Update", data("f:a"))},
			want:    []any{ours},
		},
		"server-side apply of Terraform": {
			managed: []any{owner("Terraform", "Apply", data("f:b")), ours},
			want:    []any{ours},
		},
		"an item goes with its defaults": {
			managed: []any{
				owner("slipway/p", "Apply", port(fieldsOf{".": leaf(), "f:port": leaf()})),
				owner("kubectl-create", "Update", port(fieldsOf{".": leaf(), "f:port": leaf(), "f:targetPort": leaf()})),
			},
			want: []any{owner("slipway/p", "Apply", port(fieldsOf{".": leaf(), "f:port": leaf()}))},
		},
		"a list of which nothing is left": {
			managed: []any{
				owner("slipway/p", "Apply", port(fieldsOf{".": leaf(), "f:port": leaf()})),
				owner("kubectl-create", "Update", fieldsOf{"f:spec": fieldsOf{"f:type": leaf(), "f:ports": fieldsOf{".": leaf(), `k:{"port":80}`: leaf()}}}),
			},
			want: []any{
				owner("slipway/p", "Apply", port(fieldsOf{".": leaf(), "f:port": leaf()})),
				owner("kubectl-create", "Update", fieldsOf{"f:spec": fieldsOf{"f:type": leaf()}}),
			},
		},
		"what the placement wrote without an apply": {
			managed: []any{ours, owner("slipway/p", "Update", data("f:c"))},
			want:    []any{owner("slipway/p", "Apply", data("f:a", "f:b", "f:c"))},
		},
		"what the placement wrote without any apply": {
			managed: []any{owner("slipway/p", "Update", data("f:c"))},
			want:    []any{owner("slipway/p", "Apply", data("f:c"))},
		},
		"a controller":           {managed: []any{ours, owner("kube-controller-manager", "Update", data("f:a"))}},
		"Argo CD":                {managed: []any{ours, owner("argocd-controller", "Apply", data("f:a"))}},
		"another placement":      {managed: []any{ours, owner("slipway/q", "Apply", data("f:a"))}},
		"a status":               {managed: []any{ours, status}},
		"another version":        {managed: []any{ours, other}},
		"other fields":           {managed: []any{ours, owner("helm", "Update", data("f:x"))}},
		"nothing applied yet":    {managed: []any{owner("helm", "Update", data("f:a"))}},
		"a whole map of another": {managed: []any{ours, owner("helm", "Update", fieldsOf{"f:data": leaf()})}},
		"a rule keeps it": {
			managed: []any{ours, owner("helm", "Update", data("f:a"))},
			rules:   []drift.IgnoreRule{{Kind: "ConfigMap", Managers: []string{"helm"}}},
		},
		"a rule about others": {
			managed: []any{ours, owner("helm", "Update", data("f:a"))},
			rules:   []drift.IgnoreRule{{Kind: "Secret", Managers: []string{"helm"}}},
			want:    []any{ours},
		},
		"no entry at all": {managed: []any{ours, "nonsense"}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: fieldsOf{"apiVersion": "v1", "kind": "ConfigMap", "metadata": fieldsOf{"name": "x", "managedFields": c.managed}}}
			before := obj.DeepCopyObject
			was := before()
			if d := cmp.Diff(c.want, drift.TakeOver(obj, "slipway/p", c.rules)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(was, obj.DeepCopyObject()); name != "no entry at all" && d != "" {
				t.Errorf("the live object was changed: %s", d)
			}
		})
	}
}

func TestIsApplier(t *testing.T) {
	for manager, want := range map[string]bool{
		"kubectl": true, "kubectl-client-side-apply": true, "kubectl-edit": true, "helm": true, "HashiCorp": true, "Terraform": true,
		"pulumi-kubernetes-1a2b": true, "work-api-agent": true, "kubectlish": false, "helm-controller": false, "kustomize-controller": false,
		"argocd-controller": false, "kube-controller-manager": false, "vpa-updater": false, "": false,
	} {
		if drift.IsApplier(manager) != want {
			t.Errorf("%q is an applier: %t", manager, !want)
		}
	}
}

// A field that the hub dropped is stale although kubectl owns it too, because the next apply
// takes it away.
func TestAFieldThatAnApplierOwnsTooIsStale(t *testing.T) {
	obj := func(data fieldsOf, managed ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: fieldsOf{"apiVersion": "v1", "kind": "ConfigMap", "metadata": fieldsOf{"name": "x", "managedFields": managed}, "data": data}}
	}
	for manager, want := range map[string]int{"kubectl-client-side-apply": 1, "vpa-updater": 0} {
		live := obj(fieldsOf{"a": "1", "b": "2"},
			owner("slipway/p", "Apply", fieldsOf{"f:data": fieldsOf{"f:a": leaf(), "f:b": leaf()}}),
			owner(manager, "Update", fieldsOf{"f:data": fieldsOf{".": leaf(), "f:a": leaf(), "f:b": leaf(), "f:c": leaf()}}),
		)
		r, err := drift.Compare(obj(fieldsOf{"a": "1"}), live, drift.Options{Manager: "slipway/p"})
		if err != nil || r.Total != want {
			t.Errorf("%s: %+v, %v", manager, r.Differences, err)
		}
	}
}
