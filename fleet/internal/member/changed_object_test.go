package member

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// TestAnObjectThatOthersChangedIsReconciledFromItsLiveState checks that an update uses the live
// state of an object that another client changed since this process applied it, even if the ledger
// is cached.
func TestAnObjectThatOthersChangedIsReconciledFromItsLiveState(t *testing.T) {
	for name, c := range map[string]struct {
		change func(k *kit, a *unstructured.Unstructured)
		err    error
		want   string
	}{
		"changed": {func(k *kit, a *unstructured.Unstructured) {
			a.Object["data"] = map[string]any{"v": "theirs"}
			k.exists(a)
		}, nil, "2+ours"},
		"deleted": {func(k *kit, a *unstructured.Unstructured) {
			k.delete(snapshot.IDOf(a))
		}, nil, "2+ours"},
		"made again": {func(k *kit, a *unstructured.Unstructured) {
			k.delete(snapshot.IDOf(a))
			k.exists(configMap("app", "a", "theirs"))
		}, nil, "2+ours"},
		"another placement's": {func(k *kit, a *unstructured.Unstructured) {
			a.SetAnnotations(map[string]string{digestMark + kitPlacement: annotation(a, digestMark+kitPlacement), digestMark + "other": "x"})
			k.exists(a)
		}, backend.ErrPermanent, "1+ours"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			u := k.leader(nil)
			k.must(u, k.want("A", 1, "first"))
			a, err := k.member.Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "app", Name: "a"})
			if err != nil {
				t.Fatal(err)
			}
			c.change(k, a)
			if _, err := u.Update(t.Context(), k.want("B", 2, "second")); !errors.Is(err, c.err) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			if got := k.objects()["ConfigMap/app/a"]; got != c.want {
				t.Errorf("a is %q, want %q", got, c.want)
			}
			if adopted := name == "made again"; c.err == nil && k.entry("a").Adopted != adopted {
				t.Errorf("adopted: %v, want %v", !adopted, adopted)
			}
		})
	}
}

func (k *kit) delete(id snapshot.ID) {
	k.t.Helper()
	if err := k.member.Conn().Delete(k.t.Context(), id, backend.DeleteOptions{}); err != nil {
		k.t.Fatal(err)
	}
}

// entry returns the ledger's entry of an object.
func (k *kit) entry(name string) ledgerObject {
	k.t.Helper()
	for _, o := range k.ledger().Objects {
		if o.Name == name {
			return o
		}
	}
	k.t.Fatalf("the ledger does not have %s", name)
	return ledgerObject{}
}
