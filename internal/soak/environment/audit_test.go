package environment

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

// An object that one attempt changes twice is a violation, even if another process makes the
// second change.
func TestAnObjectChangedTwiceIsAViolation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, value := range []string{"one", "two"} {
		env, err := Open(t.Context(), Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := env.Provision(t.Context(), []Member{{Name: "c"}}); err != nil {
			t.Fatal(err)
		}
		changeMember(t, env, value)
		if err := env.CheckAudit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if broken := env.Violations.Err() != nil; broken != (i == 1) {
			t.Errorf("after %s: %v", value, env.Violations.Err())
		}
		if err := env.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// changeMember applies a setting as attempt 1 of a run, which is in the ledger.
func changeMember(t *testing.T, env *Environment, value string) {
	t.Helper()
	c, err := env.dialer().Dial(t.Context(), placement.Cluster{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	meta := func(o map[string]any) map[string]any { return map[string]any{"metadata": o} }
	for _, obj := range []map[string]any{
		{"apiVersion": "v1", "kind": "Namespace", "name": LedgerNamespace},
		{"apiVersion": "v1", "kind": "ConfigMap", "namespace": LedgerNamespace, "name": "web", "data": map[string]any{"ledger": `{"runUID":"uid","run":"r","attempt":1}`}},
	} {
		full := meta(map[string]any{"name": obj["name"]})
		if ns, ok := obj["namespace"]; ok {
			full = meta(map[string]any{"name": obj["name"], "namespace": ns})
			full["data"] = obj["data"]
		}
		full["apiVersion"], full["kind"] = obj["apiVersion"], obj["kind"]
		apply(t, c, &unstructured.Unstructured{Object: full})
	}
	apply(t, c, setting("web", value))
	apply(t, c, setting("web", value)) // a write without a change does not count
}

func apply(t *testing.T, c backend.Conn, obj *unstructured.Unstructured) {
	t.Helper()
	if _, err := c.Apply(t.Context(), obj, backend.ApplyOptions{Manager: "slipway/web"}); err != nil {
		t.Fatal(err)
	}
}
